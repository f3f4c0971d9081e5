//! Rows of a sweep: what became of its points.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::outcome::PointOutcome;
use stepsim_read::analysis::kind::OpKind;
use stepsim_read::trace::{OutputError, TimelineFile};
use stepsim_simulate::{Fault, RunStatus};
use stepsim_spec::SpecError;

/// One point and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Hash of the resolved inputs, of how the point is valued, and of the program's version.
    pub key: String,
    /// Number of the point in its study, from 0.
    #[serde(default)]
    pub point: u64,
    /// The settings of the point.
    pub settings: Map<String, Value>,
    /// The columns.
    #[serde(flatten)]
    pub outcome: PointOutcome,
}

impl Row {
    /// A column by name: a path that the point sets, one that was asked for of the report, or a field of the outcome;
    /// `exposed_tp_s` is what `exposed_s` has for `tp`, `memory_peak_GiB` the peak in GiB.
    pub fn column(&self, name: &str) -> Option<Value> {
        if let Some(value) = self.settings.get(name) {
            return Some(value.clone());
        }
        let o = &self.outcome;
        if let Some(value) = o.columns.get(name) {
            return Some(value.clone());
        }
        let number = |x: f64| Some(Value::from(x));
        match name {
            "point" => Some(self.point.into()),
            "status" => stepsim_located::to_value(o.status).ok(),
            "step_time_s" => number(o.step_time_s?),
            "tokens_per_s_per_device" => number(o.tokens_per_s_per_device?),
            "mfu" => number(o.mfu?),
            "memory_peak_bytes" => Some(o.memory_peak_bytes?.into()),
            "range_s" => stepsim_located::to_value(o.range_s?).ok(),
            "memory_peak_GiB" => number(o.memory_peak_bytes? as f64 / (1u64 << 30) as f64),
            _ => {
                let kind = name.strip_prefix("exposed_")?.strip_suffix("_s")?;
                number(o.exposed_s.get(kind).copied().or(o.step_time_s.map(|_| 0.0))?)
            }
        }
    }
    /// Names of the columns that rows may have beside what they set.
    pub fn columns() -> Vec<String> {
        let fixed = [
            "step_time_s",
            "tokens_per_s_per_device",
            "mfu",
            "memory_peak_bytes",
            "memory_peak_GiB",
            "status",
            "point",
        ];
        let kinds = OpKind::ALL.iter().filter(|kind| **kind != OpKind::Compute);
        let exposed = kinds.map(|kind| format!("exposed_{}_s", kind.name()));
        fixed.iter().map(ToString::to_string).chain(exposed).collect()
    }

    /// A line of JSON with its end.
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

/// Why a study has no result.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The study is wrong, or a result file is another's.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// No layout fits the memory of the machine.
    #[error(transparent)]
    NothingFits(SpecError),
    /// A result file cannot be written. Rows that were finished before are in it, whole: resuming goes on from there.
    #[error("cannot write `{}`: {error}; rows up to here are kept, go on with --resume", path.display())]
    Journal {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Whoever watched the study stopped it.
    #[error("stopped; rows that were written are kept, go on with --resume")]
    Stopped,
    /// The finished file cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl From<&StudyError> for Fault {
    fn from(e: &StudyError) -> Fault {
        match e {
            StudyError::Spec(e) => e.into(),
            StudyError::NothingFits(e) => Fault { status: RunStatus::OutOfMemory, ..e.into() },
            e => Fault { status: RunStatus::Failed, message: e.to_string(), ..Fault::default() },
        }
    }
}

/// The file is there and would be lost.
pub fn present(path: &Path) -> SpecError {
    SpecError::file(path.display().to_string(), "a result file of this name is there already")
        .hint("remove it to begin again; --resume goes on with one that was interrupted")
}

/// The table is whole, and a study has no rows of it to go on from.
pub fn finished(path: &Path) -> SpecError {
    SpecError::file(path.display().to_string(), "is the table of a study that came to its end")
        .allowed("to go on with an interrupted table, or with JSON lines, which can also grow by new points")
        .hint("remove it to begin again, or write to a name in .jsonl")
}

/// Rows of parts of one study in the order of its points, and the points below the last one that are missing.
///
/// # Errors
/// Two rows of one point differ: the parts are not of one study.
pub fn merge(parts: Vec<(String, Vec<Row>)>) -> Result<(Vec<Row>, Vec<u64>), SpecError> {
    let mut rows: BTreeMap<u64, Row> = BTreeMap::new();
    for (name, part) in parts {
        for row in part {
            let known = rows.entry(row.point).or_insert_with(|| row.clone());
            if *known != row {
                let problem = format!("its point {} is another than in a file before it", row.point);
                return Err(SpecError::file(name, problem)
                    .allowed("parts of one study, by one version, each point alike in all of them")
                    .hint("merge what one study wrote with --shard 1/N to N/N"));
            }
        }
    }
    let end = rows.keys().next_back().map_or(0, |last| last + 1);
    let missing = (0..end).filter(|point| !rows.contains_key(point)).collect();
    Ok((rows.into_values().collect(), missing))
}

/// Writes a text whole or not at all.
///
/// # Errors
/// The file cannot be written.
pub fn write_text(path: &Path, text: &str) -> Result<(), StudyError> {
    let mut output = TimelineFile::create(path, false)?;
    output.write_all(text.as_bytes()).map_err(|e| output.error(e))?;
    Ok(output.finish()?)
}
