//! One run from files to readings: load, plan, fold, play, report.
//!
//! ```no_run
//! use stepsim::simulate::{Inputs, Options, Simulation};
//! let inputs = Inputs::load("gpt3-175b", None, &[])?;
//! let run = Simulation::run(inputs, &Options::default(), &mut |_| {})?;
//! println!("{}", run.record.step_end);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod noise;
mod prices;
mod samples;

use std::time::Instant;

use crate::analysis::idle::IdleTimes;
use crate::analysis::report::{RankInfo, Report, RunInfo, report};
use crate::analysis::samples::SamplesReport;
use crate::collective::{Chooser, Fidelity, Lowering};
use crate::engine::{self, EngineError, Observer, Record};
use crate::fold::{Folded, fold};
use crate::ids::{DeviceId, RankId};
use crate::plan::step::{Plan, PlanError, plan};
use crate::program::World;
use crate::spec::workload::{CollectiveFidelity, ModelRef};
use crate::spec::{Loaded, ModelSpec, SpecError, Topology, WorkloadSpec, blame_setting, load};
use crate::topology::Machine;
use crate::units::{Flops, Time};

pub use prices::DevicePrices;
use samples::samples;

/// A workload and a machine, read and found to fit each other.
#[derive(Debug)]
pub struct Inputs {
    /// The step.
    pub workload: Loaded<WorkloadSpec>,
    /// Its model.
    pub model: ModelSpec,
    /// The machine's description.
    pub topology: Loaded<Topology>,
    /// The machine.
    pub machine: Machine,
    /// How the machine carries out collectives.
    pub chooser: Chooser,
}

impl Inputs {
    /// Loads a workload and a machine by name or path. Without a topology the workload's own is taken. `sets` are
    /// `path=value` texts: a path that begins with `topology.` changes the machine, every other the workload.
    ///
    /// # Errors
    /// Anything wrong in the files, the settings, or between the two.
    pub fn load(workload: &str, topology: Option<&str>, sets: &[String]) -> Result<Inputs, SpecError> {
        let (of_machine, of_workload): (Vec<String>, Vec<String>) =
            sets.iter().cloned().partition(|s| s.starts_with("topology."));
        let of_machine: Vec<String> = of_machine.iter().map(|s| s["topology.".len()..].to_string()).collect();
        let workload: Loaded<WorkloadSpec> = load(workload, &of_workload)?;
        let named = topology.map(str::to_string).or_else(|| workload.value.topology.clone());
        let Some(named) = named else {
            return Err(SpecError::at("topology", "the workload names no topology")
                .in_file(&workload.file)
                .hint("give one with --topology; `stepsim list` shows those that are shipped"));
        };
        // Messages name a setting as it was given.
        let whole = |mut e: SpecError| {
            if let Some(setting) = e.file.strip_prefix("--set ") {
                e.file = format!("--set topology.{setting}");
            }
            e
        };
        let (topology, machine) = Machine::load(&named, &of_machine).map_err(whole)?;
        let chooser = chooser(&topology, &machine)
            .map_err(|e| whole(blame_setting(e, &of_machine)).in_file(&topology.file))?;
        let file = workload.file.clone();
        Inputs::fit(workload, topology, machine, chooser)
            .map_err(|e| blame_setting(e, &of_workload).in_file(&file))
    }

    /// Puts a workload and a machine together.
    ///
    /// # Errors
    /// The two do not fit: degrees that do not multiply to the devices, or a tier that the machine lacks.
    pub fn new(
        workload: Loaded<WorkloadSpec>,
        topology: Loaded<Topology>,
        machine: Machine,
    ) -> Result<Inputs, SpecError> {
        let file = workload.file.clone();
        let chooser = chooser(&topology, &machine).map_err(|e| e.in_file(&topology.file))?;
        Inputs::fit(workload, topology, machine, chooser).map_err(|e| e.in_file(&file))
    }

    /// The same; errors name no file yet.
    fn fit(
        workload: Loaded<WorkloadSpec>,
        topology: Loaded<Topology>,
        machine: Machine,
        chooser: Chooser,
    ) -> Result<Inputs, SpecError> {
        let ModelRef::Inline(model) = &workload.value.model else {
            return Err(SpecError::at("model", "the model was not resolved"));
        };
        let model = (**model).clone();
        let tiers: Vec<&str> = machine.tiers_of(DeviceId(0)).map(|t| machine.tier(t).0).collect();
        let problems = workload.value.validate_on(u64::from(machine.devices()), &tiers);
        if let Some(p) = problems.into_iter().next() {
            return Err(p.into());
        }
        Ok(Inputs { workload, model, topology, machine, chooser })
    }

    /// How collectives are lowered for this workload on this machine.
    pub fn lowering(&self) -> Lowering<'_> {
        let fidelity = match self.workload.value.fidelity.collectives {
            CollectiveFidelity::Formula => Fidelity::Formula,
            CollectiveFidelity::Fluid => Fidelity::Fluid,
            CollectiveFidelity::Steps => Fidelity::Steps,
        };
        Lowering::new(&self.machine, fidelity, self.chooser.clone())
    }

    /// The step as rank programs.
    ///
    /// # Errors
    /// As [`plan`].
    pub fn plan(&self) -> Result<Plan, PlanError> {
        self.plan_with(&mut self.lowering(), 1)
    }
    /// The first `steps` steps of a run, with a lowering that tells afterwards what each transfer is and what was
    /// chosen for it.
    ///
    /// # Errors
    /// As [`plan`].
    pub fn plan_with(&self, lowering: &mut Lowering<'_>, steps: u32) -> Result<Plan, PlanError> {
        let prices =
            DevicePrices::new(&self.workload.value.fidelity, self.machine.device(DeviceId(0)), &self.chooser);
        plan(&self.workload.value, &self.model, &self.machine, lowering, &prices, steps).map_err(
            |e| match e {
                PlanError::Spec(e) => PlanError::Spec(e.in_file(&self.workload.file)),
                other => other,
            },
        )
    }
}

/// How a machine carries out collectives.
fn chooser(topology: &Loaded<Topology>, machine: &Machine) -> Result<Chooser, SpecError> {
    Chooser::of_machine(&machine.device(DeviceId(0)).name, topology.value.collectives.as_ref())
}

/// How to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether ranks that must behave alike are simulated once.
    pub fold: bool,
    /// Seed of jitter.
    pub seed: u64,
    /// Steps to simulate one after the other, at least 1.
    pub steps: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options { fold: true, seed: 0, steps: 1 }
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
}

/// A finished run.
#[derive(Debug)]
pub struct Simulation {
    /// What went in.
    pub inputs: Inputs,
    /// The step as rank programs, all ranks.
    pub plan: Plan,
    /// What was played.
    pub folded: Folded,
    /// What happened, by rank of the folded world.
    pub record: Record,
    /// Seconds that planning, folding and playing took.
    pub wall_s: f64,
    /// Slowness of each rank before anything was drawn.
    slowness: Vec<f64>,
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
}

impl Simulation {
    /// Plans, folds and plays. `progress` is told the number of ops done from time to time.
    ///
    /// # Errors
    /// See [`SimulationError`].
    pub fn run(
        inputs: Inputs,
        options: &Options,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Simulation, SimulationError> {
        Simulation::run_edited(inputs, options, &|_| {}, progress)
    }

    /// As [`Simulation::run`], with the planned world changed by `edit` before it is folded: to switch off what no
    /// setting switches off.
    ///
    /// # Errors
    /// See [`SimulationError`].
    pub fn run_edited(
        inputs: Inputs,
        options: &Options,
        edit: &dyn Fn(&mut World),
        progress: &mut dyn FnMut(u64),
    ) -> Result<Simulation, SimulationError> {
        let begun = Instant::now();
        let mut plan = inputs.plan_with(&mut inputs.lowering(), options.steps)?;
        edit(&mut plan.world);
        let (noise, machine) = (&inputs.workload.value.noise, &inputs.machine);
        noise::apply_fixed(&mut plan, machine, noise).map_err(|e| e.in_file(&inputs.workload.file))?;
        let slowness = plan.world.ranks.iter().map(|r| r.slowness).collect::<Vec<_>>();
        noise::draw(&mut plan.world, &slowness, &plan.layout, machine, noise, options.seed);
        let folded = if options.fold { fold(&plan.world) } else { Folded::unfolded(plan.world.clone()) };
        engine::check_record_size(&folded.world)?;
        let mut record = Record::for_world(&folded.world);
        let mut watched = Watched { record: &mut record, ops: 0, progress };
        let stats = engine::run_observed(&folded.world, &mut watched)?;
        record.complete(stats);
        let wall_s = begun.elapsed().as_secs_f64();
        Ok(Simulation { inputs, plan, folded, record, wall_s, slowness })
    }

    /// Number of ops that the engine plays: for a progress bar.
    pub fn played_ops(&self) -> u64 {
        self.folded.world.op_instances()
    }

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

    /// All readings of the run. `wall` adds how long the simulation took, which makes reports differ between runs.
    pub fn report(&self, wall: bool) -> Report {
        let plan = &self.plan;
        let mut ranks: Vec<RankInfo> = (0..self.folded.world.ranks.len() as u32)
            .map(|r| RankInfo {
                members: Vec::new(),
                stage: plan.stage(self.folded.representative(RankId(r))),
            })
            .collect();
        for r in 0..plan.world.ranks.len() as u32 {
            ranks[self.folded.source(RankId(r)).index()].members.push(r);
        }
        let mut idle = IdleTimes::unfolded(&plan.world, &self.folded.comms.representative);
        let machine = &self.inputs.machine;
        let device = machine.device(DeviceId(0));
        let workload = &self.inputs.workload;
        let compute = workload.value.precision.compute;
        let peak = device.peak(compute).unwrap_or(crate::units::FlopRate(f64::INFINITY));
        let resources = &self.folded.resources.representative;
        let info = RunInfo {
            workload: &workload.name,
            topology: &self.inputs.topology.name,
            model_flops: Flops(plan.model_flops.model),
            hardware_flops: Flops(plan.hardware_flops),
            tokens: plan.tokens,
            steps: plan.steps,
            peak,
            devices: u64::from(machine.devices()),
            ranks: &ranks,
            rank_name: &|r| plan.rank_name(RankId(r)),
            resource_name: &|r| machine.resource_name(crate::ids::ResourceId(resources[r.index()])),
            simulation_wall_s: wall.then_some(self.wall_s),
            conventions: vec![
                format!(
                    "peak: {:.1} TFLOP/s a device, dense {} ({})",
                    peak.0 / 1e12,
                    compute.name(),
                    device.name
                ),
                "mfu counts the matrix products of forward (once) and backward (twice) with attention in full (no \
                 causal discount); recomputation, element-wise work and the optimizer are not counted"
                    .into(),
                "hfu counts the FLOPs that the simulated kernels execute on matrix units: recomputation included, \
                 what a causal mask skips left out"
                    .into(),
            ],
        };
        report(&self.folded.world, &self.record, &mut idle, &info)
    }
}
