//! The shipped files: machines, devices, workloads, models, stacks. This crate carries none: the front hands them in.
//!
//! Where the environment names a checkout in [`FOLDER`], its files stand in their place: a changed figure is there, and
//! nothing is compiled. Cargo sets the variable for all that it runs in this repository.

use std::path::Path;
use std::sync::OnceLock;

use super::files::json_below;
use super::{Kind, SpecError};

/// The path of a file in the repository, as `topologies/devices/h100-sxm.json`, and its text.
pub type ShippedFile = (&'static str, &'static str);

/// The variable of the environment that names a folder with `topologies/` and `workloads/`.
pub const FOLDER: &str = "STEPSIM_SHIPPED";

static FILES: OnceLock<&'static [ShippedFile]> = OnceLock::new();

/// Hands in the shipped files, before anything is loaded: the first call counts.
///
/// # Errors
/// The folder that the environment names has none.
pub fn register(files: &'static [ShippedFile]) -> Result<(), SpecError> {
    let files = of_folder()?.unwrap_or(files);
    FILES.get_or_init(|| files);
    Ok(())
}

fn files() -> &'static [ShippedFile] {
    FILES.get_or_init(|| of_folder().ok().flatten().unwrap_or_default())
}

/// The files of the folder that the environment names, read once.
fn of_folder() -> Result<Option<&'static [ShippedFile]>, SpecError> {
    let Some(folder) = std::env::var_os(FOLDER) else { return Ok(None) };
    let mut found = Vec::new();
    for name in ["topologies", "workloads"] {
        json_below(Path::new(&folder), name, &mut found);
    }
    if found.is_empty() {
        let problem = format!("{} holds no shipped files", Path::new(&folder).display());
        let hint = "name a folder with `topologies/` and `workloads/`, or unset it";
        return Err(SpecError::file(FOLDER, problem).hint(hint));
    }
    found.sort();
    let leaked = found.into_iter().map(|(path, text)| (&*path.leak(), &*text.leak()));
    Ok(Some(leaked.collect::<Vec<ShippedFile>>().leak()))
}

impl Kind {
    /// The folder of its files, with a trailing slash.
    pub fn folder(self) -> &'static str {
        match self {
            Kind::Topology => "topologies/",
            Kind::Device => "topologies/devices/",
            Kind::Workload => "workloads/",
            Kind::Model => "workloads/models/",
            Kind::Stack => "workloads/stacks/",
            Kind::Recipe => "workloads/recipes/",
            Kind::Collectives => "topologies/collectives/",
            Kind::Rules => "workloads/rules/",
            Kind::Reliability => "workloads/reliability/",
        }
    }
}

/// The names of the shipped files of a kind, in order.
pub fn names(kind: Kind) -> impl Iterator<Item = &'static str> {
    files().iter().filter_map(move |(path, _)| name_of(kind, path))
}

/// The shipped files of a folder: the name of each without `.json`, and its text.
pub fn folder(folder: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    files()
        .iter()
        .filter_map(move |(path, text)| Some((path.strip_prefix(folder)?.strip_suffix(".json")?, *text)))
}

/// The text of a shipped file that is of no kind, by its path in the repository.
pub fn file(path: &str) -> Option<&'static str> {
    files().iter().find(|(name, _)| *name == path).map(|(_, text)| *text)
}

/// A table that is shipped; an empty one where nothing is.
///
/// # Panics
/// The file cannot be read: a defect, and nothing is told by half of a table.
pub fn table<T: serde::de::DeserializeOwned + Default>(path: &str) -> T {
    let read = |text| stepsim_located::shipped(text).unwrap_or_else(|e| panic!("{path}: {e}"));
    file(path).map(read).unwrap_or_default()
}

/// The text of a shipped file.
pub fn text(kind: Kind, name: &str) -> Option<&'static str> {
    files().iter().find(|(path, _)| name_of(kind, path) == Some(name)).map(|(_, text)| *text)
}

fn name_of(kind: Kind, path: &'static str) -> Option<&'static str> {
    let name = path.strip_prefix(kind.folder())?.strip_suffix(".json")?;
    (!name.contains('/') && !name.ends_with("schema")).then_some(name)
}
