//! Whose file a text is, told by what stands in it and not by its name.
//!
//! An argument file is of the software most of whose *marks* it has: names that this software's files hold and others
//! do not (`marks` of the tables). Files of ours and of other tools have marks of their own, here.

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use serde::Deserialize;

use super::invocation::Invocation;
use super::syntax::{Syntax, names, shell, suiting};
use super::table::FormatTable;
use crate::hugging_face;
use stepsim_spec::glob::fits;
use stepsim_spec::{catalog, json};

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A workload of ours.
    Workload,
    /// A model of ours.
    Model,
    /// A machine of ours.
    Machine,
    /// A Hugging Face config.json.
    HuggingFace,
    /// Arguments of training software: the name of its table.
    Arguments(&'static str),
    /// Arguments of software that has no table here, by its name.
    Foreign(&'static ForeignSoftware),
    /// Calculon's application, execution or system file.
    Calculon,
    /// A PyTorch profile.
    Kineto,
    /// The output of nccl-tests.
    NcclTests,
    /// `nvidia-smi topo -m`, `rocm-smi --showtopo`, or NCCL's topology file.
    NvidiaSmi,
}

impl FileKind {
    /// Its name for readers, and the name of its subcommand of `stepsim import`, where it has one.
    fn facts(self) -> (&'static str, Option<&'static str>) {
        match self {
            FileKind::Workload => ("a workload file of stepsim", None),
            FileKind::Model => ("a model file of stepsim", None),
            FileKind::Machine => ("a machine file of stepsim", None),
            FileKind::HuggingFace => ("a Hugging Face config.json", Some("hf")),
            FileKind::Arguments(format) => (FormatTable::words_of(format), Some(format)),
            FileKind::Foreign(software) => (&software.words, None),
            FileKind::Calculon => ("a file of Calculon", Some("calculon")),
            FileKind::Kineto => ("a PyTorch profile", None),
            FileKind::NcclTests => ("an output of nccl-tests", Some("nccl-tests")),
            FileKind::NvidiaSmi => ("how the GPUs of a node are joined", Some("nvidia-smi")),
        }
    }
    /// Its name for readers.
    pub fn words(self) -> &'static str {
        self.facts().0
    }
    /// The name of its subcommand of `stepsim import`, where it has one.
    pub fn import(self) -> Option<&'static str> {
        self.facts().1
    }
}

/// The kind of a file by its bytes; `None` if unknown.
pub fn recognise(bytes: &[u8]) -> Option<FileKind> {
    let text = std::str::from_utf8(bytes).ok()?;
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with(['{', '[']) {
        return of_json(text);
    }
    let has = |word: &str| text.contains(word);
    if has("out-of-place") && has("algbw") {
        return Some(FileKind::NcclTests);
    }
    if has("GPU0") && has("CPU Affinity") || has("Link Type between two GPUs") || has("<system version") {
        return Some(FileKind::NvidiaSmi);
    }
    arguments(text)
}

fn of_json(text: &str) -> Option<FileKind> {
    let end = (0..=text.len().min(4096)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let head = &text[..end];
    if text.len() > 1 << 20 || head.contains("\"traceEvents\"") {
        // Profiles are large: their head tells.
        let profile = ["\"schemaVersion\"", "\"deviceProperties\"", "\"traceEvents\"", "\"ph\""];
        return profile.iter().any(|word| head.contains(word)).then_some(FileKind::Kineto);
    }
    // A table of TOML begins as a list does.
    let Ok(value) = json::read_of_others("", text) else { return arguments(text) };
    let all = |names: &[&str]| names.iter().all(|name| value.get(name).is_some());
    Some(match () {
        () if all(&["model", "batch"]) || (all(&["base"]) && (all(&["batch"]) || all(&["model"]))) => {
            FileKind::Workload
        }
        () if hugging_face::is_config(&value) => FileKind::HuggingFace,
        () if all(&["layers", "hidden"]) => FileKind::Model,
        () if all(&["device", "node"]) || all(&["device", "graph"]) => FileKind::Machine,
        () if all(&["attn_heads"]) || all(&["num_procs", "tensor_par"]) || all(&["mem1", "networks"]) => {
            FileKind::Calculon
        }
        () => return arguments(text),
    })
}

/// Software without a table: names that its files have and others do not.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ForeignSoftware {
    /// One of its files, in words.
    words: String,
    marks: Vec<String>,
    /// How many of them a file has at least.
    least: usize,
    /// How what such a file says is said by itself.
    #[serde(rename = "do")]
    pub way_out: String,
}

/// The software whose names a text has that is not of its form, as a template whose values are names still; or has
/// inside sections of its own.
pub fn resembles(text: &str, is_inside: bool) -> Option<&'static str> {
    let all = names(&[Syntax::Yaml, Syntax::Json], text)?.into_iter();
    let inner = |name: String| if is_inside { Some(name.split_once('.')?.1.to_owned()) } else { Some(name) };
    let names = ArgumentNames::new(all.filter_map(inner).collect());
    let table = FormatTable::all().values().max_by_key(|table| table.score(&names))?;
    (table.score(&names) > 0).then_some(table.words.as_str())
}

/// The software without a table whose file a text is.
fn foreign(names: &[(Syntax, ArgumentNames)]) -> Option<FileKind> {
    static ALL: LazyLock<BTreeMap<String, Vec<ForeignSoftware>>> =
        LazyLock::new(|| catalog::table("workloads/imports/foreign.json"));
    let score = |software: &ForeignSoftware| {
        let has = |mark: &&String| names.iter().any(|(_, names)| names.get(mark).is_some());
        let score = software.marks.iter().filter(has).count();
        if score < software.least { 0 } else { score }
    };
    let found = ALL.values().flatten().max_by_key(|software| score(software))?;
    (score(found) > 0).then_some(FileKind::Foreign(found))
}

/// The software most of whose marks the names of a text fit; one whose arguments another takes up gives way to that.
fn arguments(text: &str) -> Option<FileKind> {
    use Syntax::{Calls, Json, Python, Shell, Toml, Yaml};
    let named = |syntax| Some((syntax, ArgumentNames::of(&[syntax], text)?));
    let all: Vec<(Syntax, ArgumentNames)> =
        [Calls, Python, Shell, Toml, Yaml, Json].into_iter().filter_map(named).collect();
    if let Some(foreign) = foreign(&all) {
        return Some(foreign);
    }
    let score = |(format, table): (&&'static str, &'static FormatTable)| {
        let syntax = suiting(&table.syntax, text)?;
        let (_, names) = all.iter().find(|(known, _)| *known == syntax)?;
        let score = table.score(names);
        (score > 0).then(|| (*format, table, (table.is_training(names), score)))
    };
    let mut scored: Vec<_> = FormatTable::all().iter().filter_map(score).collect();
    // A file that trains for one is not another's that would train nothing.
    if scored.iter().any(|(.., (trains, _))| *trains) {
        scored.retain(|(.., (trains, _))| *trains);
    }
    let gives_way = |format| {
        let mut others = scored.iter().flat_map(|(_, table, _)| table.bases.iter().chain(&table.before));
        others.any(|other| other == format)
    };
    let whole = scored.iter().filter(|(format, ..)| !gives_way(format));
    whole.max_by_key(|(.., score)| *score).map(|(format, ..)| FileKind::Arguments(format))
}

/// The software of the programs that a script runs, as it is typed, where its own words tell none: of another
/// script, mostly.
pub fn recognise_run(text: &str, word: &str) -> Option<&'static str> {
    let run = ArgumentNames::lines_of_run(text, &Invocation::of(word))?;
    match arguments(&run)? {
        FileKind::Arguments(format) => Some(format),
        _ => None,
    }
}

/// The names of a text's arguments.
#[derive(Default)]
pub(super) struct ArgumentNames {
    in_order: Vec<String>,
    all: HashSet<String>,
}

impl ArgumentNames {
    /// `None` where the text is of none of the syntaxes.
    pub fn of(syntaxes: &[Syntax], text: &str) -> Option<ArgumentNames> {
        Some(ArgumentNames::new(names(syntaxes, text)?))
    }
    fn new(in_order: Vec<String>) -> ArgumentNames {
        ArgumentNames { all: in_order.iter().cloned().collect(), in_order }
    }
    /// Those of the programs that a script of a shell runs, as it is typed; `None` for another text.
    pub fn of_run(text: &str, typed: &Invocation) -> Option<ArgumentNames> {
        ArgumentNames::of(&[Syntax::Shell], &ArgumentNames::lines_of_run(text, typed)?)
    }
    fn lines_of_run(text: &str, typed: &Invocation) -> Option<String> {
        suiting(&[Syntax::Shell], text)?;
        let programs = shell::programs(text, typed).ok().filter(|programs| !programs.is_empty())?;
        let words = programs.into_iter().flatten().collect::<Vec<String>>().join(" ");
        Some(format!("#!/bin/sh\n{words}"))
    }
    /// The name that a mark means, the first where it is a pattern.
    pub fn get(&self, mark: &str) -> Option<&str> {
        match mark.contains('*') {
            true => self.in_order.iter().find(|name| fits(mark, name)),
            false => self.all.get(mark),
        }
        .map(String::as_str)
    }
}

/// True if a text has marks of a format.
pub(super) fn has_marks(format: &str, text: &str) -> bool {
    let table = FormatTable::all().get(format);
    let score = |table: &FormatTable| Some(table.score(&ArgumentNames::of(&table.syntax, text)?));
    table.and_then(score).is_some_and(|score| score > 0)
}

impl FormatTable {
    /// How many of its marks some names fit; none where they are fewer than a file has at least.
    fn score(&self, names: &ArgumentNames) -> usize {
        let has = |mark: &&String| names.get(mark).is_some();
        let own_alone = self.own.iter().filter(|mark| !self.marks.contains(mark));
        let score = self.marks.iter().chain(own_alone).filter(has).count();
        let own: Vec<&String> = self.own.iter().filter(has).collect();
        let is_own = own.len() >= self.least_own.max(1) || own.iter().any(|mark| mark.starts_with('@'));
        if score < self.least_marks || !(is_own || self.own.is_empty()) { 0 } else { score }
    }
    /// The mark of a text that is no training of a language model, and the reason; a name whose value says nothing is
    /// none.
    pub(super) fn refusal<'a>(
        &'a self,
        names: &'a ArgumentNames,
        silent: &[String],
    ) -> Option<(&'a str, &'a str)> {
        self.refuses.iter().find_map(|(mark, why)| {
            let found = names.get(mark).filter(|found| !silent.iter().any(|name| name == found))?;
            Some((found.trim_start_matches('@'), why.as_str()))
        })
    }
    /// The values that follow from a text's marks.
    pub(super) fn followed(
        &self,
        names: &ArgumentNames,
    ) -> impl Iterator<Item = (String, serde_json::Value)> {
        let marked = self.follows.iter().filter(move |(mark, _)| names.get(mark).is_some());
        marked.flat_map(|(_, fields)| fields.clone())
    }
    /// True if a text trains anything.
    pub(super) fn is_training(&self, names: &ArgumentNames) -> bool {
        self.trains.is_empty() || self.trains.iter().any(|mark| names.get(mark).is_some())
    }
}
