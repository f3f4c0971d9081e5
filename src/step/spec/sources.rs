//! What a name, a path or a form stands for: its text, laid over its base, with what it names in the place of the names.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::nearest;
use super::files::Files;
use super::foreign::{foreign, model_of};
use super::imports::Invocation;
use super::{Kind, SpecError, catalog, hugging_face, json, machine_name, machine_size, names, simple};

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
        if machine_name::is_path(name_or_path) {
            let path = Path::new(name_or_path);
            return Ok(Source::Disk(folder.map_or_else(|| path.to_path_buf(), |folder| folder.join(path))));
        }
        if catalog::text(kind, name_or_path).is_some() {
            return Ok(Source::Shipped { kind, name: name_or_path.to_string() });
        }
        let names: Vec<&str> = catalog::names(kind).collect();
        let near = nearest(name_or_path, names.iter().copied());
        let device = kind == Kind::Topology && machine_name::is_device(name_or_path);
        let model = names::shipped_exactly(name_or_path);
        let hint = match (near.is_empty(), kind) {
            (_, Kind::Workload) if model.is_some() => {
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
                files.read(Path::new(&Invocation::of(&path.display().to_string()).file)).map_err(|e| {
                    SpecError::file(self.file(), format!("cannot be read: {e}"))
                        .hint("check the path; a shipped file is named without folder and without .json")
                })
            }
        }
    }
}

/// What a name, a path or a form stands for, and how messages name it. A machine may be simple, or a part of another.
pub(super) fn read_named(
    kind: Kind,
    named: &str,
    folder: Option<&Path>,
    depth: usize,
    files: &dyn Files,
) -> Result<(Value, String), SpecError> {
    if kind == Kind::Topology && simple::looks_simple(named) {
        return Ok((simple::machine(named)?, named.to_string()));
    }
    if kind == Kind::Topology
        && let Some((devices, name)) = machine_name::count_and_name(named)
    {
        let machine = counted(devices, name, folder, depth, files).map_err(|e| e.in_file(named))?;
        return Ok((machine, named.to_string()));
    }
    let source = Source::find(kind, named, folder)?;
    Ok((read_whole(kind, &source, depth, files)?, source.file()))
}

/// A shipped machine, one on disk, or the one in which devices of that name usually stand, with so many devices.
fn counted(
    devices: u64,
    name: &str,
    folder: Option<&Path>,
    depth: usize,
    files: &dyn Files,
) -> Result<Value, SpecError> {
    if machine_name::is_path(name) || catalog::text(Kind::Topology, name).is_some() {
        let (mut machine, _) = read_named(Kind::Topology, name, folder, depth, files)?;
        let device = machine["device"]["name"].as_str().unwrap_or_default();
        let domain = machine_name::usual_machine(device).and_then(|usual| usual.domain);
        machine_size::resize(&mut machine, devices, domain)?;
        return Ok(machine);
    }
    let usual = machine_name::usual_machine(name).filter(|_| machine_name::is_device(name));
    let usual = usual.ok_or_else(|| machine_name::unknown(name))?;
    let shipped = usual.topology.as_deref().unwrap_or_default();
    let (mut machine, _) = read_named(Kind::Topology, shipped, None, depth, files)?;
    if let Some(device) = &usual.device {
        machine["device"] = read_whole(Kind::Device, &Source::find(Kind::Device, device, None)?, 0, files)?;
    }
    for set in &usual.set {
        let (path, value) = json::setting(set)?;
        json::set(&mut machine, path, value)?;
    }
    let about = machine["description"].as_str().unwrap_or_default().to_string();
    machine["description"] = format!("{devices} {name}, as in {shipped} ({about})").into();
    machine_size::resize(&mut machine, devices, usual.domain)?;
    Ok(machine)
}

/// Reads a file and completes it.
fn read_whole(kind: Kind, source: &Source, depth: usize, files: &dyn Files) -> Result<Value, SpecError> {
    let file = source.file();
    let text = source.text(files)?;
    let foreign = match (kind, source) {
        (Kind::Workload, Source::Disk(_)) => foreign(&text, &file)?,
        _ => None,
    };
    let value = foreign.map_or_else(|| json::read(&file, &text), Ok)?;
    complete(kind, value, &file, source.folder(), depth, files)
}

/// Lays the content of a file over its `base` if it names one, and resolves what it refers to.
pub(super) fn complete(
    kind: Kind,
    mut value: Value,
    file: &str,
    folder: Option<&Path>,
    depth: usize,
    files: &dyn Files,
) -> Result<Value, SpecError> {
    if !value.is_object() {
        return Err(SpecError::file(file, format!("a {} file holds a JSON object", kind.name()))
            .hint("see `stepsim schema`"));
    }
    if kind == Kind::Model && hugging_face::is_config(&value) {
        return model_of(value, file);
    }
    let named: Vec<&str> = ["device", "model", "collectives", "stack"]
        .into_iter()
        .filter(|key| value[*key].is_string())
        .collect();
    resolve(kind, &mut value, folder, files).map_err(|e| e.in_file(file))?;
    let Some(base) = value.as_object_mut().and_then(|map| map.shift_remove("base")) else {
        return Ok(value);
    };
    let wrong = |problem: String| SpecError::at("base", problem).in_file(file);
    let Some(base) = base.as_str() else {
        return Err(
            wrong(format!("{base} is not allowed")).allowed("the name or path of another file of this kind")
        );
    };
    if depth == MAX_BASES {
        return Err(wrong(format!("more than {MAX_BASES} files stand on one another"))
            .hint("does a base name a file that stands on it?"));
    }
    let (mut whole, _) =
        read_named(kind, base, folder, depth + 1, files).map_err(|e| match e.file.is_empty() {
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
pub(super) fn resolve(
    kind: Kind,
    value: &mut Value,
    folder: Option<&Path>,
    files: &dyn Files,
) -> Result<(), SpecError> {
    match kind {
        Kind::Topology => {
            inline(Kind::Device, value.get_mut("device"), "device", folder, files)?;
            inline(Kind::Collectives, value.get_mut("collectives"), "collectives", folder, files)?;
            let others = value.get_mut("other_nodes").and_then(Value::as_array_mut);
            for (i, other) in others.into_iter().flatten().enumerate() {
                let path = format!("other_nodes[{i}].device");
                inline(Kind::Device, other.get_mut("device"), &path, folder, files)?;
            }
            let vertices =
                value.get_mut("graph").and_then(|g| g.get_mut("vertices")).and_then(Value::as_array_mut);
            for (i, vertex) in vertices.into_iter().flatten().enumerate() {
                let path = format!("graph.vertices[{i}].device");
                inline(Kind::Device, vertex.get_mut("device"), &path, folder, files)?;
            }
            Ok(())
        }
        Kind::Workload => {
            for path in ATTACHED {
                let pointer = format!("/{}", path.replace('.', "/"));
                attach(value.pointer_mut(&pointer), path, folder, files)?;
            }
            inline(Kind::Model, value.get_mut("model"), "model", folder, files)?;
            let recipe = value.pointer_mut("/precision/recipe");
            inline(Kind::Recipe, recipe, "precision.recipe", folder, files)?;
            inline(Kind::Stack, value.get_mut("stack"), "stack", folder, files)
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

/// Fields of a workload that name a JSON file of their own.
const ATTACHED: [&str; 4] =
    ["parallelism.rank_map", "parallelism.pipeline.order_file", "expert_load.counts_file", "documents.file"];

/// Puts the content of a JSON file in the place of its path.
fn attach(
    slot: Option<&mut Value>,
    at: &str,
    folder: Option<&Path>,
    files: &dyn Files,
) -> Result<(), SpecError> {
    let Some(slot) = slot else { return Ok(()) };
    let Some(path) = slot.as_str() else { return Ok(()) };
    let path = folder.map_or_else(|| PathBuf::from(path), |folder| folder.join(path));
    let name = path.display().to_string();
    let text = files.read(&path).map_err(|e| SpecError::at(at, format!("{name} cannot be read: {e}")))?;
    *slot = json::read(&name, &text)?;
    Ok(())
}

fn inline(
    kind: Kind,
    slot: Option<&mut Value>,
    path: &str,
    folder: Option<&Path>,
    files: &dyn Files,
) -> Result<(), SpecError> {
    let Some(slot) = slot else { return Ok(()) };
    let read = |name: &str, path: &str| {
        read_whole(kind, &Source::find(kind, name, folder).map_err(|e| e.under(path))?, 0, files)
    };
    if let Some(name) = slot.as_str() {
        *slot = read(name, path)?;
    } else if let Some(Value::String(base)) = slot.as_object_mut().and_then(|map| map.shift_remove("base")) {
        // Written in place over a file of its kind.
        let mut whole = read(&base, &format!("{path}.base"))?;
        json::merge(&mut whole, slot.take());
        *slot = whole;
    }
    Ok(())
}
