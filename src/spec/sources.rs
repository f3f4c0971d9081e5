//! The text behind a name, a path or a form, laid over its base, with the named files in the place of their names.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::nearest;
use super::files::{Files, exists};
use super::readers::readers;
use super::{Kind, SpecError, catalog, json, machine_name, machine_size, names, simple};

/// Files may name a base, which may name a base: at most so many.
const MAX_BASES: usize = 8;

/// Where the text of a file is.
enum Source {
    Shipped { kind: Kind, name: String },
    Disk(PathBuf),
}

impl Source {
    /// By name or by path, relative to `folder`.
    fn find(kind: Kind, name_or_path: &str, folder: Option<&Path>) -> Result<Source, SpecError> {
        let model = names::shipped_exactly(name_or_path);
        let is_model = kind == Kind::Workload && model.is_some();
        let is_file = machine_name::is_called_like_a_file(name_or_path) || exists(Path::new(name_or_path));
        if machine_name::is_path(name_or_path) && (is_file || !is_model) {
            let path = Path::new(name_or_path);
            return Ok(Source::Disk(folder.map_or_else(|| path.to_path_buf(), |folder| folder.join(path))));
        }
        if catalog::text(kind, name_or_path).is_some() {
            return Ok(Source::Shipped { kind, name: name_or_path.to_string() });
        }
        let names: Vec<&str> = catalog::names(kind).collect();
        let near = nearest(name_or_path, names.iter().copied());
        let device = kind == Kind::Topology && machine_name::is_device(name_or_path);
        let hint = match (near.is_empty(), kind) {
            _ if is_model => {
                format!(
                    "`{name_or_path}` is a model: stepsim plan {} --on 64xh100",
                    model.unwrap_or_default()
                )
            }
            (_, Kind::Model) if model.is_some() => {
                format!("it is called `{}` here", model.unwrap_or_default())
            }
            _ if device => format!("`{name_or_path}` is a device; how many? `8x{name_or_path}`"),
            (false, _) => format!("did you mean `{}`? A path of your own ends in .json", near.join("`, `")),
            (true, Kind::Topology) => {
                format!(
                    "a path ends in .json; a count and a name: `64xh100`; simple machines: {}",
                    simple::FORMS
                )
            }
            (true, _) => "a path of your own contains `/` or ends in .json".to_string(),
        };
        let problem = format!("no {} has the name `{name_or_path}`", kind.name());
        Err(SpecError::at("", problem).allowed(names.join(", ")).hint(hint))
    }
    /// The name in messages.
    fn file(&self) -> String {
        match self {
            Source::Shipped { kind, name } => format!("{}{name}.json", kind.folder()),
            Source::Disk(path) => path.display().to_string(),
        }
    }
    fn folder(&self) -> Option<&Path> {
        match self {
            Source::Shipped { .. } => None,
            Source::Disk(path) => path.parent(),
        }
    }
    fn text(&self, files: &dyn Files) -> Result<String, SpecError> {
        match self {
            Source::Shipped { kind, name } => Ok(catalog::text(*kind, name).unwrap_or_default().to_string()),
            Source::Disk(path) => {
                files.read(Path::new(&(readers().path)(&path.display().to_string()))).map_err(|e| {
                    let error = SpecError::file(self.file(), format!("cannot be read: {e}"));
                    match machine_name::is_called_like_a_file(&self.file()) {
                        true => error
                            .hint("check the path; a shipped file is named without folder and without .json"),
                        false => error
                            .hint(format!("a model by its name: stepsim plan {} --on 64xh100", self.file())),
                    }
                })
            }
        }
    }
}

/// Where names and paths are looked up.
#[derive(Clone, Copy)]
pub(super) struct Lookup<'a> {
    /// The folder that paths are relative to.
    folder: Option<&'a Path>,
    /// How many files stand on the one that is looked up, as on their base.
    depth: usize,
    files: &'a dyn Files,
}

impl<'a> Lookup<'a> {
    /// From here; paths are read from `files`.
    pub(super) fn here(files: &'a dyn Files) -> Lookup<'a> {
        Lookup { folder: None, depth: 0, files }
    }

    /// The value behind a name, a path or a form, and its name in messages. A machine may be simple, or a part of
    /// another.
    pub(super) fn named(self, kind: Kind, named: &str) -> Result<(Value, String), SpecError> {
        if kind == Kind::Topology && simple::looks_simple(named) {
            return Ok((simple::machine(named)?, named.to_string()));
        }
        if kind == Kind::Topology
            && let Some((devices, name)) = machine_name::count_and_name(named)
        {
            let machine = self.counted(devices, name).map_err(|e| e.in_file(named))?;
            return Ok((machine, named.to_string()));
        }
        let source = Source::find(kind, named, self.folder)?;
        Ok((self.whole(kind, &source)?, source.file()))
    }

    /// A shipped machine, one on disk, or the one in which devices of that name usually stand, with `devices` devices.
    fn counted(self, devices: u64, name: &str) -> Result<Value, SpecError> {
        if machine_name::is_path(name) || catalog::text(Kind::Topology, name).is_some() {
            let (mut machine, _) = self.named(Kind::Topology, name)?;
            let device = machine["device"]["name"].as_str().unwrap_or_default();
            let domain = machine_name::usual_machine(device).and_then(|usual| usual.domain);
            machine_size::resize(&mut machine, devices, domain)?;
            return Ok(machine);
        }
        let usual = machine_name::usual_machine(name).filter(|_| machine_name::is_device(name));
        let usual = usual.ok_or_else(|| machine_name::unknown(devices, name))?;
        let shipped = usual.topology.as_deref().unwrap_or_default();
        let (mut machine, _) = Lookup { folder: None, ..self }.named(Kind::Topology, shipped)?;
        if let Some(device) = &usual.device {
            let source = Source::find(Kind::Device, device, None)?;
            machine["device"] = Lookup { depth: 0, ..self }.whole(Kind::Device, &source)?;
        }
        for set in &usual.set {
            let (path, value) = json::setting(set)?;
            json::set(&mut machine, path, value)?;
        }
        let about = machine["description"].as_str().unwrap_or_default().to_string();
        let differs = match usual.set.as_slice() {
            [] => String::new(),
            sets => format!(", but {}", sets.join(", ")),
        };
        machine["description"] = format!("{devices} {name}, as in {shipped} ({about}){differs}").into();
        machine_size::resize(&mut machine, devices, usual.domain)?;
        Ok(machine)
    }

    /// Reads a file and completes it.
    fn whole(self, kind: Kind, source: &Source) -> Result<Value, SpecError> {
        let file = source.file();
        let text = source.text(self.files)?;
        let foreign = match (kind, source) {
            (Kind::Workload, Source::Disk(_)) => (readers().workload)(&text, &file)?,
            _ => None,
        };
        let value = match (foreign, kind) {
            (Some(made), _) => made,
            // A config.json is written by Python.
            (None, Kind::Model) => json::read_of_others(&file, &text)?,
            (None, _) => json::read(&file, &text)?,
        };
        Lookup { folder: source.folder(), ..self }.complete(kind, value, &file)
    }

    /// Lays the content of a file over its `base` if it names one, and resolves what it refers to.
    pub(super) fn complete(self, kind: Kind, mut value: Value, file: &str) -> Result<Value, SpecError> {
        if !value.is_object() {
            return Err(SpecError::file(file, format!("a {} file holds a JSON object", kind.name()))
                .hint("see `stepsim schema`"));
        }
        if kind == Kind::Model {
            value = (readers().model)(value, file)?;
        }
        let references = ["device", "model", "collectives", "stack"];
        let named: Vec<&str> = references.into_iter().filter(|key| value[*key].is_string()).collect();
        self.resolve(kind, &mut value).map_err(|e| e.in_file(file))?;
        let Some(base) = value.as_object_mut().and_then(|map| map.shift_remove("base")) else {
            return Ok(value);
        };
        let wrong = |problem: String| SpecError::at("base", problem).in_file(file);
        let Some(base) = base.as_str() else {
            let allowed = "the name or path of another file of this kind";
            return Err(wrong(format!("{base} is not allowed")).allowed(allowed));
        };
        if self.depth == MAX_BASES {
            return Err(wrong(format!("more than {MAX_BASES} files stand on one another"))
                .hint("does a base name a file that stands on it?"));
        }
        let below = Lookup { depth: self.depth + 1, ..self };
        let (mut whole, _) = below.named(kind, base).map_err(|e| match e.file.is_empty() {
            true => e.under("base").in_file(file),
            false => e,
        })?;
        for key in named {
            whole[key].take(); // another device replaces the base's, it is not laid over it
        }
        match kind {
            Kind::Workload => json::lay(&mut whole, value), // its nulls are for the defaults of its stack too
            _ => json::merge(&mut whole, value),
        }
        Ok(whole)
    }

    /// Puts the content of named files in the place of their names.
    pub(super) fn resolve(self, kind: Kind, value: &mut Value) -> Result<(), SpecError> {
        match kind {
            Kind::Topology => {
                self.inline(Kind::Device, value.get_mut("device"), "device")?;
                self.inline(Kind::Collectives, value.get_mut("collectives"), "collectives")?;
                for list in ["/other_nodes", "/graph/vertices"] {
                    let entries = value.pointer_mut(list).and_then(Value::as_array_mut);
                    for (i, entry) in entries.into_iter().flatten().enumerate() {
                        let path = format!("{}[{i}].device", list[1..].replace('/', "."));
                        self.inline(Kind::Device, entry.get_mut("device"), &path)?;
                    }
                }
                Ok(())
            }
            Kind::Workload => {
                for path in ATTACHED {
                    self.attach(value.pointer_mut(&format!("/{}", path.replace('.', "/"))), path)?;
                }
                let beside = |named: &str| Some(self.folder?.join(named)).filter(|path| exists(path));
                if let Some(path) =
                    value["topology"].as_str().filter(|n| machine_name::is_path(n)).and_then(beside)
                {
                    value["topology"] = path.display().to_string().into();
                }
                self.inline(Kind::Model, value.get_mut("model"), "model")?;
                self.inline(Kind::Recipe, value.pointer_mut("/precision/recipe"), "precision.recipe")?;
                self.inline(Kind::Stack, value.get_mut("stack"), "stack")
            }
            Kind::Device
            | Kind::Model
            | Kind::Stack
            | Kind::Recipe
            | Kind::Collectives
            | Kind::Rules
            | Kind::Reliability => Ok(()),
        }
    }

    /// Puts the content of a JSON file in the place of its path.
    fn attach(self, slot: Option<&mut Value>, at: &str) -> Result<(), SpecError> {
        let Some(slot) = slot else { return Ok(()) };
        let Some(path) = slot.as_str() else { return Ok(()) };
        let path = self.folder.map_or_else(|| PathBuf::from(path), |folder| folder.join(path));
        let name = path.display().to_string();
        let text =
            self.files.read(&path).map_err(|e| SpecError::at(at, format!("{name} cannot be read: {e}")))?;
        *slot = json::read(&name, &text)?;
        Ok(())
    }

    fn inline(self, kind: Kind, slot: Option<&mut Value>, path: &str) -> Result<(), SpecError> {
        let Some(slot) = slot else { return Ok(()) };
        let read = |name: &str, path: &str| {
            let source = Source::find(kind, name, self.folder).map_err(|e| e.under(path))?;
            Lookup { depth: 0, ..self }.whole(kind, &source)
        };
        if let Some(name) = slot.as_str() {
            *slot = read(name, path)?;
        } else if let Some(Value::String(base)) =
            slot.as_object_mut().and_then(|map| map.shift_remove("base"))
        {
            // Written in place over a file of its kind.
            let mut whole = read(&base, &format!("{path}.base"))?;
            json::merge(&mut whole, slot.take());
            *slot = whole;
        }
        Ok(())
    }
}

/// Fields of a workload that name a JSON file of their own.
const ATTACHED: [&str; 4] =
    ["parallelism.rank_map", "parallelism.pipeline.order_file", "expert_load.counts_file", "documents.file"];
