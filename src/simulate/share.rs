//! Several jobs on one machine, each on devices of its own: how far the flows of the others slow each job.
//!
//! Each job is planned for its devices by itself; then their worlds are joined on the machine's resources and played
//! as one. Links are shared as they are among the flows of one job. So that the short step has the long one beside it
//! all the time, every job makes as many steps as fit beside the longest job's; steps are counted up to the moment
//! when the first job has made all of its own.
//!
//! Ranks that behave alike are folded as in one job: the classes are found on the joined world, so shared resources
//! keep apart the ranks that they make unequal, and every span equals the span of the unfolded run.
//!
//! Hazard: all jobs begin at the same moment, and nothing is drawn; how their phases lie to each other is one case of
//! many.

use crate::{Inputs, SimulationError};
use stepsim_core::engine::{self, EngineError, Record};
use stepsim_core::fold::{FoldedWorld, fold};
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::program::World;
use stepsim_core::units::Time;
use stepsim_plan::step::Plan;

/// Most steps of a job.
const MOST_STEPS: u64 = 64;

/// A job among others.
#[derive(Clone, Debug, PartialEq)]
pub struct JobTimes {
    /// Ranks of the joined world.
    pub ranks: std::ops::Range<u32>,
    /// Steps that were counted.
    pub steps: u32,
    /// Mean time of those steps with the machine to itself.
    pub alone: Time,
    /// And beside the others.
    pub together: Time,
}

/// Jobs that were played together.
#[derive(Debug)]
pub struct SharedRun {
    /// In the order in which they were given.
    pub jobs: Vec<JobTimes>,
    /// All ranks of all jobs, as they were played.
    pub folded: FoldedWorld,
    /// The spans of all ops.
    pub record: Record,
}

impl SharedRun {
    /// Plays jobs on the machine that all of them name, the longest for `steps` steps.
    ///
    /// # Errors
    /// A job cannot be planned or played.
    pub fn play(jobs: &[Inputs], steps: u32, folds: bool) -> Result<SharedRun, SimulationError> {
        let mut times = Vec::new();
        for job in jobs {
            times.push(run(&job.plan()?.world, folds)?.1.step_end);
        }
        let longest = times.iter().copied().max().unwrap_or_default().0.max(1);
        let counts: Vec<u32> = times
            .iter()
            .map(|time| (u64::from(steps.max(1)) * longest).div_ceil(time.0.max(1)).min(MOST_STEPS) as u32)
            .collect();
        let plan = |(job, count): (&Inputs, &u32)| job.plan_with(&mut job.lowering(), *count);
        let plans = jobs.iter().zip(&counts).map(plan).collect::<Result<Vec<Plan>, _>>()?;
        let mut world = World::default();
        let mut ranks = Vec::new();
        for (job, plan) in jobs.iter().zip(&plans) {
            let first = world.ranks().len() as u32;
            if ranks.is_empty() {
                world = plan.world.clone();
            } else {
                world.join(&plan.world, job.machine.tiers() as usize);
            }
            ranks.push(first..world.ranks().len() as u32);
        }
        let mut alone = Vec::new();
        for plan in &plans {
            let (folded, record) = run(&plan.world, folds)?;
            alone.push(ends(&plan.world, &folded, &record, 0..plan.world.ranks().len() as u32));
        }
        let (folded, record) = run(&world, folds)?;
        let together: Vec<Vec<Time>> =
            ranks.iter().map(|ranks| ends(&world, &folded, &record, ranks.clone())).collect();
        // From then on a job has the machine to itself.
        let until = together.iter().filter_map(|ends| ends.last()).copied().min().unwrap_or_default();
        let jobs = ranks.into_iter().zip(alone.iter().zip(&together)).map(|(ranks, (alone, together))| {
            let steps = together.partition_point(|end| *end <= until).max(1);
            let mean = |ends: &[Time]| Time(ends.get(steps - 1).map_or(0, |end| end.0 / steps as u64));
            JobTimes { ranks, steps: steps as u32, alone: mean(alone), together: mean(together) }
        });
        Ok(SharedRun { jobs: jobs.collect(), folded, record })
    }
}

fn run(world: &World, folds: bool) -> Result<(FoldedWorld, Record), EngineError> {
    let folded = if folds { fold(world) } else { FoldedWorld::unfolded(world.clone()) };
    let record = engine::run(&folded.world)?;
    Ok((folded, record))
}

/// When each step of some ranks ended on the last of them.
fn ends(world: &World, folded: &FoldedWorld, record: &Record, ranks: std::ops::Range<u32>) -> Vec<Time> {
    let mut ends: Vec<Time> = Vec::new();
    for rank in ranks.map(RankId) {
        let program = world.program_of(rank);
        let whole = [program.ops.len() as u32];
        let rounds = if program.rounds.is_empty() { &whole[..] } else { &program.rounds };
        let mut first = 0;
        for (round, &until) in rounds.iter().enumerate() {
            let ended = |op: u32| record.span(folded.source(rank), OpId(op)).1;
            let end = (first..until).map(ended).max().unwrap_or_default();
            if round == ends.len() {
                ends.push(Time::ZERO);
            }
            ends[round] = ends[round].max(end);
            first = until;
        }
    }
    ends
}
