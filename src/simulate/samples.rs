//! Many steps that differ in their seed alone, played in parallel.
//!
//! Sample i has seed + i and is the step that a run with that seed plays, whatever the number of threads.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;

use super::{Simulation, noise};
use stepsim_core::engine;
use stepsim_core::engine::{CompiledPrograms, EngineError, Record};
use stepsim_core::fold::{FoldedWorld, fold};
use stepsim_core::ids::RankId;
use stepsim_core::interrupt::{carried, check};
use stepsim_core::program::World;
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::critical::critical_path;
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_read::analysis::samples::{Sample, SamplesReport};

/// Bytes that the records of all samples in flight may take together.
const RECORDS_LIMIT: u64 = 4 << 30;

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
        let samples = samples(self, seed, count, progress)?;
        let stage = |rank| self.plan.stage(RankId(rank));
        Ok(SamplesReport::of(&samples, seed, stage, |rank| self.plan.rank_name(RankId(rank))))
    }
}

/// Plays `count` samples; `progress` is told how many are done.
///
/// # Errors
/// That of the first sample that fails.
fn samples(
    run: &Simulation,
    seed: u64,
    count: u32,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Sample>, EngineError> {
    let bytes = 16 * run.plan.world.op_instances();
    let fitting = RECORDS_LIMIT / bytes.max(1);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let threads = threads.min(fitting).min(u64::from(count)).max(1);
    let sampler = Sampler::of(run);
    let mut samples: Vec<Option<Result<Sample, EngineError>>> = (0..count).map(|_| None).collect();
    // The run itself is one of them.
    let own = u32::from(seed == run.seed);
    if own > 0 {
        samples[0] = Some(Ok(sampler.of_run()));
    }
    let compiled = sampler.compiled()?;
    let next = AtomicU32::new(own);
    std::thread::scope(|scope| {
        let (done, results) = mpsc::channel();
        for _ in 0..threads {
            let (done, next, sampler, compiled) = (done.clone(), &next, &sampler, compiled.as_ref());
            scope.spawn(carried(move || {
                let mut world = sampler.world.clone();
                // One for all: what the system must zero anew for each costs as much as a tenth of the run.
                let mut record = compiled.map_or_else(Record::default, |_| Record::for_world(&world));
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let seed = seed + u64::from(i);
                    // The receiver is gone only if its thread has panicked.
                    if i >= count
                        || done.send((i, sampler.play(&mut world, compiled, &mut record, seed))).is_err()
                    {
                        break;
                    }
                }
            }));
        }
        drop(done);
        for (finished, (i, sample)) in (1 + u64::from(own)..).zip(results) {
            samples[i as usize] = Some(sample);
            progress(finished);
        }
    });
    check();
    samples.into_iter().flatten().collect()
}

/// Draws seeds into the world of a run.
struct Sampler<'a> {
    run: &'a Simulation,
    /// Its world, written out where it is played as it is.
    world: World,
}

impl Sampler<'_> {
    fn of(run: &Simulation) -> Sampler<'_> {
        let mut world = run.plan.world.clone();
        if run.inputs.workload.value.noise.compute_sigma > 0.0 {
            world.flatten();
        }
        Sampler { run, world }
    }

    /// The programs for all samples where no two ranks are alike: with jitter there is nothing to fold.
    fn compiled(&self) -> Result<Option<CompiledPrograms<'_>>, EngineError> {
        let jitter = self.run.inputs.workload.value.noise.compute_sigma > 0.0;
        jitter.then(|| CompiledPrograms::of(&self.world)).transpose()
    }

    /// The run itself.
    fn of_run(&self) -> Sample {
        let Simulation { plan, folded, record, .. } = self.run;
        of_folded(&plan.world, folded, record)
    }

    /// Draws a seed into a copy of the world and plays it; `record` is another sample's.
    fn play(
        &self,
        world: &mut World,
        compiled: Option<&CompiledPrograms>,
        record: &mut Record,
        seed: u64,
    ) -> Result<Sample, EngineError> {
        let Simulation { inputs, plan, slowness, .. } = self.run;
        noise::draw(world, slowness, &plan.layout, &inputs.machine, &inputs.workload.value.noise, seed);
        if let Some(compiled) = compiled {
            compiled.play(world, record)?;
            return Ok(read(world, record, &mut IdleTimes::new(world), |rank| rank));
        }
        let folded = fold(world);
        Ok(of_folded(world, &folded, &engine::run(&folded.world)?))
    }
}

/// The sample of a world that was played in part.
fn of_folded(world: &World, folded: &FoldedWorld, record: &Record) -> Sample {
    let mut idle = IdleTimes::unfolded(world, &folded.comms.representative);
    read(&folded.world, record, &mut idle, |rank| folded.ranks.representative[rank as usize])
}

fn read(world: &World, record: &Record, idle: &mut IdleTimes, name: impl Fn(u32) -> u32) -> Sample {
    let path = critical_path(&mut Causes::new(world, record), idle);
    let mut on_path: Vec<(u32, _)> =
        path.by_rank().iter().map(|(rank, time)| (name(rank.0), *time)).collect();
    on_path.sort_unstable();
    Sample { step: record.step_end, on_path }
}
