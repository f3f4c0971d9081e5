//! A workload under many lists of settings: a section is typed once for all lists that set the same in it.
//!
//! Sections are objects of a workload whose fields ask for nothing outside of them. Where a list sets anything else,
//! or anything is wrong, the whole workload is typed as for one list alone, which also says what is wrong.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::content::Content;
use super::files::{Disk, RecordingFiles};
use super::load::{Draft, LoadedSpec, typed};
use super::workload::WorkloadSpec;
use super::{SpecError, dependents, json};

/// The name of a section, and how it is typed.
type Typed = (&'static str, fn(&Value) -> Option<Section>);

const SECTIONS: [Typed; 5] = [
    ("batch", |value| Section::of(value, |workload, batch| workload.batch = batch)),
    ("parallelism", |value| Section::of(value, |workload, parallelism| workload.parallelism = parallelism)),
    ("gradient_buckets", |value| Section::of(value, |workload, buckets| workload.gradient_buckets = buckets)),
    ("recompute", |value| Section::of(value, |workload, recompute| workload.recompute = recompute)),
    ("offload", |value| Section::of(value, |workload, offload| workload.offload = offload)),
];

/// Fields in them that name files.
const NAMES: [&str; 2] = ["/parallelism/rank_map", "/parallelism/pipeline/order_file"];

/// Sections that are kept at once.
const MOST: usize = 4096;

/// By section and what is set in it.
type Sections = FxHashMap<(usize, Vec<String>), Option<Section>>;

/// A workload under many lists of settings.
#[derive(Debug)]
pub struct Variations {
    draft: Draft<WorkloadSpec>,
    /// Settings that begin all lists.
    always: Vec<String>,
    plain: Option<Plain>,
    known: Mutex<Sections>,
}

/// The workload under the settings that begin all lists, where it can be typed so.
#[derive(Debug)]
struct Plain {
    value: WorkloadSpec,
    content: Content,
    /// The files that those settings name.
    read: Vec<PathBuf>,
    /// The stack's values for sections that the file leaves out.
    defaults: Option<Map<String, Value>>,
}

/// A section under some settings.
#[derive(Clone)]
struct Section {
    /// Puts it into a workload.
    put: Arc<dyn Fn(&mut WorkloadSpec) + Send + Sync>,
    /// The hash of its content.
    hash: u64,
}

impl fmt::Debug for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.hash)
    }
}

impl Section {
    /// Typed, if its value is one.
    fn of<T: DeserializeOwned + Serialize + Clone + Send + Sync + 'static>(
        value: &Value,
        put: fn(&mut WorkloadSpec, T),
    ) -> Option<Section> {
        let own: T = json::typed(value).ok()?;
        let canonical = stepsim_located::to_value(&own).ok()?;
        let put = move |workload: &mut WorkloadSpec| put(workload, own.clone());
        Some(Section { put: Arc::new(put), hash: Content::of_field(&canonical) })
    }
}

impl Variations {
    /// Of a workload that was read; all lists of settings begin with `always`.
    pub fn new(draft: Draft<WorkloadSpec>, always: Vec<String>) -> Variations {
        let noted = RecordingFiles::new(&Disk);
        let plain = typed::<WorkloadSpec>(draft.value().clone(), "", &always, &noted).ok();
        let plain = plain.map(|(value, canonical)| Plain {
            read: noted.paths(),
            defaults: value.stack.is_some().then(|| value.stack().defaults.clone()),
            content: Content::of(&canonical),
            value,
        });
        Variations { draft, always, plain, known: Mutex::default() }
    }
    /// The workload that was read.
    pub fn draft(&self) -> &Draft<WorkloadSpec> {
        &self.draft
    }

    /// The value under these settings, which begin with the settings of all lists, as [`Draft::with`].
    ///
    /// # Errors
    /// As [`Draft::with`].
    pub fn with(&self, sets: &[String]) -> Result<LoadedSpec<WorkloadSpec>, SpecError> {
        match self.by_sections(sets) {
            Some((value, content, read)) => self.draft.loaded(value, content, sets, read),
            None => self.draft.with(sets),
        }
    }

    /// The value put together from its sections; `None` where it must be typed whole.
    fn by_sections(&self, sets: &[String]) -> Option<(WorkloadSpec, Content, Vec<PathBuf>)> {
        let plain = self.plain.as_ref()?;
        let mut of_section: [Vec<String>; SECTIONS.len()] = Default::default();
        for set in sets.strip_prefix(&*self.always)? {
            of_section[in_section(set)?].push(set.clone());
        }
        let (mut value, mut content) = (plain.value.clone(), plain.content.clone());
        for (at, sets) in of_section.into_iter().enumerate().filter(|(_, sets)| !sets.is_empty()) {
            let section = self.section(at, sets)?;
            (section.put)(&mut value);
            content.put(SECTIONS[at].0, section.hash);
        }
        Some((value, content, plain.read.clone()))
    }

    fn section(&self, at: usize, sets: Vec<String>) -> Option<Section> {
        let key = (at, sets);
        // A thread that panicked while it held the lock has left a whole map.
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(section) = known().get(&key) {
            return section.clone();
        }
        let always = self.always.iter().filter(|set| in_section(set) == Some(at));
        let section = self.typed_section(at, always.chain(&key.1));
        let mut known = known();
        if known.len() == MOST {
            known.clear();
        }
        known.insert(key, section.clone());
        section
    }

    /// A section under what is set in it; `None` where it names a file, or something is wrong.
    fn typed_section<'s>(&self, at: usize, sets: impl Iterator<Item = &'s String>) -> Option<Section> {
        let (name, typed) = SECTIONS[at];
        let mut workload = Value::Object(Map::new());
        if let Some(own) = self.draft.value().get(name) {
            workload[name] = own.clone();
        }
        let mut paths = Vec::new();
        for text in sets {
            let (path, new) = json::setting(text).ok()?;
            json::set(&mut workload, path, new).ok()?;
            paths.push(path);
            if NAMES.iter().any(|at| workload.pointer(at).is_some_and(Value::is_string)) {
                return None;
            }
        }
        dependents::settle(&mut workload, &paths);
        let mut whole = Value::Object(Map::new());
        if let Some(usual) = self.plain.as_ref()?.defaults.as_ref().and_then(|all| all.get(name)) {
            whole[name] = usual.clone();
        }
        dependents::settle_under(&mut whole, &workload);
        json::merge(&mut whole, workload);
        typed(whole.get(name)?)
    }
}

/// The section that a setting is of, if it is of one.
fn in_section(set: &str) -> Option<usize> {
    let name = &set[..set.find(['.', '[', '='])?];
    SECTIONS.iter().position(|section| section.0 == name)
}
