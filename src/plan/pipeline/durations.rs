//! Times of a pipeline's parts, one by one: by step, replica, stage and micro-batch.
//!
//! The file gives as much detail as there is. Of a pass or a transfer, a number means all; a list goes by stage; a list
//! of lists by stage and micro-batch; one more level outside by replica. Of what stands before the first or after the
//! last pass of a rank, a list goes by rank, a list of lists by replica and rank; null where a rank has no part in it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use stepsim_core::declare::one;
use stepsim_spec::SpecError;

/// The values that are allowed as a time.
const ALLOWED: &str = "0 to 1000000, in any one unit";

/// Measured (or made-up) times of the steps of a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Durations {
    /// Pipelines side by side that train on different data.
    #[serde(default = "one")]
    pub replicas: u32,
    /// Pipeline ranks.
    pub stages: u32,
    /// Micro-batches of a step of one replica.
    pub micro_batches: u32,
    /// The work of a rank before its first pass, in this order.
    #[serde(default)]
    pub before: Vec<OuterWork>,
    /// The work of a rank after its last pass, in this order.
    #[serde(default)]
    pub after: Vec<OuterWork>,
    /// The steps.
    pub steps: Vec<StepDurations>,
}

/// Work before or after the passes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OuterWork {
    /// Its name among the times.
    pub name: String,
    /// Who begins it together.
    #[serde(default)]
    pub group: StartGroup,
}

/// Ranks that begin something together: none of them sooner than the last is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartGroup {
    /// Each rank by itself: work of its own.
    #[default]
    Alone,
    /// Ranks that are not told apart here (tensor-parallel peers): communication, but nobody to wait for.
    Others,
    /// The ranks of one stage in all replicas: data parallelism.
    Replicas,
    /// The ranks of one replica.
    Stages,
    /// All ranks.
    All,
}

/// The times of one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepDurations {
    /// Which.
    pub name: String,
    /// How long it really was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
    /// Times of passes (`F`, `B`, `I`, `W`), of transfers (`send F`, `send B`, by the sending stage) and of what stands
    /// around them. Work that is left out takes no time.
    pub times: BTreeMap<String, TimeTable>,
    /// The wait of each pass beyond its inputs before it began: the host launched it late.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub delays: BTreeMap<String, TimeTable>,
}

/// A time, or times by stage, micro-batch, replica.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TimeTable {
    /// There is none.
    Absent(()),
    /// The same for all.
    Same(f64),
    /// One for each.
    Each(Vec<TimeTable>),
}

impl TimeTable {
    fn depth(&self) -> usize {
        match self {
            TimeTable::Each(list) => 1 + list.iter().map(TimeTable::depth).max().unwrap_or(0),
            _ => 0,
        }
    }
    fn at(&self, path: &[u32]) -> Option<f64> {
        match (self, path) {
            (TimeTable::Absent(()), _) => None,
            (TimeTable::Same(time), _) => Some(*time),
            (TimeTable::Each(list), [first, rest @ ..]) => list.get(*first as usize)?.at(rest),
            (TimeTable::Each(_), []) => None,
        }
    }
    fn check(&self, lengths: &[(u32, &str)], path: &str) -> Result<(), SpecError> {
        match (self, lengths) {
            (TimeTable::Absent(()), _) => Ok(()),
            (TimeTable::Same(time), _) if (0.0..=1e6).contains(time) => Ok(()),
            (TimeTable::Same(time), _) => {
                Err(SpecError::at(path, format!("{time} is not allowed")).allowed(ALLOWED))
            }
            (TimeTable::Each(list), [(length, of), rest @ ..]) => {
                if list.len() != *length as usize {
                    let problem = format!("a list of {} where there are {length} {of}", list.len());
                    return Err(SpecError::at(path, problem)
                        .hint(format!("give one entry for each of the {of}, or one number for all")));
                }
                list.iter().enumerate().try_for_each(|(i, t)| t.check(rest, &format!("{path}[{i}]")))
            }
            (TimeTable::Each(_), []) => {
                Err(SpecError::at(path, "a list where a number was expected").allowed(ALLOWED))
            }
        }
    }
}

/// Names of passes and transfers among the times.
pub const PASSES: [&str; 6] = ["F", "B", "I", "W", "send F", "send B"];

impl Durations {
    /// Reads the text of a file; `file` is its name for messages.
    ///
    /// # Errors
    /// The text is no such file.
    pub fn from_json(text: &str, file: &str) -> Result<Durations, SpecError> {
        let mut json = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut json).map_err(|e| {
            let path = e.path().to_string();
            SpecError::at(if path == "." { "" } else { &path }, e.inner().to_string()).in_file(file).allowed(
                "{\"stages\": 2, \"micro_batches\": 2, \"steps\": [{\"name\": \"1\", \
                     \"times\": {\"F\": [1, 1.1], \"B\": [[2, 2], [2.1, 2]], \"send F\": 0.1}}]}",
            )
        })
    }

    /// Checks names, lengths and values against a pipeline of `model_stages` stages over all its ranks.
    ///
    /// # Errors
    /// The first thing that is wrong, with its path.
    pub fn check(&self, model_stages: u32) -> Result<(), SpecError> {
        for (name, n, most) in [
            ("replicas", self.replicas, 1 << 12),
            ("stages", self.stages, 1 << 12),
            ("micro_batches", self.micro_batches, 1 << 16),
        ] {
            if n == 0 || n > most {
                return Err(
                    SpecError::at(name, format!("{n} is not allowed")).allowed(format!("1 to {most}"))
                );
            }
        }
        if self.steps.is_empty() {
            return Err(SpecError::at("steps", "there is no step").hint("give at least one"));
        }
        let around: Vec<&str> = self.before.iter().chain(&self.after).map(|a| a.name.as_str()).collect();
        if let Some(twice) =
            around.iter().enumerate().find(|(i, name)| around[..*i].contains(name) || PASSES.contains(name))
        {
            return Err(SpecError::at("after", format!("the name `{}` is taken", twice.1))
                .hint("give each a name of its own"));
        }
        for (i, step) in self.steps.iter().enumerate() {
            let lists =
                step.times.iter().map(|t| ("times", t)).chain(step.delays.iter().map(|t| ("delays", t)));
            let mut sum = 0.0;
            for (kind, (name, times)) in lists {
                let path = format!("steps[{i}].{kind}.{name}");
                let (replicas, ranks) = ((self.replicas, "replicas"), (self.stages, "ranks"));
                let lengths = if PASSES.contains(&name.as_str()) {
                    vec![replicas, (model_stages, "stages"), (self.micro_batches, "micro-batches")]
                } else if around.contains(&name.as_str()) {
                    vec![replicas, ranks]
                } else {
                    let known: Vec<&str> = PASSES.iter().copied().chain(around.iter().copied()).collect();
                    return Err(SpecError::at(path, "there is nothing of this name")
                        .allowed(known.join(", "))
                        .hint("name what stands around the passes in `before` or `after`"));
                };
                times.check(skipped(&lengths, times.depth()), &path)?;
                sum += times.largest() * f64::from(model_stages) * f64::from(self.micro_batches);
            }
            if sum > 1e7 {
                return Err(SpecError::at(format!("steps[{i}]"), format!("{sum:e} units may pass in it"))
                    .allowed("10000000 units, were everything done in turn")
                    .hint("use a larger unit of time"));
            }
        }
        Ok(())
    }
}

impl TimeTable {
    fn largest(&self) -> f64 {
        match self {
            TimeTable::Absent(()) => 0.0,
            TimeTable::Same(time) => *time,
            TimeTable::Each(list) => list.iter().map(TimeTable::largest).fold(0.0, f64::max),
        }
    }
    /// The time of a part at (replica, stage or rank, micro-batch); around the passes without the last.
    pub fn of(&self, place: &[u32]) -> Option<f64> {
        self.at(skipped(place, self.depth()))
    }
}

/// The dimensions that a list of some depth has: the replica only where all are there, the micro-batch only behind the
/// stage.
fn skipped<T>(dimensions: &[T], depth: usize) -> &[T] {
    if depth >= dimensions.len() { dimensions } else { &dimensions[1..] }
}
