//! From a name or a path to a validated value: read, lay over its base, resolve references, set, type, validate.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::blame::{blame, blame_setting, meant_elsewhere};
use super::content::Content;
use super::files::{Disk, Files, RecordingFiles};
use super::sources::Lookup;
use super::{Kind, Spec, SpecError, dependents, json, machine_name, simple, stack_defaults};

/// A value with where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedSpec<T> {
    /// The value.
    pub value: T,
    /// Its short name: the file name without folder and `.json`, or the argument itself for a simple machine.
    pub name: String,
    /// The file as messages name it.
    pub file: String,
    /// 16 hex digits over the content (references resolved, settings applied; spelling and key order do not count).
    pub hash: String,
    /// The content that the hash is over.
    pub content: Content,
    /// The files that were read for it: itself, its bases, what they name and what settings name.
    pub read: Vec<PathBuf>,
    /// The settings that were applied, as they were given: what shows only later is blamed on them ([`blame_setting`]).
    pub sets: Vec<String>,
    /// The value in the file, before settings.
    pub(super) own: Arc<Value>,
}

impl<T: Spec> LoadedSpec<T> {
    /// The same file with `more` settings behind its own. A value that a program changed since it was read stands as
    /// it is.
    ///
    /// # Errors
    /// As [`load`].
    pub fn again(&self, more: &[String]) -> Result<LoadedSpec<T>, SpecError> {
        let now = stepsim_located::to_value(&self.value).unwrap_or_default();
        let (value, sets) = match Content::of(&now).hash() == self.hash {
            true => (Arc::clone(&self.own), [&self.sets, more].concat()),
            false => (Arc::new(now), more.to_vec()),
        };
        let (name, file) = (self.name.clone(), self.file.clone());
        Draft { value, name, file, read: self.read.clone(), kind: PhantomData }.finish(&sets, &Disk)
    }

    /// The value in the file itself at a path that a setting has changed.
    pub fn before_settings(&self, path: &str) -> Option<&Value> {
        self.sets.iter().any(|set| json::setting(set).is_ok_and(|(of, _)| of == path)).then_some(())?;
        self.own.pointer(&format!("/{}", path.replace('[', "/").replace(']', "").replace('.', "/")))
    }
}

/// Loads a value by name (of the shipped files) or by path (contains `/`, ends in `.json`, or is `-` for the standard
/// input), or from its content (begins with `{`; it is then called after its kind, and paths in it are relative to
/// here); a topology also from the form of a simple machine ([`simple::FORMS`]) or by count and name (`64xh100`).
/// `sets` are `path=value` texts applied in order.
///
/// # Errors
/// Anything wrong with the file, the files it refers to, or a setting, as [`SpecError`] says.
pub fn load<T: Spec>(name_or_path: &str, sets: &[String]) -> Result<LoadedSpec<T>, SpecError> {
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
) -> Result<LoadedSpec<T>, SpecError> {
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
    pub fn with(&self, sets: &[String]) -> Result<LoadedSpec<T>, SpecError> {
        self.finish(sets, &Disk)
    }
    /// The value under these settings, typed but not validated: fields exist and take values of this type, what they
    /// mean together is not looked at.
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
    /// Its short name, as of [`LoadedSpec::name`].
    pub fn name(&self) -> &str {
        &self.name
    }
    fn read(name_or_path: &str, files: &dyn Files) -> Result<Draft<T>, SpecError> {
        if name_or_path.trim_start().starts_with('{') {
            let name = T::KIND.name().to_string();
            let noted = RecordingFiles::new(files);
            let value = Lookup::here(&noted).complete(T::KIND, json::read(&name, name_or_path)?, &name)?;
            let value = Arc::new(value);
            return Ok(Draft { value, file: name.clone(), name, read: noted.paths(), kind: PhantomData });
        }
        let simple = simple::looks_simple(name_or_path);
        let noted = RecordingFiles::new(files);
        let (value, file) = Lookup::here(&noted).named(T::KIND, name_or_path)?;
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
    fn finish(&self, sets: &[String], files: &dyn Files) -> Result<LoadedSpec<T>, SpecError> {
        let noted = RecordingFiles::new(files);
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
    ) -> Result<LoadedSpec<T>, SpecError> {
        value.validate().map_err(|e| blame_setting(e, sets).in_file(&self.file))?;
        let read = [self.read.clone(), read].concat();
        Ok(LoadedSpec {
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
) -> Result<LoadedSpec<T>, SpecError> {
    let noted = RecordingFiles::new(files);
    let value = Arc::new(Lookup::here(&noted).complete(T::KIND, json::read(name, text)?, name)?);
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
) -> Result<LoadedSpec<T>, SpecError> {
    let value = Arc::new(value);
    Draft { value, name, file, read: Vec::new(), kind: PhantomData }.finish(sets, &Disk)
}

/// The typed value under `sets`, and itself as JSON again.
pub fn typed<T: Spec>(
    mut value: Value,
    file: &str,
    sets: &[String],
    files: &dyn Files,
) -> Result<(T, Value), SpecError> {
    Lookup::here(files).resolve(T::KIND, &mut value).map_err(|e| e.in_file(file))?;
    let mut touched = Vec::new();
    for text in sets {
        let (path, new) = json::setting(text)?;
        let blame = |e: SpecError| e.in_file(&format!("--set {text}"));
        // Numbers and switches name no file.
        let names = matches!(new, Value::String(_) | Value::Array(_) | Value::Object(_));
        json::set(&mut value, path, new).map_err(blame)?;
        if names {
            Lookup::here(files).resolve(T::KIND, &mut value).map_err(blame)?;
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
    let canonical = stepsim_located::to_value(&typed).unwrap_or_default();
    Ok((typed, canonical))
}
