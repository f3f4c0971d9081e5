//! What if: the same step with a resource faster, or without something that costs time.
//!
//! A change of the machine is made in its description, which is built, planned and played anew: a what-if equals a run
//! with the changed machine. Beside the new step time stands what the critical path of the unchanged run foretold
//! ([`PathTime`]); where the two part, the path became another, or its ops are bound by more than that resource.

mod change;
mod path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use change::{Change, FAMILIES, Subject, apply};
pub use path::PathTime;

use super::jump::figures_edited;
use super::{Inputs, Options, Simulation, SimulationError};
use crate::core::ids::{RankId, ResourceId};
use crate::core::kernel_class::KernelClass;
use crate::core::program::{StreamKind, Work};
use crate::core::units::{PS_PER_S, Time};
use crate::read::analysis::kind::OpKind;

/// A prediction off by more than this part of the change, and of the step, parts from the simulation.
const PARTS_BY: (f64, f64) = (0.1, 0.0005);

/// A step with changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhatIf {
    /// What was changed: `matrix × 1.1`, `without tp`.
    pub what: String,
    /// The step, simulated.
    pub step_time_s: f64,
    /// Over the step without changes, less 1: negative where it is faster.
    pub change: f64,
    /// Time of the unchanged run's critical path on it; absent where the path cannot say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_s: Option<f64>,
    /// The change that this foretells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foretold: Option<f64>,
    /// Why the two part, where they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Parts>,
}

/// Why a prediction parts from the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Parts {
    /// The critical path leads elsewhere.
    PathChanged,
    /// The path is the same, and its ops are bound by other things too.
    BoundByMore,
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
    /// Each change, the largest gain first.
    pub changes: Vec<WhatIf>,
}

/// A run with what its critical path says, ready for changes.
#[derive(Debug)]
pub struct Base {
    run: Simulation,
    path: PathTime,
    options: Options,
}

impl Base {
    /// Plays the step without changes.
    ///
    /// # Errors
    /// As [`Simulation::run`].
    pub fn new(inputs: &Inputs, options: Options) -> Result<Base, SimulationError> {
        let run = Simulation::run(inputs, &options)?;
        Ok(Base { path: PathTime::of(&run), run, options })
    }
    /// The run without changes.
    pub fn run(&self) -> &Simulation {
        &self.run
    }
    /// Everything that the step has to do with: rates by `factor`, latency by its inverse, and what can be taken away.
    pub fn all(&self, factor: f64) -> Vec<Change> {
        let world = &self.run.plan.world;
        let rate = |subject| Change { subject, factor };
        let programs = || world.programs.iter();
        let has_class = |classes: &[KernelClass]| {
            programs().any(|p| p.infos.iter().any(|i| i.class.is_some_and(|c| classes.contains(&c))))
        };
        let has_kind = |kind: OpKind| {
            programs()
                .any(|p| p.streams.iter().any(|s| s.ops.first().is_some_and(|op| OpKind::of(p, *op) == kind)))
        };
        let topology = &self.run.inputs.topology.value;
        let mut changes = vec![rate(Subject::Matrix), rate(Subject::Memory)];
        changes.push(Change { subject: Subject::Latency, factor: 1.0 / factor });
        let used = topology.link_classes().into_iter().filter(|class| self.crosses(class));
        changes.extend(used.map(|class| rate(Subject::Links(class))));
        let families = FAMILIES.into_iter().filter_map(|name| Subject::rate(name, topology));
        let families = families.filter(|s| matches!(s, Subject::Kernels(_, of) if has_class(of)));
        changes.extend(families.map(rate));
        if self.run.inputs.workload.value.host().is_some() {
            changes.push(rate(Subject::Host));
        }
        let kinds =
            OpKind::ALL.into_iter().filter(|k| !matches!(k, OpKind::Compute | OpKind::Host) && has_kind(*k));
        let mut costs: Vec<Subject> = kinds.map(Subject::Free).collect();
        let pipeline = costs.contains(&Subject::Free(OpKind::Pipeline));
        if costs.len() > usize::from(pipeline) {
            costs.push(Subject::Exposed);
        }
        if pipeline {
            costs.push(Subject::Bubble);
        }
        changes.extend(costs.into_iter().map(rate));
        changes
    }

    /// Whether any communication crosses a class of links.
    fn crosses(&self, class: &str) -> bool {
        let world = &self.run.plan.world;
        let change = Change { subject: Subject::Links(class.into()), factor: 2.0 };
        let Ok((changed, _)) = apply(&self.run.inputs, &[change]) else { return false };
        let capacity = |r: ResourceId| changed.machine.capacity(r);
        let uses = world.paths.iter().flat_map(|path| &world.uses[path.range()]);
        uses.map(|u| u.0).any(|r| self.run.inputs.machine.capacity(r) != capacity(r))
    }

    /// The step with all of some changes at once.
    ///
    /// # Errors
    /// A change cannot be made, or the changed step does not run.
    pub fn with(&self, changes: &[Change]) -> Result<WhatIf, SimulationError> {
        let (inputs, edits) = apply(&self.run.inputs, changes)?;
        let mut end = figures_edited(&inputs, &self.options, &edits, false)?.step_end;
        if changes.iter().any(|c| c.subject == Subject::Exposed) {
            end = end.max(self.busiest_stream());
        }
        let (before, after) = (self.run.record.step_end.s(), end.s());
        let name = |c: &Change| match c.subject.is_cost() {
            true => c.subject.name(),
            false => format!("{} × {}", c.subject.name(), rounded(c.factor)),
        };
        let path_s = self.path_s(changes, &inputs);
        let off = |&(seconds, change): &(f64, &Change)| match (change.subject.is_cost(), &change.subject) {
            (true, _) => -seconds,
            (_, Subject::Latency) => -seconds * (1.0 - change.factor),
            _ => -seconds * (1.0 - 1.0 / change.factor),
        };
        let foretold = path_s
            .as_ref()
            .map(|of| of.iter().zip(changes).map(|(s, c)| off(&(*s, c))).sum::<f64>() / before);
        let change = after / before.max(1.0 / PS_PER_S) - 1.0;
        let parted = |told: f64| (told - change).abs() > PARTS_BY.1.max(PARTS_BY.0 * change.abs());
        let mut parts = None;
        if foretold.is_some_and(parted) {
            // Only now is any op looked at.
            let run = Simulation::run_edited(&inputs, &self.options, &edits, &mut |_| {})?;
            let same = PathTime::of(&run).ops == self.path.ops;
            parts = Some(if same { Parts::BoundByMore } else { Parts::PathChanged });
        }
        Ok(WhatIf {
            what: changes.iter().map(name).collect::<Vec<_>>().join(", "),
            step_time_s: after,
            change,
            path_s: path_s.map(|of| of.iter().sum()),
            foretold,
            parts,
        })
    }

    /// Each change by itself, the largest gain first.
    ///
    /// # Errors
    /// As [`Base::with`].
    pub fn each(&self, changes: &[Change]) -> Result<WhatIfs, SimulationError> {
        let mut rows: Vec<WhatIf> =
            changes.iter().map(|c| self.with(std::slice::from_ref(c))).collect::<Result<_, _>>()?;
        rows.sort_by(|a, b| a.step_time_s.total_cmp(&b.step_time_s));
        Ok(WhatIfs {
            workload: self.run.inputs.workload.name.clone(),
            topology: self.run.inputs.topology.name.clone(),
            step_time_s: self.run.record.step_end.s(),
            changes: rows,
        })
    }

    /// Time of the path on each change, where it can say.
    fn path_s(&self, changes: &[Change], changed: &Inputs) -> Option<Vec<f64>> {
        let (was, is) = (&self.run.inputs.machine, &changed.machine);
        let differs = |r: ResourceId| r.0 >= is.resources() || was.capacity(r) != is.capacity(r);
        changes.iter().map(|c| self.path.on(&c.subject, &differs)).collect()
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

/// A factor with as many digits as people read.
fn rounded(factor: f64) -> f64 {
    (factor * 1e4).round() / 1e4
}
