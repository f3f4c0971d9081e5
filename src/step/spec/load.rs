//! From a name or a path to a validated value: read, lay over its base, resolve references, set, type, validate.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::content::Content;
use super::error::nearest;
use super::files::{Disk, Files, Noted};
use super::imports::{Beside, FileKind, file_and_function, recognise, translate, translate_model};
use super::{
    Kind, Spec, SpecError, Topology, catalog, dependents, hugging_face, json, machine_name, machine_size,
    simple, stack_defaults,
};

/// Files may name a base, which may name a base: at most so many.
const MAX_BASES: usize = 8;

/// A value with where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded<T> {
    /// The value.
    pub value: T,
    /// Its short name: the file name without folder and `.json`, or the argument itself for a simple machine.
    pub name: String,
    /// The file as messages name it.
    pub file: String,
    /// 16 hex digits over the content (references resolved, settings applied; spelling and key order do not count).
    pub hash: String,
    /// What the hash is over.
    pub content: Content,
    /// The files that were read for it: itself, its bases, what they name and what settings name.
    pub read: Vec<PathBuf>,
    /// The settings that were applied, as they were given: what shows only later is blamed on them ([`blame_setting`]).
    pub sets: Vec<String>,
    /// What the file says, before settings.
    pub(super) own: Arc<Value>,
}

/// Loads a value by name (of the shipped files) or by path (contains `/`, ends in `.json`, or is `-` for the standard
/// input), or from its content (begins with `{`; it is then called after its kind, and paths in it are relative to here);
/// a topology also from the form of a simple machine ([`simple::FORMS`]) or by count and name (`64xh100`). `sets` are `path=value` texts applied in order.
///
/// # Errors
/// Anything wrong with the file, the files it refers to, or a setting, as [`SpecError`] says.
pub fn load<T: Spec>(name_or_path: &str, sets: &[String]) -> Result<Loaded<T>, SpecError> {
    load_from(name_or_path, sets, &Disk)
}

/// As [`load`], with paths read from `files`.
///
/// # Errors
/// As [`load`].
pub fn load_from<T: Spec>(
    name_or_path: &str,
    sets: &[String],
    files: &dyn Files,
) -> Result<Loaded<T>, SpecError> {
    Draft::<T>::read(name_or_path, files)?.finish(sets, files)
}

/// A file before settings, its base under it and what it names in place: read once, typed with any number of settings.
#[derive(Clone, Debug)]
pub struct Draft<T> {
    value: Arc<Value>,
    name: String,
    file: String,
    read: Vec<PathBuf>,
    kind: PhantomData<fn() -> T>,
}

impl<T: Spec> Draft<T> {
    /// Reads a file as [`load`] does.
    ///
    /// # Errors
    /// As [`load`], but for what types and validation find.
    pub fn load(name_or_path: &str) -> Result<Draft<T>, SpecError> {
        Draft::read(name_or_path, &Disk)
    }
    /// The value under these settings.
    ///
    /// # Errors
    /// As [`load`].
    pub fn with(&self, sets: &[String]) -> Result<Loaded<T>, SpecError> {
        self.finish(sets, &Disk)
    }
    /// The value under these settings, typed but not validated: fields exist and take values of this type, what they mean
    /// together is not looked at.
    ///
    /// # Errors
    /// A field that does not exist, or a value that it cannot take.
    pub fn unchecked(&self, sets: &[String]) -> Result<T, SpecError> {
        typed::<T>((*self.value).clone(), &self.file, sets, &Disk).map(|typed| typed.0)
    }
    /// The files that were read for it.
    pub fn files(&self) -> &[PathBuf] {
        &self.read
    }
    /// Its short name, as of [`Loaded::name`].
    pub fn name(&self) -> &str {
        &self.name
    }
    fn read(name_or_path: &str, files: &dyn Files) -> Result<Draft<T>, SpecError> {
        if name_or_path.trim_start().starts_with('{') {
            let name = T::KIND.word().to_string();
            let noted = Noted::new(files);
            let value = complete(T::KIND, json::read(&name, name_or_path)?, &name, None, 0, &noted)?;
            let value = Arc::new(value);
            return Ok(Draft { value, file: name.clone(), name, read: noted.paths(), kind: PhantomData });
        }
        let simple = simple::looks_simple(name_or_path);
        let noted = Noted::new(files);
        let (value, file) = read_named(T::KIND, name_or_path, None, 0, &noted)?;
        let form =
            simple || (T::KIND == Kind::Topology && machine_name::count_and_name(name_or_path).is_some());
        let name = match (form, name_or_path) {
            (true, _) => name_or_path.to_string(),
            (_, "-") => "stdin".to_string(),
            _ => Path::new(name_or_path).file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        };
        Ok(Draft { value: Arc::new(value), name, file, read: noted.paths(), kind: PhantomData })
    }
    /// The content of the file.
    pub(super) fn value(&self) -> &Value {
        &self.value
    }
    fn finish(&self, sets: &[String], files: &dyn Files) -> Result<Loaded<T>, SpecError> {
        let noted = Noted::new(files);
        let (value, canonical) = typed::<T>((*self.value).clone(), &self.file, sets, &noted)?;
        self.loaded(value, Content::of(&canonical), sets, noted.paths())
    }
    /// A typed value, validated; for its settings these files were read.
    pub(super) fn loaded(
        &self,
        value: T,
        content: Content,
        sets: &[String],
        read: Vec<PathBuf>,
    ) -> Result<Loaded<T>, SpecError> {
        value.validate().map_err(|e| blame_setting(e, sets).in_file(&self.file))?;
        let read = [self.read.clone(), read].concat();
        Ok(Loaded {
            value,
            name: self.name.clone(),
            file: self.file.clone(),
            hash: content.hash(),
            content,
            read,
            sets: sets.to_vec(),
            own: Arc::clone(&self.value),
        })
    }
}

/// Loads a value from JSON text, as if it were a file called `name`: its base and the names in it are resolved, paths
/// are read from `files`.
///
/// # Errors
/// As [`load`].
pub fn from_text<T: Spec>(
    text: &str,
    name: &str,
    sets: &[String],
    files: &dyn Files,
) -> Result<Loaded<T>, SpecError> {
    let noted = Noted::new(files);
    let value = Arc::new(complete(T::KIND, json::read(name, text)?, name, None, 0, &noted)?);
    let (name, file) = (name.to_string(), name.to_string());
    Draft { value, name, file, read: noted.paths(), kind: PhantomData }.finish(sets, files)
}

/// Types and validates a value after applying `sets`; names in it mean shipped files, paths are relative to here.
///
/// # Errors
/// As [`load`].
pub fn from_value<T: Spec>(
    value: Value,
    name: String,
    file: String,
    sets: &[String],
) -> Result<Loaded<T>, SpecError> {
    let value = Arc::new(value);
    Draft { value, name, file, read: Vec::new(), kind: PhantomData }.finish(sets, &Disk)
}

/// The typed value under `sets`, and itself as JSON again.
pub(super) fn typed<T: Spec>(
    mut value: Value,
    file: &str,
    sets: &[String],
    files: &dyn Files,
) -> Result<(T, Value), SpecError> {
    resolve(T::KIND, &mut value, None, files).map_err(|e| e.in_file(file))?;
    let mut touched = Vec::new();
    for text in sets {
        let (path, new) = json::setting(text)?;
        let blame = |e: SpecError| e.in_file(&format!("--set {text}"));
        // Numbers and switches name no file.
        let names = matches!(new, Value::String(_) | Value::Array(_) | Value::Object(_));
        json::set(&mut value, path, new).map_err(blame)?;
        if names {
            resolve(T::KIND, &mut value, None, files).map_err(blame)?;
        }
        touched.push((path, text));
    }
    let blame = |e: SpecError| meant_elsewhere(T::KIND, blame(e, &touched)).in_file(file);
    if T::KIND == Kind::Workload {
        let paths: Vec<&str> = touched.iter().map(|(path, _)| *path).collect();
        dependents::settle(&mut value, &paths);
        stack_defaults::lay_over(&mut value).map_err(blame)?;
    }
    let typed: T = json::typed(&value).map_err(blame)?;
    let canonical = serde_json::to_value(&typed).unwrap_or_default();
    json::refuse_lists_for_objects(&value, &canonical, "").map_err(blame)?;
    Ok((typed, canonical))
}

/// Fields of a workload by the names that launch scripts and papers have for them.
const SHORT: [(&str, &str); 24] = [
    ("tp", "parallelism.tensor"),
    ("tensor_parallel", "parallelism.tensor"),
    ("pp", "parallelism.pipeline.size"),
    ("pipeline_parallel", "parallelism.pipeline.size"),
    ("vp", "parallelism.pipeline.chunks"),
    ("vpp", "parallelism.pipeline.chunks"),
    ("dp", "parallelism.data"),
    ("data_parallel", "parallelism.data"),
    ("cp", "parallelism.context.size"),
    ("ep", "parallelism.expert"),
    ("etp", "parallelism.expert_tensor"),
    ("sp", "parallelism.sequence_parallel"),
    ("mbs", "batch.micro_batch"),
    ("micro_batch_size", "batch.micro_batch"),
    ("gbs", "batch.global"),
    ("global_batch_size", "batch.global"),
    ("batch_size", "batch.global"),
    ("seq", "sequence"),
    ("seq_len", "sequence"),
    ("seq_length", "sequence"),
    ("zero", "parallelism.sharding.kind"),
    ("fsdp", "parallelism.sharding.kind"),
    ("dtype", "precision.compute"),
    ("software", "stack"),
];

/// A field that was looked for in the wrong place of a workload, or is one of the machine: says where it is.
fn meant_elsewhere(kind: Kind, error: SpecError) -> SpecError {
    if kind != Kind::Workload || !error.problem.starts_with("no such field") {
        return error;
    }
    let last = error.path.rsplit('.').next().unwrap_or_default();
    let model =
        || ["layers", "hidden", "heads", "kv_heads", "ffn", "vocabulary"].contains(&error.path.as_str());
    let short = SHORT.iter().find(|(name, _)| *name == last).map(|(_, path)| (*path).to_string());
    if let Some(path) = short.or_else(|| model().then(|| format!("model.{}", error.path))) {
        return error.hint(format!("`--set {path}=…`"));
    }
    let name = error.path.split(['.', '[']).next().unwrap_or_default().to_string();
    let machine = schemars::schema_for!(Topology);
    if machine.get("properties").is_none_or(|fields| fields.get(&name).is_none()) {
        return error;
    }
    let hint =
        format!("`{name}` is the machine's: `--set topology.{name}=…`, or a field of the machine's file");
    error.hint(hint)
}

/// Names the setting that an error is about, if it is about one: the last that touches its path.
fn blame(error: SpecError, settings: &[(&str, &String)]) -> SpecError {
    match settings.iter().rev().find(|(path, _)| json::covers(path, &error.path)) {
        Some((_, text)) => error.in_file(&format!("--set {text}")),
        None => error,
    }
}

/// The same for settings as they were given: for errors that show only when the value meets another.
pub fn blame_setting(error: SpecError, sets: &[String]) -> SpecError {
    let settings: Vec<_> = sets.iter().filter_map(|text| Some((text.split_once('=')?.0, text))).collect();
    blame(error, &settings)
}

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
        let hint = match (near.is_empty(), kind) {
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
        let problem = format!("no {} has the name `{name_or_path}`", kind.word());
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
                files.read(Path::new(file_and_function(&path.display().to_string()).0)).map_err(|e| {
                    SpecError::file(self.file(), format!("cannot be read: {e}"))
                        .hint("check the path; a shipped file is named without folder and without .json")
                })
            }
        }
    }
}

/// What a name, a path or a form stands for, and how messages name it. A machine may be simple, or a part of another.
fn read_named(
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

/// Sequences of a step of which nothing is said but its model: four million tokens in sequences of 4,096, as Llama 2 was
/// trained (arXiv 2307.09288).
pub(crate) const USUAL_BATCH: u64 = 1024;

/// A workload of a file that is none: arguments of training software, or a model, which is run as Megatron-Bridge runs it.
fn foreign(text: &str, file: &str) -> Result<Option<Value>, SpecError> {
    let plan = |e: SpecError| match e.problem.as_str() {
        problem if problem.contains("which model") => {
            e.hint(format!("name one beside it: stepsim plan {file} llama3-8b --on 64xh100"))
        }
        _ if e.hint.is_empty() || e.hint.starts_with("give --") => {
            e.hint(format!("say the machine and the batch: stepsim plan {file} --on 64xh100 --batch 512"))
        }
        _ => e,
    };
    match recognise(text.as_bytes()) {
        None | Some(FileKind::Workload) => Ok(None),
        Some(FileKind::Arguments(format)) => {
            Ok(Some(translate(format, text, file, &Beside::default()).map_err(plan)?.workload))
        }
        Some(FileKind::Model | FileKind::HuggingFace) => {
            let beside = Beside {
                model: Some(model_of(json::read(file, text)?, file)?),
                usual_batch: Some(USUAL_BATCH),
                ..Beside::default()
            };
            let made = translate_model("megatron-bridge", file, &beside)?;
            let mut workload = made.workload;
            workload["description"] =
                format!("The model of {file}; assumed: {}", made.assumed.join("; ")).into();
            Ok(Some(workload))
        }
        Some(other) => {
            let next = match other {
                FileKind::Machine => format!("stepsim plan MODEL --on {file}"),
                FileKind::Kineto => format!("stepsim analyze {file}"),
                _ => format!("stepsim import {file}"),
            };
            Err(SpecError::file(file, format!("is {}, not a workload", other.words())).hint(next))
        }
    }
}

/// A model file, or a config.json as one.
pub(crate) fn model_of(value: Value, file: &str) -> Result<Value, SpecError> {
    if !hugging_face::is_config(&value) {
        return Ok(value);
    }
    let model = hugging_face::model(&value, file)?;
    serde_json::to_value(model).map_err(|e| SpecError::file(file, e.to_string()))
}

/// Lays the content of a file over its `base` if it names one, and resolves what it refers to.
fn complete(
    kind: Kind,
    mut value: Value,
    file: &str,
    folder: Option<&Path>,
    depth: usize,
    files: &dyn Files,
) -> Result<Value, SpecError> {
    if !value.is_object() {
        return Err(SpecError::file(file, format!("a {} file holds a JSON object", kind.word()))
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
fn resolve(kind: Kind, value: &mut Value, folder: Option<&Path>, files: &dyn Files) -> Result<(), SpecError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::spec::WorkloadSpec;

    #[test]
    fn short_names_lead_to_fields_that_are_there() {
        let said =
            |set: String| load::<WorkloadSpec>("gpt2-8", &[set]).map(|_| ()).map_err(|e| e.to_string());
        for (name, path) in SHORT {
            let hint = said(format!("{name}=1")).expect_err(name);
            assert!(hint.contains(&format!("`--set {path}=…`")), "{hint}");
            assert!(said(format!("{path}=1")).err().is_none_or(|e| !e.contains("no such field")), "{path}");
        }
        let hint = said("layers=12".to_string()).expect_err("layers");
        assert!(hint.contains("`--set model.layers=…`"), "{hint}");
    }
}
