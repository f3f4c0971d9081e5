//! Many steps that differ in their seed alone, played in parallel.
//!
//! Sample i has seed + i and is the step that a run with that seed plays, whatever the number of threads.

use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use super::{Inputs, Options, Simulation, SimulationError, StepRequest, noise};
use stepsim_core::engine::{CauseRecord, CompiledPrograms, EngineError};
use stepsim_core::ids::RankId;
use stepsim_core::pool;
use stepsim_core::program::World;
use stepsim_plan::step::Plan;
use stepsim_read::analysis::critical::PathWalk;
use stepsim_read::analysis::samples::{Sample, SamplesReport};
use stepsim_spec::workload::NoiseSpec;

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
        Sampler::of(&self.inputs, &self.plan, None).report(seed, count, progress)
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
        let plan = StepRequest { inputs, options, edits: &[], common: None }.planned(inputs)?;
        Ok(Sampler::of(inputs, &plan, options.threads).report(options.seed, count, progress)?)
    }
}

/// Draws seeds into the world of a step.
struct Sampler<'a> {
    noise: &'a NoiseSpec,
    plan: &'a Plan,
    /// Its world, written out: with jitter all ranks differ, and there is nothing to fold.
    world: World,
    threads: Option<usize>,
}

impl Sampler<'_> {
    fn of<'a>(inputs: &'a Inputs, plan: &'a Plan, threads: Option<usize>) -> Sampler<'a> {
        let mut world = plan.world.clone();
        world.flatten();
        Sampler { noise: &inputs.workload.value.noise, plan, world, threads }
    }

    /// Plays `count` samples, and reads how they spread.
    fn report(
        &self,
        seed: u64,
        count: u32,
        progress: &mut dyn FnMut(u64),
    ) -> Result<SamplesReport, EngineError> {
        let samples = self.samples(seed, count, progress)?;
        let stage = |rank| self.plan.stage(RankId(rank));
        Ok(SamplesReport::of(&samples, seed, stage, |rank| self.plan.rank_name(RankId(rank))))
    }

    fn samples(
        &self,
        seed: u64,
        count: u32,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Vec<Sample>, EngineError> {
        let (programs, walk) = (CompiledPrograms::of(&self.world)?, PathWalk::of(&self.world));
        let mut samples: Vec<Option<Result<Sample, EngineError>>> = (0..count).map(|_| None).collect();
        // The world and the causes of a sample serve a later one.
        let spare = Mutex::new(Vec::new());
        let play = |i: usize| {
            let taken = spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let (mut world, mut causes) =
                taken.unwrap_or_else(|| (self.world.clone(), CauseRecord::for_world(&self.world)));
            noise::draw(&mut world, self.noise, seed + i as u64);
            let sample = programs.play(&world, &mut causes).map(|step| {
                let on_path = walk.by_rank(&causes, step).into_iter().map(|(rank, time)| (rank.0, time));
                Sample { step, on_path: on_path.collect() }
            });
            spare.lock().unwrap_or_else(PoisonError::into_inner).push((world, causes));
            sample
        };
        let mut finished = 0;
        pool::each(count as usize, pool::threads(self.threads), &play, &mut |i, sample| {
            samples[i] = Some(sample);
            finished += 1;
            progress(finished);
            ControlFlow::Continue(())
        });
        samples.into_iter().flatten().collect()
    }
}
