//! Whose file a text is, told by what stands in it and not by its name.
//!
//! An argument file is of the software most of whose *marks* it has: names that this software's files hold and others do
//! not (`marks` of the tables). Files of ours and of other tools have marks of their own, here.

use serde_json::Value;

use super::super::glob::fits;
use super::super::hugging_face;
use super::syntax::names;
use super::table::{FORMATS, Table};

/// What a file is.
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
    /// Arguments of training software: the name of its table ([`FORMATS`]).
    Arguments(&'static str),
    /// Calculon's application, execution or system file.
    Calculon,
    /// A PyTorch profile.
    Kineto,
    /// A Chakra execution trace.
    Chakra,
    /// The output of nccl-tests.
    NcclTests,
    /// `nvidia-smi topo -m`.
    NvidiaSmi,
    /// A pipeline schedule as torch writes it.
    TorchSchedule,
}

impl FileKind {
    /// What a reader calls it, and the name of its subcommand of `stepsim import`, where it has one.
    fn facts(self) -> (&'static str, Option<&'static str>) {
        match self {
            FileKind::Workload => ("a workload file of stepsim", None),
            FileKind::Model => ("a model file of stepsim", None),
            FileKind::Machine => ("a machine file of stepsim", None),
            FileKind::HuggingFace => ("a Hugging Face config.json", Some("hf")),
            FileKind::Arguments(format) => {
                let words = FORMATS.iter().find(|(name, _)| *name == format);
                (words.map_or("arguments", |(_, words)| words), Some(format))
            }
            FileKind::Calculon => ("a file of Calculon", Some("calculon")),
            FileKind::Kineto => ("a PyTorch profile", Some("kineto")),
            FileKind::Chakra => ("a Chakra execution trace", Some("chakra")),
            FileKind::NcclTests => ("an output of nccl-tests", Some("nccl-tests")),
            FileKind::NvidiaSmi => ("an output of nvidia-smi topo -m", Some("nvidia-smi")),
            FileKind::TorchSchedule => ("a pipeline schedule of torch (CSV)", Some("torch-schedule")),
        }
    }
    /// What a reader calls it.
    pub fn words(self) -> &'static str {
        self.facts().0
    }
    /// The name of its subcommand of `stepsim import`, where it has one.
    pub fn import(self) -> Option<&'static str> {
        self.facts().1
    }
}

/// What the bytes of a file are; `None` where nothing is known of them.
pub fn recognise(bytes: &[u8]) -> Option<FileKind> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        // Protobuf messages, each behind its length; the first holds the version of the schema.
        return (bytes.get(1) == Some(&0x0A)).then_some(FileKind::Chakra);
    };
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with(['{', '[']) {
        return of_json(text);
    }
    let has = |word: &str| text.contains(word);
    if has("out-of-place") && has("algbw") {
        return Some(FileKind::NcclTests);
    }
    if has("GPU0") && has("CPU Affinity") {
        return Some(FileKind::NvidiaSmi);
    }
    arguments(text).or_else(|| is_torch_schedule(text).then_some(FileKind::TorchSchedule))
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
    let Ok(value) = serde_json::from_str::<Value>(text) else { return arguments(text) };
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

/// The software most of whose marks the names of a text fit.
fn arguments(text: &str) -> Option<FileKind> {
    let scored = FORMATS.iter().filter_map(|(format, _)| Some((*format, marks(format, text)?)));
    let best = scored.max_by_key(|(_, score)| *score).filter(|(_, score)| *score > 0)?;
    Some(FileKind::Arguments(best.0))
}

/// How many marks of a format a text has; `None` where it is not of the format's syntax.
pub(super) fn marks(format: &str, text: &str) -> Option<usize> {
    let table = Table::load(format).ok()?;
    let names = names(&table.syntax, text)?;
    Some(table.marks.iter().filter(|mark| names.iter().any(|name| fits(mark, name))).count())
}

/// Cells of a schedule: stage, pass, micro-batch.
fn is_torch_schedule(text: &str) -> bool {
    let cell = |cell: &str| {
        let cell = cell.trim();
        let digits = cell.trim_start_matches(|c: char| c.is_ascii_digit());
        digits.len() < cell.len() && digits.starts_with(['F', 'B', 'I', 'W']) && digits.len() <= 8
    };
    let cells: Vec<&str> =
        text.lines().take(4).flat_map(|line| line.split(',')).filter(|c| !c.trim().is_empty()).collect();
    cells.len() > 1 && cells.iter().all(|c| cell(c))
}
