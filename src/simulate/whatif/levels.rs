//! Stages made equally long: the kernels of all their ranks faster or slower by one factor.
//!
//! How long a stage is, is what its kernels take on devices of their own and what tensor, context and expert
//! parallelism exposes between them. Kernels alone are changed, by as much as makes the sum level; waits for other
//! stages and reductions at the end of the step follow from the run.

use crate::{Inputs, Options, SimulationError, StepRequest};
use stepsim_core::ids::RankId;
use stepsim_core::program::{Edit, Op, StreamKind, Work};
use stepsim_plan::step::Plan;
use stepsim_read::analysis::report::Report;
use stepsim_read::analysis::stalls::{Breakdown, StallCause};
use stepsim_spec::SpecError;

/// Seconds of a rank of each stage.
#[derive(Clone, Debug, Default)]
pub struct StageLevels(Vec<StageLevel>);

#[derive(Clone, Debug, Default)]
struct StageLevel {
    ranks: Vec<RankId>,
    kernels: f64,
    exposed: f64,
}

impl StageLevel {
    fn length(&self) -> f64 {
        self.kernels + self.exposed
    }
    fn to(&self, length: f64) -> impl Iterator<Item = Edit> {
        let more = if self.kernels > 0.0 { (length - self.length()) / self.kernels } else { 0.0 };
        let factor = (1.0 + more).max(0.0);
        self.ranks.iter().map(move |rank| Edit::SlowRank(*rank, factor))
    }
}

impl StageLevels {
    /// The levels of a step that has a report.
    ///
    /// # Errors
    /// The step cannot be planned.
    pub fn of_step(
        inputs: &Inputs,
        options: &Options,
        report: &Report,
    ) -> Result<StageLevels, SimulationError> {
        let asked = StepRequest { inputs, options, edits: &[], common: None };
        Ok(StageLevels::of(&asked.planned(inputs)?, report))
    }

    /// Those of a run.
    pub fn of(plan: &Plan, report: &Report) -> StageLevels {
        let mut levels: Vec<StageLevel> = vec![StageLevel::default(); report.stages.len()];
        for rank in (0..plan.layout.ranks()).map(RankId) {
            let Some(level) = levels.get_mut(plan.stage(rank) as usize) else { continue };
            if level.ranks.is_empty() {
                level.kernels = kernels(plan, rank);
            }
            level.ranks.push(rank);
        }
        for (level, stage) in levels.iter_mut().zip(&report.stages) {
            level.exposed = StageLevels::exposed(&stage.time);
        }
        StageLevels(levels)
    }

    /// Seconds between the kernels of a stage that count as its own.
    pub fn exposed(time: &Breakdown) -> f64 {
        let between = [StallCause::TensorParallel, StallCause::ContextParallel, StallCause::ExpertParallel];
        between.iter().filter_map(|cause| time.stalls_s.get(cause)).sum()
    }

    /// The mean of all but one of this length.
    fn others(&self, length: f64) -> f64 {
        (self.0.iter().map(StageLevel::length).sum::<f64>() - length) / (self.0.len() - 1) as f64
    }

    /// A stage like the mean of the others.
    ///
    /// # Errors
    /// There is no such stage, or no other.
    pub fn one(&self, stage: u32) -> Result<Vec<Edit>, SpecError> {
        let level = self.0.get(stage as usize).filter(|_| self.0.len() > 1).ok_or_else(|| {
            let last = self.0.len().saturating_sub(1);
            SpecError::file(format!("--without stage.{stage}"), "is not one of several stages")
                .allowed(format!("stage.0 to stage.{last} of a pipeline"))
        })?;
        Ok(level.to(self.others(level.length())).collect())
    }

    /// Every stage like the mean of all.
    pub fn all(&self) -> Vec<Edit> {
        let mean = self.0.iter().map(StageLevel::length).sum::<f64>() / self.0.len().max(1) as f64;
        self.0.iter().flat_map(|level| level.to(mean)).collect()
    }
}

/// Seconds of the kernels of a rank, as its device would take alone.
fn kernels(plan: &Plan, rank: RankId) -> f64 {
    let program = plan.world.program_of(rank);
    let computes = |op: &&Op| program.streams[usize::from(op.stream)].kind == StreamKind::Compute;
    let time = |op: &Op| match op.work {
        Work::Compute { time } => time.s(),
        Work::Comm { .. } => 0.0,
    };
    program.ops.iter().filter(computes).map(time).sum()
}
