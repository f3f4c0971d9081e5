//! Many steps that differ in their seed alone, played in parallel.
//!
//! Sample i has seed + i and is the step that a run with that seed plays, whatever the number of threads.

use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use super::{Inputs, Options, Simulation, SimulationError, StepRequest, noise};
use stepsim_core::engine;
use stepsim_core::engine::{CauseRecord, CompiledPrograms, EngineError, Record};
use stepsim_core::fold::{FoldedWorld, fold};
use stepsim_core::ids::RankId;
use stepsim_core::pool;
use stepsim_core::program::World;
use stepsim_plan::step::Plan;
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::critical::{PathWalk, critical_path};
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_read::analysis::samples::{Sample, SamplesReport};

impl Simulation {
    /// Plays `count` steps that differ in their seed, from `seed` on, in parallel, and reads how their times spread.
    /// `progress` is told how many are done.
    ///
    /// # Errors
    /// That of the first sample that fails.
    ///
    /// # Panics
    /// If `count` is 0.
    pub fn sample(
        &self,
        seed: u64,
        count: u32,
        progress: &mut dyn FnMut(u64),
    ) -> Result<SamplesReport, EngineError> {
        let Simulation { inputs, plan, slowness, .. } = self;
        // The run itself is one of them.
        let own = (seed == self.seed).then(|| of_folded(&plan.world, &self.folded, &self.record));
        Sampler::of(inputs, plan, slowness, None).report(seed, count, own, progress)
    }

    /// The same of a step that is not played by itself: no op of it is recorded.
    ///
    /// # Errors
    /// The inputs do not fit, or a sample fails.
    ///
    /// # Panics
    /// If `count` is 0.
    pub fn sample_alone(
        inputs: &Inputs,
        options: &Options,
        count: u32,
        progress: &mut dyn FnMut(u64),
    ) -> Result<SamplesReport, SimulationError> {
        let plan =
            StepRequest { inputs, options, edits: &[], common: None }.planned(inputs, options.steps)?;
        let slowness: Vec<f64> = plan.world.ranks.iter().map(|rank| rank.slowness).collect();
        let sampler = Sampler::of(inputs, &plan, &slowness, options.threads);
        Ok(sampler.report(options.seed, count, None, progress)?)
    }
}

/// Draws seeds into the world of a step.
struct Sampler<'a> {
    inputs: &'a Inputs,
    plan: &'a Plan,
    /// Slowness of each rank before anything is drawn.
    slowness: &'a [f64],
    /// Its world, written out where it is played as it is.
    world: World,
    threads: Option<usize>,
}

/// The programs of a step whose ranks all differ: with jitter there is nothing to fold.
struct Unfolded<'a> {
    programs: CompiledPrograms<'a>,
    walk: PathWalk<'a>,
}

impl Sampler<'_> {
    fn of<'a>(
        inputs: &'a Inputs,
        plan: &'a Plan,
        slowness: &'a [f64],
        threads: Option<usize>,
    ) -> Sampler<'a> {
        let mut world = plan.world.clone();
        if inputs.workload.value.noise.compute_sigma > 0.0 {
            world.flatten();
        }
        Sampler { inputs, plan, slowness, world, threads }
    }

    /// Plays `count` samples, but for the first one if it is there, and reads how they spread.
    fn report(
        &self,
        seed: u64,
        count: u32,
        own: Option<Sample>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<SamplesReport, EngineError> {
        let samples = self.samples(seed, count, own, progress)?;
        let stage = |rank| self.plan.stage(RankId(rank));
        Ok(SamplesReport::of(&samples, seed, stage, |rank| self.plan.rank_name(RankId(rank))))
    }

    fn samples(
        &self,
        seed: u64,
        count: u32,
        own: Option<Sample>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Vec<Sample>, EngineError> {
        let unfolded = self.unfolded()?;
        let done_before = u32::from(own.is_some());
        let mut samples: Vec<Option<Result<Sample, EngineError>>> = (0..count).map(|_| None).collect();
        samples[0] = own.map(Ok);
        // The world and the causes of a sample serve a later one.
        let spare = Mutex::new(Vec::new());
        let play = |i: usize| {
            let taken = spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let (mut world, mut causes) = taken.unwrap_or_else(|| {
                (self.world.clone(), unfolded.as_ref().map(|_| CauseRecord::for_world(&self.world)))
            });
            let of_seed = seed + u64::from(done_before) + i as u64;
            let sample = self.play(&mut world, unfolded.as_ref().zip(causes.as_mut()), of_seed);
            spare.lock().unwrap_or_else(PoisonError::into_inner).push((world, causes));
            sample
        };
        let mut finished = u64::from(done_before);
        pool::each((count - done_before) as usize, pool::threads(self.threads), &play, &mut |i, sample| {
            samples[i + done_before as usize] = Some(sample);
            finished += 1;
            progress(finished);
            ControlFlow::Continue(())
        });
        samples.into_iter().flatten().collect()
    }

    fn unfolded(&self) -> Result<Option<Unfolded<'_>>, EngineError> {
        if self.inputs.workload.value.noise.compute_sigma <= 0.0 {
            return Ok(None);
        }
        let programs = CompiledPrograms::of(&self.world)?;
        Ok(Some(Unfolded { programs, walk: PathWalk::of(&self.world) }))
    }

    /// Draws a seed into a copy of the world and plays it; `causes` are another sample's.
    fn play(
        &self,
        world: &mut World,
        unfolded: Option<(&Unfolded, &mut CauseRecord)>,
        seed: u64,
    ) -> Result<Sample, EngineError> {
        let Sampler { inputs, plan, slowness, .. } = self;
        noise::draw(world, slowness, &plan.layout, &inputs.machine, &inputs.workload.value.noise, seed);
        if let Some((Unfolded { programs, walk }, causes)) = unfolded {
            let step = programs.play(world, causes)?;
            let on_path = walk.by_rank(causes, step).into_iter().map(|(rank, time)| (rank.0, time));
            return Ok(Sample { step, on_path: on_path.collect() });
        }
        let folded = fold(world);
        Ok(of_folded(world, &folded, &engine::run(&folded.world)?))
    }
}

/// The sample of a world that was played in part.
fn of_folded(world: &World, folded: &FoldedWorld, record: &Record) -> Sample {
    let mut idle = IdleTimes::unfolded(world, &folded.comms.representative);
    let path = critical_path(&mut Causes::new(&folded.world, record), &mut idle);
    let name = |rank: RankId| folded.ranks.representative[rank.index()];
    let mut on_path: Vec<(u32, _)> = path.by_rank().iter().map(|(rank, time)| (name(*rank), *time)).collect();
    on_path.sort_unstable();
    Sample { step: record.step_end, on_path }
}
