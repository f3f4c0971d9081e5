//! The files that the binary carries: machines, devices, workloads, models, stacks.

use super::Kind;

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
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
    embedded::FILES.iter().filter_map(move |(path, _)| name_of(kind, path))
}

/// The shipped files of a folder: the name of each without `.json`, and its text.
pub fn folder(folder: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    embedded::FILES
        .iter()
        .filter_map(move |(path, text)| Some((path.strip_prefix(folder)?.strip_suffix(".json")?, *text)))
}

/// The text of a shipped file that is of no kind, by its path in the repository.
pub fn file(path: &str) -> Option<&'static str> {
    embedded::FILES.iter().find(|(name, _)| *name == path).map(|(_, text)| *text)
}

/// The text of a shipped file.
pub fn text(kind: Kind, name: &str) -> Option<&'static str> {
    embedded::FILES.iter().find(|(path, _)| name_of(kind, path) == Some(name)).map(|(_, text)| *text)
}

fn name_of(kind: Kind, path: &'static str) -> Option<&'static str> {
    let name = path.strip_prefix(kind.folder())?.strip_suffix(".json")?;
    (!name.contains('/') && !name.ends_with("schema")).then_some(name)
}
