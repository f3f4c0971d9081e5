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
            FileKind::Kineto => ("a PyTorch profile", Some("kineto")),
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
        () if hugging_face::is_config(&value) && !all(&["output_dir"]) => FileKind::HuggingFace,
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

/// The software without a table whose file a text is.
fn foreign(text: &str) -> Option<FileKind> {
    static ALL: LazyLock<Vec<ForeignSoftware>> = LazyLock::new(|| {
        let text = catalog::file("workloads/imports/foreign.json").unwrap_or_default();
        stepsim_located::shipped::<BTreeMap<String, Vec<ForeignSoftware>>>(text)
            .unwrap_or_default()
            .remove("software")
            .unwrap_or_default()
    });
    use Syntax::{Calls, Json, Python, Shell, Toml, Yaml};
    let all = [Calls, Python, Shell, Toml, Yaml, Json];
    let names: Vec<ArgumentNames> =
        all.iter().filter_map(|syntax| ArgumentNames::of(&[*syntax], text)).collect();
    let score = |software: &ForeignSoftware| {
        let has = |mark: &&String| names.iter().any(|names| names.get(mark).is_some());
        let score = software.marks.iter().filter(has).count();
        if score < software.least { 0 } else { score }
    };
    let found = ALL.iter().filter(|software| score(software) > 0).max_by_key(|software| score(software))?;
    Some(FileKind::Foreign(found))
}

/// The software most of whose marks the names of a text fit; one whose arguments another takes up gives way to that.
fn arguments(text: &str) -> Option<FileKind> {
    if let Some(foreign) = foreign(text) {
        return Some(foreign);
    }
    let mut read: Vec<(Option<Syntax>, Option<ArgumentNames>)> = Vec::new();
    let mut scored: Vec<(&'static str, &FormatTable, (bool, usize))> = Vec::new();
    for (format, table) in FormatTable::all() {
        let syntax = suiting(&table.syntax, text);
        if !read.iter().any(|(known, _)| *known == syntax) {
            read.push((syntax, ArgumentNames::of(&table.syntax, text)));
        }
        let names = read.iter().find(|(known, _)| *known == syntax).and_then(|(_, names)| names.as_ref());
        let score = names.map_or(0, |names| table.score(names));
        if score > 0 {
            let trains = names.is_some_and(|names| table.is_training(names));
            scored.push((*format, table, (trains, score)));
        }
    }
    // A file that trains for one is not another's that would train nothing.
    if scored.iter().any(|(.., (trains, _))| *trains) {
        scored.retain(|(.., (trains, _))| *trains);
    }
    let gives_way = |format: &str| {
        scored
            .iter()
            .any(|(_, table, _)| table.bases.iter().chain(&table.before).any(|other| other == format))
    };
    let whole = scored.iter().filter(|(format, ..)| !gives_way(format));
    whole.max_by_key(|(.., score)| *score).map(|(format, ..)| FileKind::Arguments(format))
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
        let in_order = names(syntaxes, text)?;
        Some(ArgumentNames { all: in_order.iter().cloned().collect(), in_order })
    }
    /// Those of the programs that a script of a shell runs, as it is typed; `None` for another text.
    pub fn of_run(text: &str, typed: &Invocation) -> Option<ArgumentNames> {
        suiting(&[Syntax::Shell], text)?;
        let programs = shell::programs(text, typed).ok().filter(|programs| !programs.is_empty())?;
        let words = programs.into_iter().flatten().collect::<Vec<String>>().join(" ");
        ArgumentNames::of(&[Syntax::Shell], &format!("#!/bin/sh\n{words}"))
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
