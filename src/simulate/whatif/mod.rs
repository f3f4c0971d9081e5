//! "What if?": the same step with a resource faster, or without something that costs time.
//!
//! A change with a field is read again with it; a rate is changed in the description of the machine. Both are built,
//! planned and played anew: a what-if equals a run with the change. A change without a field is edited into the
//! planned world.

mod change;
mod levels;

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use change::{Change, ENDLESS, FAMILIES, Subject, apply};
pub use levels::StageLevels;

use super::jump::figures_edited;
use super::{Inputs, Options, Simulation, SimulationError};
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::pool;
use stepsim_core::program::{StreamKind, Work};
use stepsim_core::units::{PS_PER_S, Time};
use stepsim_read::analysis::answer::Answer;
use stepsim_read::analysis::candidates::Candidate;
use stepsim_read::analysis::report::Report;

/// A step with changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhatIf {
    /// The change: `matrix × 1.1`, `without tp`.
    pub what: String,
    /// The step, simulated.
    pub step_time_s: f64,
    /// Over the step without changes, less 1: negative where it is faster.
    pub change: f64,
}

/// A step and what changes make of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhatIfs {
    /// The workload.
    pub workload: String,
    /// The machine.
    pub topology: String,
    /// The step without changes.
    pub step_time_s: f64,
    /// Each change that was asked for, the largest gain first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<WhatIf>,
    /// Where none was asked for: the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// The same: all that could be otherwise, dearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// Choices that were not played, since their closed form is far longer.
    #[serde(default, skip_serializing_if = "none_left_out")]
    pub candidates_left_out: u64,
}

/// True if all were played.
fn none_left_out(count: &u64) -> bool {
    *count == 0
}

impl WhatIfs {
    /// All that a report says could be otherwise.
    pub fn of(report: Report) -> WhatIfs {
        WhatIfs {
            workload: report.workload,
            topology: report.topology,
            step_time_s: report.step_time_s,
            changes: Vec::new(),
            answer: Some(report.answer),
            candidates: report.candidates,
            candidates_left_out: report.candidates_left_out,
        }
    }
}

/// A run, ready for changes.
#[derive(Debug)]
pub struct WhatIfBase {
    run: Simulation,
    options: Options,
    /// Found when a stage is first levelled.
    levels: OnceLock<StageLevels>,
}

impl WhatIfBase {
    /// Plays the step without changes.
    ///
    /// # Errors
    /// As [`Simulation::run`].
    pub fn new(inputs: &Inputs, options: Options) -> Result<WhatIfBase, SimulationError> {
        let run = Simulation::run(inputs, &options)?;
        Ok(WhatIfBase { run, options, levels: OnceLock::new() })
    }
    /// The run without changes.
    pub fn run(&self) -> &Simulation {
        &self.run
    }
    /// How long its stages are.
    fn levels(&self) -> &StageLevels {
        self.levels.get_or_init(|| StageLevels::of(&self.run.plan, &self.run.report(false)))
    }

    /// The wait of the mean rank at the end of the step for the last one.
    fn tail(&self) -> Time {
        let (folded, record) = (&self.run.folded, &self.run.record);
        let (mut all, mut ranks) = (0u128, 0u128);
        for rank in (0..folded.world.ranks.len() as u32).map(RankId) {
            let ops = (0..folded.world.program_of(rank).ops.len() as u32).map(OpId);
            let end = ops.map(|op| record.span(rank, op).1).max().unwrap_or_default();
            let weight = u128::from(folded.size(rank));
            all += weight * u128::from((record.step_end - end).0);
            ranks += weight;
        }
        Time((all / ranks.max(1)) as u64)
    }

    /// The step with all of some changes at once.
    ///
    /// # Errors
    /// A change cannot be made, or the changed step does not run.
    pub fn with(&self, changes: &[Change]) -> Result<WhatIf, SimulationError> {
        let (inputs, edits) = apply(&self.run.inputs, self.levels(), changes)?;
        let mut end = figures_edited(&inputs, &self.options, &edits, false)?.step_end;
        if changes.iter().any(|c| c.subject == Subject::Exposed) {
            end = end.max(self.busiest_stream());
        }
        if changes.iter().any(|c| c.subject == Subject::Tail) {
            end = end - self.tail().min(end);
        }
        let (before, after) = (self.run.record.step_end.s(), end.s());
        Ok(WhatIf {
            what: changes.iter().map(Change::name).collect::<Vec<_>>().join(", "),
            step_time_s: after,
            change: after / before.max(1.0 / PS_PER_S) - 1.0,
        })
    }

    /// Each change by itself, the largest gain first.
    ///
    /// # Errors
    /// As [`WhatIfBase::with`].
    pub fn each(&self, changes: &[Change]) -> Result<WhatIfs, SimulationError> {
        let with = |i: usize| self.with(&changes[i..=i]);
        let rows = pool::all(changes.len(), pool::threads(self.options.threads), &with);
        let mut rows: Vec<WhatIf> = rows.into_iter().collect::<Result<_, _>>()?;
        rows.sort_by(|a, b| a.step_time_s.total_cmp(&b.step_time_s));
        Ok(WhatIfs {
            workload: self.run.inputs.workload.name.clone(),
            topology: self.run.inputs.topology.name.clone(),
            step_time_s: self.run.record.step_end.s(),
            changes: rows,
            ..WhatIfs::default()
        })
    }

    /// The longest that a stream of communication other than the pipeline's takes with all that it has to do.
    fn busiest_stream(&self) -> Time {
        let world = &self.run.folded.world;
        let mut longest = Time::ZERO;
        for rank in (0..world.ranks.len() as u32).map(RankId) {
            for stream in &world.program_of(rank).streams {
                use StreamKind::{Compute, Host, PipelineRecv, PipelineSend};
                if matches!(stream.kind, Compute | Host | PipelineRecv | PipelineSend) {
                    continue;
                }
                let ops = stream
                    .ops
                    .iter()
                    .filter(|op| matches!(world.program_of(rank).ops[op.index()].work, Work::Comm { .. }));
                let spans = ops.map(|op| self.run.record.span(rank, *op));
                longest = longest.max(spans.map(|(start, end)| end - start).sum());
            }
        }
        longest
    }
}
