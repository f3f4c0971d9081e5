//! One run from files to readings: load, plan, fold, play, report.
//!
//! ```no_run
//! use stepsim_simulate::{Inputs, Options, Simulation};
//! let inputs = Inputs::load("gpt3-175b", None, &[])?;
//! let run = Simulation::run(&inputs, &Options::default())?;
//! println!("{}", run.record.step_end);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod behaviour;
mod busiest;
mod common;
pub mod dynamic_context;
mod fault;
mod inputs;
pub mod jump;
pub mod map;
mod noise;
pub mod page;
mod prices;
mod samples;
mod settings;
pub mod share;
pub mod timeline;
pub mod whatif;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use stepsim_core::clock::Clock;
use stepsim_core::declare::defaults;
use stepsim_core::engine;
use stepsim_core::engine::{EngineError, Observer, Record};
use stepsim_core::fold::FoldedWorld;
use stepsim_core::ids::{DeviceId, RankId, ResourceId};
use stepsim_core::program::{Edit, World};
use stepsim_core::units::{Bytes, FlopRate, Flops, Time};
use stepsim_plan::step::{Plan, PlanError};
use stepsim_price::model::flops::StepFlops;
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_read::analysis::kind::OpKind;
use stepsim_read::analysis::memory;
use stepsim_read::analysis::overlap::{self, StoodStill};
use stepsim_read::analysis::report::{Extent, RankInfo, Report, RunInfo, report};
use stepsim_read::analysis::run::Run;
use stepsim_read::analysis::slack::{Slack, slack};
use stepsim_read::analysis::waterfall::MfuFlops;
use stepsim_spec::{SpecError, blame_setting, power};

pub use common::StepCache;
pub use fault::{FailedReport, Fault, MemoryFault};
pub use inputs::{Inputs, Site};
pub use prices::{DevicePrices, MachinePrices, OwnPrices};
pub use settings::{Settings, expanded, is_file, layer_of, under};
pub use stepsim_read::analysis::head::{Head, InputName, RunStatus};

defaults! {
    /// How to run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Options {
        /// True if ranks that must behave alike are simulated once.
        pub fold: bool = true,
        /// Seed of jitter.
        pub seed: u64,
        /// Most bytes that the record of all ops may take, 16 an op that is played.
        pub record_bytes: u64 = engine::RECORD_LIMIT,
        /// True if turns of a schedule that repeat themselves are counted and not played, where no spans are asked
        /// for.
        pub jump: bool = true,
        /// Threads of many steps; default: as many as processors. They change no result.
        pub threads: Option<usize>,
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The inputs.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The run.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A result that no step can have: a defect of the simulator.
    #[error("{0}")]
    Impossible(String),
}

/// A finished run.
#[derive(Debug)]
pub struct Simulation {
    /// The inputs.
    pub inputs: Inputs,
    /// The step as rank programs, all ranks.
    pub plan: Plan,
    /// The world that was played.
    pub folded: FoldedWorld,
    /// The spans of all ops, by rank of the folded world.
    pub record: Record,
    /// Seconds that planning, folding and playing took.
    pub wall_s: f64,
    /// Seed of what was drawn.
    seed: u64,
    /// Found when it is first asked for: reports and timelines show it.
    slack: OnceLock<Slack>,
}

/// How fast a step was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Seconds of a step.
    pub step_time_s: f64,
    /// Tokens per second.
    pub tokens_per_s: f64,
    /// Model FLOP utilisation.
    pub mfu: f64,
    /// Hardware FLOP utilisation.
    pub hfu: f64,
}

/// Tells how far a run has come, every 65,536 ops.
struct Watched<'a> {
    record: &'a mut Record,
    ops: u64,
    progress: &'a mut dyn FnMut(u64),
}

impl Observer for Watched<'_> {
    #[inline]
    fn finished(&mut self, rank: u32, op: u32, start: Time, end: Time) {
        self.record.finished(rank, op, start, end);
        self.ops += 1;
        if self.ops.is_multiple_of(1 << 16) {
            (self.progress)(self.ops);
        }
    }
    fn slowed_by_memory(&mut self, rank: u32, by: Time) {
        self.record.slowed_by_memory(rank, by);
    }
}

impl Simulation {
    /// Plans, folds and plays.
    ///
    /// # Errors
    /// See [`SimulationError`].
    pub fn run(inputs: &Inputs, options: &Options) -> Result<Simulation, SimulationError> {
        Simulation::run_edited(inputs, options, &[], &mut |_| {})
    }

    /// As [`Simulation::run`], with the planned world changed by `edits` before it is folded: to switch off what no
    /// setting switches off. `progress` is told the number of ops done from time to time.
    ///
    /// # Errors
    /// See [`SimulationError`].
    pub fn run_edited(
        inputs: &Inputs,
        options: &Options,
        edits: &[Edit],
        progress: &mut dyn FnMut(u64),
    ) -> Result<Simulation, SimulationError> {
        StepRequest { inputs, options, edits, common: None }.run(progress)
    }

    /// The same, where a run that the engine cannot play to its end comes back up to there, with the reason: ops that
    /// had not ended then have the moment of the failure as their start and end.
    ///
    /// # Errors
    /// The inputs do not fit, or the world is none.
    pub fn until_failure(
        inputs: &Inputs,
        options: &Options,
        edits: &[Edit],
        progress: &mut dyn FnMut(u64),
    ) -> Result<(Simulation, Option<EngineError>), SimulationError> {
        StepRequest { inputs, options, edits, common: None }.until_failure(progress)
    }

    /// Utilisation, tokens per second, and seconds of a step: as in the report.
    pub fn speed(&self) -> Speed {
        let (plan, seconds) = (&self.plan, self.record.step_end.s());
        let devices = f64::from(self.inputs.machine.devices());
        let rate = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        Speed {
            step_time_s: seconds,
            tokens_per_s: rate(plan.tokens as f64),
            mfu: rate(plan.model_flops.model) / devices / self.inputs.peak().0,
            hfu: rate((plan.hardware_flops + plan.skipped_flops) as f64) / devices / self.inputs.peak().0,
        }
    }

    /// Seconds of a mean rank that stood still for communication, by its kind: as in the report.
    pub fn exposed(&self) -> BTreeMap<OpKind, f64> {
        stood_still_in(&self.plan, &self.folded, &self.record, None).exposed
    }

    /// The fullest device memory: as in the report.
    pub fn memory_peak_bytes(&self) -> Option<u64> {
        memory::peak_bytes(&self.folded.world, &self.record, "hbm")
    }

    /// How much later each op could end without moving the end of the run, by rank of the folded world.
    pub fn slack(&self) -> &Slack {
        self.slack.get_or_init(|| slack(&Causes::new(&self.folded.world, &self.record)))
    }

    /// All readings of the run. `wall` adds how long the simulation took, which makes reports differ between runs.
    pub fn report(&self, wall: bool) -> Report {
        self.read(Extent::Whole, wall)
    }

    /// The same, or what of it one screen shows.
    pub fn read(&self, extent: Extent, wall: bool) -> Report {
        let (plan, inputs) = (&self.plan, &self.inputs);
        let step = WholeStep {
            model_flops: plan.model_flops,
            flops: [plan.hardware_flops, plan.skipped_flops],
            tokens: plan.tokens,
            end: self.record.step_end,
            wall_s: wall.then_some(self.wall_s),
            extent,
        };
        let mut report = step.told(inputs, plan, &self.folded, |info| {
            let mut idle = IdleTimes::unfolded(&plan.world, &self.folded.comms.representative);
            let mut causes = Causes::new(&self.folded.world, &self.record);
            let slack = (extent == Extent::Whole).then(|| self.slack());
            report(Run::new(&mut causes, &mut idle, slack, info), &inputs.readings)
        });
        report.run = inputs.head(self.seed);
        report.dynamic_context = plan.dynamic.as_ref().map(dynamic_context::section);
        report
    }
}

/// A step to be played.
#[derive(Clone, Copy)]
struct StepRequest<'a> {
    inputs: &'a Inputs,
    options: &'a Options,
    /// Changes to its world.
    edits: &'a [Edit],
    /// The knowledge from steps played before.
    common: Option<&'a StepCache>,
}

impl StepRequest<'_> {
    /// As [`Simulation::run_edited`].
    fn run(self, progress: &mut dyn FnMut(u64)) -> Result<Simulation, SimulationError> {
        match self.until_failure(progress)? {
            (run, None) => Ok(run),
            (_, Some(failure)) => Err(failure.into()),
        }
    }

    /// As [`Simulation::until_failure`].
    fn until_failure(
        self,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(Simulation, Option<EngineError>), SimulationError> {
        let (begun, options) = (Clock::start(), self.options);
        let (plan, folded) = self.prepared()?;
        engine::check_record_size(&folded.world, options.record_bytes)?;
        let mut record = Record::for_world(&folded.world);
        let mut watched = Watched { record: &mut record, ops: 0, progress };
        let failure = match engine::run_observed(&folded.world, &mut watched) {
            Ok(stats) => {
                record.complete(stats);
                None
            }
            Err(e @ (EngineError::OutOfMemory { at, .. } | EngineError::Deadlock { at, .. })) => {
                record.stop(at);
                Some(e)
            }
            Err(e) => return Err(e.into()),
        };
        let (inputs, wall_s) = (self.inputs.clone(), begun.elapsed().as_secs_f64());
        let (seed, slack) = (options.seed, OnceLock::new());
        Ok((Simulation { inputs, plan, folded, record, wall_s, seed, slack }, failure))
    }

    /// The plan with its noise, and what is played of it.
    fn prepared(self) -> Result<(Plan, FoldedWorld), SimulationError> {
        let mut plan = self.planned(self.inputs)?;
        noise::draw(&mut plan.world, &self.inputs.workload.value.noise, self.options.seed);
        let folded = self.folded(&plan.world);
        Ok((plan, folded))
    }

    /// The plan of its inputs, or of those that stand in for them, with its edits and all noise that is not drawn.
    fn planned(self, inputs: &Inputs) -> Result<Plan, SimulationError> {
        let mut plan = inputs.plan_among(&mut inputs.lowering(), 1, self.common.map(StepCache::templates))?;
        self.edits.iter().for_each(|edit| plan.world.edit(edit));
        noise::apply_fixed(&mut plan, &inputs.machine, &inputs.workload.value.noise)
            .map_err(|e| blame_setting(e, &inputs.workload.sets).in_file(&inputs.workload.file))?;
        Ok(plan)
    }

    /// Counts the ops of a world that is about to be played.
    fn counts(self, world: &World) {
        self.common.into_iter().for_each(|common| common.counts(world.op_instances()));
    }

    /// The part of a world that is played.
    fn folded(self, world: &World) -> FoldedWorld {
        match self.options.fold {
            true => StepCache::fold(self.common, world),
            false => FoldedWorld::unfolded(world.clone()),
        }
    }
}

/// How many ops are played for a step, turns that repeat themselves among them: what it costs, known before it is
/// played.
///
/// # Errors
/// The inputs do not fit, or the world is none.
pub fn ops_to_play(inputs: &Inputs, options: &Options) -> Result<u64, SimulationError> {
    let (_, folded) = StepRequest { inputs, options, edits: &[], common: None }.prepared()?;
    Ok(folded.world.op_instances())
}

/// The end of a run and its highest levels of memory, without a record of its ops.
#[derive(Default)]
struct Brief {
    peaks: Vec<Bytes>,
}

impl Observer for Brief {
    fn finished(&mut self, _: u32, _: u32, _: Time, _: Time) {}
    fn peaks(&mut self, peaks: &[Bytes]) {
        self.peaks = peaks.to_vec();
    }
}

impl Brief {
    /// Plays a world to its end; the fullest tier of a name, where there is one.
    fn of(world: &World, tier: &str) -> Result<(Time, Option<u64>), EngineError> {
        let mut brief = Brief::default();
        let end = engine::run_observed(world, &mut brief)?.step_end;
        Ok((end, fullest(world, &brief.peaks, tier)))
    }
}

/// The highest level of the fullest tier of a name, from the peaks of all tiers.
fn fullest(world: &World, peaks: &[Bytes], tier: &str) -> Option<u64> {
    let named = world.tiers.iter().zip(peaks).filter(|(of, _)| *of.name == *tier);
    named.map(|(_, peak)| peak.0).max()
}

/// The time that a mean rank stood still; time in a section counts as often as the section stands for.
fn stood_still_in(
    plan: &Plan,
    folded: &FoldedWorld,
    record: &Record,
    section: Option<overlap::RepeatedTime>,
) -> StoodStill {
    let weights: Vec<u64> = folded.ranks.size.iter().map(|size| u64::from(*size)).collect();
    let mut idle = IdleTimes::unfolded(&plan.world, &folded.comms.representative);
    overlap::exposed(&folded.world, record, &mut idle, &weights, section)
}

/// The facts of a whole step, for its report, beside the part that was played.
struct WholeStep {
    model_flops: StepFlops,
    /// Those that run, and what a mask leaves out of them.
    flops: [u128; 2],
    tokens: u64,
    end: Time,
    wall_s: Option<f64>,
    extent: Extent,
}

impl WholeStep {
    /// Has `read` make a report of a step whose `plan` was folded and played.
    fn told(
        &self,
        inputs: &Inputs,
        plan: &Plan,
        folded: &FoldedWorld,
        read: impl FnOnce(&RunInfo) -> Report,
    ) -> Report {
        let ranks = RankInfo::of_classes(&folded.ranks.of, |rank| plan.stage(RankId(rank)));
        let machine = &inputs.machine;
        let peak = inputs.peak();
        let devices = f64::from(machine.devices());
        let of_model = FlopRate(self.model_flops.model / self.end.s() / devices);
        let resources = &folded.resources;
        let [executed, skipped] = self.flops;
        read(&RunInfo {
            extent: self.extent,
            workload: &inputs.workload.name,
            topology: &inputs.topology.name,
            model_flops: Flops(self.model_flops.model),
            model_flops_causal: Flops(self.model_flops.model_causal),
            hardware_flops: Flops((executed + skipped) as f64),
            hardware_flops_causal: Flops(executed as f64),
            tokens: self.tokens,
            peak,
            counted: MfuFlops {
                matrices: self.model_flops.model - self.model_flops.mixing,
                mixing: self.model_flops.mixing,
            },
            memory: machine.device(DeviceId(0)).memory_bandwidth(),
            devices: u64::from(machine.devices()),
            rates: power::mean(machine.class_sizes().into_iter()),
            ranks: &ranks,
            rank_name: &|r| plan.rank_name(RankId(r)),
            resources: &|r| {
                (ResourceId(resources.representative[r.index()]), u64::from(resources.size[r.index()]))
            },
            resource_name: &|r| machine.resource_name(r),
            simulation_wall_s: self.wall_s,
            conventions: vec![
                inputs.peak_convention(of_model),
                "mfu counts the matrix products of forward (once) and backward (twice) with attention in full (no \
                 causal discount); recomputation, element-wise work and the optimizer are not counted"
                    .into(),
                "hfu counts the FLOPs that the simulated kernels execute on matrix units: recomputation included, \
                 attention in full; mfu_causal and hfu_causal leave out what a causal mask skips"
                    .into(),
            ],
        })
    }
}
