//! What if: the same step with a resource faster, or without something that costs time.
//!
//! A change of the machine is made in its description, which is built, planned and played anew: a what-if equals a run
//! with the changed machine. Beside the new step time stands what the critical path of the unchanged run foretold
//! ([`PathTime`]); where the two part, the path became another, or its ops are bound by more than that resource.

pub mod blame;
mod change;
mod levels;
mod path;

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use change::{Change, ENDLESS, FAMILIES, Subject, apply};
pub use path::PathTime;

use super::jump::figures_edited;
use super::{Inputs, Options, Simulation, SimulationError};
use levels::Levels;
use stepsim_core::ids::{OpId, RankId, ResourceId};
use stepsim_core::kernel_class::KernelClass;
use stepsim_core::program::{Phase, StreamKind, Work};
use stepsim_core::units::{PS_PER_S, Time};
use stepsim_read::analysis::kind::OpKind;
use stepsim_step::plan::step::Plan;

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
    /// Found when a stage is first levelled.
    levels: OnceLock<Levels>,
}

impl Base {
    /// Plays the step without changes.
    ///
    /// # Errors
    /// As [`Simulation::run`].
    pub fn new(inputs: &Inputs, options: Options) -> Result<Base, SimulationError> {
        let run = Simulation::run(inputs, &options)?;
        Ok(Base { path: PathTime::of(&run), run, options, levels: OnceLock::new() })
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
        let used = topology
            .link_classes()
            .into_iter()
            .filter(|class| crosses(&self.run.inputs, &self.run.plan, class));
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
        costs.extend(self.losses());
        let whole = |subject| Change { subject, factor: 1.0 };
        changes.extend(costs.into_iter().map(whole));
        if self.run.inputs.workload.value.host().is_some() {
            changes.push(Change { subject: Subject::Host, factor: ENDLESS });
        }
        changes
    }

    /// What the step loses beside communication and the bubble, as far as it does.
    fn losses(&self) -> Vec<Subject> {
        let (world, noise) = (&self.run.plan.world, &self.run.inputs.workload.value.noise);
        let drawn = noise.random_stragglers.is_some() || noise.between_worker_sigma > 0.0;
        let ops = || world.programs.iter().flat_map(|p| &p.ops);
        let disturbed = ops().any(|op| op.slowdown > 0 || op.memory_rate > 0.0);
        let repeats = world.programs.iter().any(|p| p.infos.iter().any(|i| i.phase == Phase::Recompute));
        let copies = world.programs.iter().any(|p| p.streams.iter().any(|s| s.kind == StreamKind::CopyIn));
        let several = self.levels().stages() > 1;
        let losses = [
            (Subject::Stragglers, drawn || !noise.stragglers.is_empty()),
            (Subject::Jitter, noise.compute_sigma > 0.0),
            (Subject::SlowLinks, !noise.slow_links.is_empty()),
            (Subject::Imbalance, several),
            (Subject::Recomputation, repeats),
            (Subject::Interference, disturbed),
            (Subject::FullTier, copies),
            (Subject::Tail, self.tail() > Time::ZERO),
        ];
        losses.into_iter().filter(|(_, is)| *is).map(|(subject, _)| subject).collect()
    }

    /// How long its stages are.
    fn levels(&self) -> &Levels {
        self.levels.get_or_init(|| Levels::of(&self.run.plan, &self.run.report(false)))
    }

    /// What the mean rank waits at the end of the step for the last one.
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
            what: changes.iter().map(Change::name).collect::<Vec<_>>().join(", "),
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

/// Whether any communication crosses a class of links.
fn crosses(inputs: &Inputs, plan: &Plan, class: &str) -> bool {
    let world = &plan.world;
    let change = Change { subject: Subject::Links(class.into()), factor: 2.0 };
    let Ok((changed, _)) = apply(inputs, &Levels::default(), &[change]) else { return false };
    let capacity = |r: ResourceId| changed.machine.capacity(r);
    let uses = world.paths.iter().flat_map(|path| &world.uses[path.range()]);
    uses.map(|u| u.0).any(|r| inputs.machine.capacity(r) != capacity(r))
}
