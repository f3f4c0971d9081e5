//! Calculon's files simulated: the closed form's own costs, and each of its assumptions a switch.
//!
//! [`Choices::COMPATIBLE`] makes the assumptions of the closed form: transfers hold their sender, data-parallel and
//! offload time come from the closed form, collectives pay one latency and share nothing.
//! [`Choices::REAL`] lets events decide each of these. [`super::compare`] goes from one to the other switch by switch.

use crate::calculon::closed_form::{self, CalculonEstimate, Costs, NetOp, PerBlock, Quirks, net_time};
use crate::calculon::files::{Calculon, NetworkTier, Recompute, TensorComm};
use crate::calculon::plan::{
    BlockCopies, BlockTimes, CalculonStep, DataParallelPlan, DeviceBlockBytes, Ports, Slowdown,
    TimedTransfer, world,
};
use stepsim_core::engine::{self, EngineError, Record};
use stepsim_core::power::PowerAndPrice;
use stepsim_core::program::World;
use stepsim_core::units::{Bandwidth, FlopRate, Flops, Time};
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_read::analysis::report::{RankInfo, Report, RunInfo, report};
use stepsim_read::analysis::run::Run;
use stepsim_read::analysis::slack::slack;
use stepsim_read::analysis::waterfall::MfuFlops;
use stepsim_step::plan::pipeline::Sends;
use stepsim_step::schedule::ScheduleError;
use stepsim_step::spec::SpecError;

/// The assumptions of the closed form that hold in a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    /// Defects of the published costs.
    pub quirks: Quirks,
    /// The first and the last stage spend time on transfers that go nowhere, as the closed form's stages all do.
    pub ends_send: bool,
    /// Transfers between stages hold their sender.
    pub blocking: bool,
    /// Transfers between stages pay the network's latency.
    pub p2p_latency: bool,
    /// Data-parallel communication in closed form; else event by event, behind the backward passes where the execution
    /// overlaps them.
    pub data_in_closed_form: bool,
    /// Weights are gathered behind the optimizer step, not behind the reduction.
    pub gather_after_step: bool,
    /// Offload in closed form; else copies one block ahead, optimizer state once per step.
    pub offload_in_closed_form: bool,
    /// A ring collective pays the latency once per step of the ring, not once.
    pub ring_latency: bool,
    /// Transfers share the ports of their network.
    pub contention: bool,
    /// Blocks are spread as they are; else every rank has as many as the fullest.
    pub uneven: bool,
    /// Device memory has the capacity of the file; else no end.
    pub capacity: bool,
}

impl Choices {
    /// All assumptions of the closed form that a real pipeline can make.
    pub const COMPATIBLE: Choices = Choices {
        quirks: Quirks::AS_PUBLISHED,
        ends_send: false,
        blocking: true,
        p2p_latency: true,
        data_in_closed_form: true,
        gather_after_step: false,
        offload_in_closed_form: true,
        ring_latency: false,
        contention: false,
        uneven: false,
        capacity: false,
    };
    /// None of them.
    pub const REAL: Choices = Choices {
        quirks: Quirks::REPAIRED,
        ends_send: false,
        blocking: false,
        p2p_latency: true,
        data_in_closed_form: false,
        gather_after_step: true,
        offload_in_closed_form: false,
        ring_latency: true,
        contention: true,
        uneven: true,
        capacity: true,
    };
}

/// Most block executions of a run.
const MOST_BLOCKS: u64 = 1 << 25;

/// Most processors of a machine: reports name each.
const MOST_PROCESSORS: u64 = 1 << 24;

/// Why Calculon's files cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum CalculonError {
    /// The files, or what they ask for together.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// No order of passes.
    #[error("{file}: cannot be simulated: {error}")]
    Schedule {
        /// The execution file.
        file: String,
        /// Why.
        error: ScheduleError,
    },
    /// The run.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A finished run.
#[derive(Debug)]
pub struct CalculonRun {
    /// The closed form with the defects of the run's choices.
    pub estimate: CalculonEstimate,
    /// The step that ran.
    pub step: CalculonStep,
    /// One rank per pipeline stage.
    pub world: World,
    /// The spans of all ops.
    pub record: Record,
}

impl CalculonRun {
    /// Simulates the step of `case`.
    ///
    /// # Errors
    /// See [`CalculonError`].
    pub fn new(case: &Calculon, choices: &Choices) -> Result<CalculonRun, CalculonError> {
        let (estimate, step) = step(case, choices)?;
        let file = || case.names().execution.clone();
        let world = world(&step).map_err(|error| CalculonError::Schedule { file: file(), error })?;
        let record = engine::run(&world)?;
        Ok(CalculonRun { estimate, step, world, record })
    }
    /// All readings of the run: one entry per pipeline stage, which stands for its processors.
    pub fn report(&self, case: &Calculon) -> Report {
        let (exe, step) = (case.exe(), &self.step);
        let peers = (exe.num_procs / exe.pipeline_par) as u32;
        let members =
            |stage: u32| RankInfo { members: (stage * peers..(stage + 1) * peers).collect(), stage };
        let ranks: Vec<RankInfo> = (0..step.ranks).map(members).collect();
        let block = &self.estimate.block;
        let model = block.forward.flops + block.agrad.flops + block.wgrad.flops;
        let everywhere =
            (case.app().num_blocks * case.microbatches()) as f64 * (exe.tensor_par * exe.data_par) as f64;
        // The published form counts far more FLOPs than are recomputed (`Quirks`): utilisation is not part of that
        // defect.
        let recomputed = closed_form::estimate(case, Quirks::REPAIRED).block.recompute.flops;
        let info = RunInfo {
            workload: &case.names().execution,
            topology: &case.names().system,
            model_flops: Flops(model * everywhere),
            model_flops_causal: Flops(model * everywhere),
            hardware_flops: Flops((model + recomputed) * everywhere),
            hardware_flops_causal: Flops((model + recomputed) * everywhere),
            tokens: exe.batch_size * case.app().seq_size,
            steps: 1,
            peak: FlopRate::from_tflops(case.engines().0.tflops),
            counted: MfuFlops::default(),
            memory: Bandwidth(f64::INFINITY),
            devices: exe.num_procs,
            rates: PowerAndPrice::default(),
            ranks: &ranks,
            rank_name: &|rank| format!("stage {}", rank / peers.max(1)),
            resources: &|resource| (resource, 1),
            resource_name: &|resource| {
                let (network, port) = (resource.0 / (2 * step.ranks), resource.0 % (2 * step.ranks));
                let direction = if port % 2 == 0 { "out" } else { "in" };
                format!("shared network {network}, stage {}, {direction}", port / 2)
            },
            simulation_wall_s: None,
            conventions: vec![
                "peak: that of the matrix engine in the system file".into(),
                "mfu counts all FLOPs of Calculon's layers, forward and backward; recomputation and the optimizer \
                 are not counted"
                    .into(),
            ],
        };
        let slacks = slack(&Causes::new(&self.world, &self.record));
        let (mut causes, mut idle) = (Causes::new(&self.world, &self.record), IdleTimes::new(&self.world));
        report(Run::new(&mut causes, &mut idle, Some(&slacks), &info), &[])
    }
    /// Seconds of the step.
    pub fn seconds(&self) -> f64 {
        self.record.step_end.s()
    }
}

/// The closed form and the step whose ops have its costs.
fn step(case: &Calculon, choices: &Choices) -> Result<(CalculonEstimate, CalculonStep), CalculonError> {
    let (exe, app) = (case.exe(), case.app());
    let estimate = closed_form::estimate(case, choices.quirks);
    let counts = estimate.pipeline.counts;
    let visits = app.num_blocks.saturating_mul(case.microbatches());
    let small = |value: u64, path: &str| {
        u32::try_from(value).ok().filter(|_| visits <= MOST_BLOCKS).ok_or_else(|| {
            SpecError::at(path, format!("{} blocks x {} micro-batches", app.num_blocks, case.microbatches()))
                .allowed(format!("up to {MOST_BLOCKS} executions of a block in a simulation"))
                .hint("use `stepsim estimate --calculon`, which has no limit, or a smaller batch")
                .in_file(&case.names().execution)
        })
    };
    if exe.num_procs > MOST_PROCESSORS {
        return Err(SpecError::at("num_procs", format!("{} processors", exe.num_procs))
            .allowed(format!("up to {MOST_PROCESSORS} in a simulation"))
            .hint("use `stepsim estimate --calculon`, which has no limit")
            .in_file(&case.names().execution)
            .into());
    }
    let ranks = small(exe.pipeline_par, "pipeline_par")?;
    let micro_batches = small(case.microbatches(), "batch_size")?;
    let chunks = small(exe.pipeline_interleaving, "pipeline_interleaving")?.min(u32::from(u16::MAX)) as u16;
    // The costs: with ring latencies, the costs of a machine whose networks have them.
    let (base, edge) = match choices.ring_latency {
        false => (None, None),
        true => ring_machines(case, choices.quirks)?,
    };
    let at_base = base.as_ref().map_or(&estimate, |machine| &machine.1);
    let at_edge = edge.as_ref().map_or(at_base, |machine| &machine.1);
    let dp_case = base.as_ref().map_or(case, |machine| &machine.0);
    let step = CalculonStep {
        ranks,
        chunks,
        micro_batches,
        blocks: counts.chunk_blocks as u32,
        missing: if choices.uneven { counts.missing as u32 } else { 0 },
        training: exe.training,
        base: block_times(at_base, |block| block.base),
        edge: block_times(at_edge, |block| block.edge),
        optimizer: Time::from_s(estimate.block.optimizer.time),
        p2p: p2p(case, &estimate, choices),
        sends: if choices.blocking { Sends::Blocking } else { Sends::Asynchronous },
        ends_send: choices.ends_send,
        data: data(dp_case, case, &estimate, choices),
        copies: (!choices.offload_in_closed_form).then(|| copies(case, &estimate)),
        slowdown: if choices.data_in_closed_form { Slowdown::default() } else { slowdown(case, &estimate) },
        ports: if choices.contention { ports(case) } else { Vec::new() },
        bytes: bytes(&estimate),
        capacity: if choices.capacity {
            case.sys().mem1.capacity_gib * (1u64 << 30) as f64
        } else {
            f64::INFINITY
        },
    };
    Ok((estimate, step))
}

fn block_times(estimate: &CalculonEstimate, of: fn(PerBlock<f64>) -> f64) -> BlockTimes {
    let (block, offload) = (&estimate.block, &estimate.pipeline.offload);
    let time = Time::from_s;
    BlockTimes {
        forward: time(block.forward.time),
        forward_comm: time(of(block.forward_comm.exposed_time)),
        forward_offload: time(of(offload.forward_overhead)),
        recompute: time(block.recompute.time),
        redo_comm: time(of(block.redo_comm.exposed_time)),
        backward: time(block.agrad.time + block.wgrad.time),
        backward_comm: time(of(block.agrad_comm.exposed_time)),
        backward_offload: time(of(offload.backward_overhead)),
    }
}

fn p2p(case: &Calculon, estimate: &CalculonEstimate, choices: &Choices) -> [TimedTransfer; 2] {
    let latency = case.networks()[1].latency;
    let pipeline = &estimate.pipeline;
    let transfer = |seconds: f64, bytes: f64| TimedTransfer {
        bytes,
        latency: if choices.p2p_latency { Time::from_s(latency) } else { Time::ZERO },
        wire: Time::from_s((seconds - latency).max(0.0)),
    };
    [
        transfer(pipeline.forward_p2p, pipeline.forward_bytes),
        transfer(pipeline.backward_p2p, pipeline.backward_bytes),
    ]
}

/// `machine` has the latencies to use, `case` the execution.
fn data(
    machine: &Calculon,
    case: &Calculon,
    estimate: &CalculonEstimate,
    choices: &Choices,
) -> DataParallelPlan {
    let exe = case.exe();
    if !exe.training || exe.data_par == 1 {
        return DataParallelPlan::None;
    }
    if choices.data_in_closed_form {
        return DataParallelPlan::Exposed(Time::from_s(estimate.data_parallel.exposed_time));
    }
    let net = machine.networks()[2];
    let bytes = estimate.data_parallel.block_bytes;
    let transfer = |op: NetOp| {
        // Latency of the all-reduce in `ring_machines`; reduce-scatter and all-gather pay half of its steps.
        let halves = if choices.ring_latency && op != NetOp::AllReduce { 0.5 } else { 1.0 };
        TimedTransfer {
            bytes,
            latency: Time::from_s(net.latency * halves),
            wire: Time::from_s(net_time(net, op, bytes, exe.data_par) - net.latency),
        }
    };
    let sharded = exe.optimizer_sharding;
    DataParallelPlan::Blocks {
        reduce: transfer(if sharded { NetOp::ReduceScatter } else { NetOp::AllReduce }),
        gather: sharded.then(|| transfer(NetOp::AllGather)),
        overlap: exe.data_par_overlap,
        gather_after_step: choices.gather_after_step,
    }
}

fn copies(case: &Calculon, estimate: &CalculonEstimate) -> BlockCopies {
    let (exe, costs, bytes) = (case.exe(), Costs::new(case), &estimate.block.bytes);
    let time = |on: bool, bytes: f64| if on { Time::from_s(costs.offload.time(bytes)) } else { Time::ZERO };
    let full = exe.activation_recompute == Recompute::Full;
    BlockCopies {
        weights: time(exe.weight_offload, bytes.weights),
        activations: time(exe.activations_offload, if full { bytes.checkpoint } else { bytes.stored }),
        state: time(exe.optimizer_offload, estimate.pipeline.offload.volume.optimizer),
    }
}

/// A network that takes the share u of the processor makes compute 1 / (1 − u) times as long; memory traffic goes on.
fn slowdown(case: &Calculon, estimate: &CalculonEstimate) -> Slowdown {
    let usage = case.networks()[2].processor_usage;
    let block = &estimate.block;
    let thousandths = |flops_time: f64, time: f64| {
        let share = if time > 0.0 { (flops_time / time).min(1.0) } else { 0.0 };
        (share * usage / (1.0 - usage) * 1000.0).round().clamp(0.0, 60_000.0) as u16
    };
    Slowdown {
        forward: thousandths(block.forward.flops_time, block.forward.time),
        backward: thousandths(
            block.agrad.flops_time + block.wgrad.flops_time,
            block.agrad.time + block.wgrad.time,
        ),
    }
}

/// The networks that carry pipeline or data-parallel traffic; tensor-parallel traffic counts where it shares one.
fn ports(case: &Calculon) -> Vec<Ports> {
    let exe = case.exe();
    let mut indices = vec![exe.pipeline_par_net];
    if exe.data_par_net != exe.pipeline_par_net {
        indices.push(exe.data_par_net);
    }
    let port = |index: &u64| {
        let net = &case.sys().networks[*index as usize];
        Ports {
            bandwidth: net.bandwidth * 1e9 * net.efficiency,
            pipeline: exe.pipeline_par_net == *index,
            data: exe.data_par_net == *index,
            tensor: exe.tensor_par_net == *index,
        }
    };
    indices.iter().map(port).collect()
}

fn bytes(estimate: &CalculonEstimate) -> DeviceBlockBytes {
    let bytes = &estimate.block.bytes;
    let whole = |bytes: f64| bytes.max(0.0).round() as u64;
    DeviceBlockBytes {
        weights: whole(bytes.weights),
        gradients: whole(bytes.weight_grads),
        state: whole(bytes.optimizer),
        stored: whole(bytes.stored.max(bytes.checkpoint)),
    }
}

/// Steps of a ring: k − 1 for a reduce-scatter or all-gather, twice as many for an all-reduce, unless the network does
/// it itself (traffic factor 1).
fn ring_steps(net: &NetworkTier, op: NetOp, k: u64) -> f64 {
    let ring = k.saturating_sub(1).max(1) as f64;
    match op {
        NetOp::AllReduce if net.ops.all_reduce.0 < 2.0 => 1.0,
        NetOp::AllReduce => 2.0 * ring,
        _ => ring,
    }
}

type RingMachine = (Calculon, CalculonEstimate);

/// The machine with latencies of rings, and its closed form: for base blocks, and for edge blocks where these have
/// other collectives. Its third network's latency belongs to an all-reduce, twice a reduce-scatter's.
fn ring_machines(
    case: &Calculon,
    quirks: Quirks,
) -> Result<(Option<RingMachine>, Option<RingMachine>), CalculonError> {
    let exe = case.exe();
    let [tensor, pipeline, data] = case.networks();
    let machine = |op: NetOp| -> Result<RingMachine, CalculonError> {
        let with = |net: &NetworkTier, steps: f64| NetworkTier {
            latency: net.latency * steps,
            must_be_filled: false,
            ..net.clone()
        };
        let data_steps = match exe.optimizer_sharding {
            true => 2.0 * ring_steps(data, NetOp::ReduceScatter, exe.data_par),
            false => ring_steps(data, NetOp::AllReduce, exe.data_par),
        };
        let mut sys = case.sys().clone();
        sys.networks = vec![
            with(tensor, ring_steps(tensor, op, exe.tensor_par)),
            with(pipeline, 1.0),
            with(data, data_steps),
        ];
        let exe = crate::calculon::files::Execution {
            tensor_par_net: 0,
            pipeline_par_net: 1,
            data_par_net: 2,
            ..exe.clone()
        };
        let case = Calculon::new(case.names().clone(), case.app().clone(), exe, sys)?;
        let estimate = closed_form::estimate(&case, quirks);
        Ok((case, estimate))
    };
    Ok(match exe.tensor_par_comm_type {
        TensorComm::Ar => (Some(machine(NetOp::AllReduce)?), None),
        TensorComm::RsAg => (Some(machine(NetOp::AllGather)?), None),
        TensorComm::P2pRsAg => (Some(machine(NetOp::AllReduce)?), Some(machine(NetOp::AllGather)?)),
    })
}
