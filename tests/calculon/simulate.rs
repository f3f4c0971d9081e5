//! Calculon's files simulated: the closed form's own costs, and each of its assumptions a switch.
//!
//! [`Choices::COMPATIBLE`] makes the assumptions of the closed form: transfers hold their sender, data-parallel and
//! offload time come from the closed form, collectives pay one latency and share nothing.
//! [`Choices::REAL`] lets events decide each of these.

use crate::calculon::CalculonCase;
use crate::calculon::closed_form::{self, CalculonEstimate, Costs, NetOp, PerBlock, Quirks, net_time};
use crate::calculon::plan::{
    BlockCopies, BlockTimes, CalculonStep, DataParallelPlan, DeviceBlockBytes, Ports, Slowdown,
    TimedTransfer, world,
};
use stepsim::bring::calculon::{Calculon, NetworkTier, Recompute, TensorComm};
use stepsim::core::engine::{self, Record};
use stepsim::core::units::Time;
use stepsim::plan::pipeline::Sends;
use stepsim::schedule::ScheduleError;

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

/// A finished run.
#[derive(Debug)]
pub struct CalculonRun {
    /// The closed form with the defects of the run's choices.
    pub estimate: CalculonEstimate,
    /// The spans of all ops.
    pub record: Record,
}

impl CalculonRun {
    /// Simulates the step of `case`.
    ///
    /// # Errors
    /// No order of passes.
    pub fn new(case: &Calculon, choices: &Choices) -> Result<CalculonRun, ScheduleError> {
        let (estimate, step) = step(case, choices);
        let world = world(&step)?;
        let record = engine::run(&world).expect("a run");
        Ok(CalculonRun { estimate, record })
    }
    /// Seconds of the step.
    pub fn seconds(&self) -> f64 {
        self.record.step_end.s()
    }
}

/// The closed form and the step whose ops have its costs.
fn step(case: &Calculon, choices: &Choices) -> (CalculonEstimate, CalculonStep) {
    let exe = case.exe();
    let estimate = closed_form::estimate(case, choices.quirks);
    let counts = estimate.pipeline.counts;
    // The costs: with ring latencies, the costs of a machine whose networks have them.
    let (base, edge) = match choices.ring_latency {
        false => (None, None),
        true => ring_machines(case, choices.quirks),
    };
    let at_base = base.as_ref().map_or(&estimate, |machine| &machine.1);
    let at_edge = edge.as_ref().map_or(at_base, |machine| &machine.1);
    let dp_case = base.as_ref().map_or(case, |machine| &machine.0);
    let step = CalculonStep {
        ranks: exe.pipeline_par as u32,
        chunks: exe.pipeline_interleaving as u16,
        micro_batches: case.microbatches() as u32,
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
    (estimate, step)
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
fn ring_machines(case: &Calculon, quirks: Quirks) -> (Option<RingMachine>, Option<RingMachine>) {
    let exe = case.exe();
    let [tensor, pipeline, data] = case.networks();
    let machine = |op: NetOp| -> RingMachine {
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
        let exe = stepsim::bring::calculon::Execution {
            tensor_par_net: 0,
            pipeline_par_net: 1,
            data_par_net: 2,
            ..exe.clone()
        };
        let case = Calculon { exe, sys, ..case.clone() };
        let estimate = closed_form::estimate(&case, quirks);
        (case, estimate)
    };
    match exe.tensor_par_comm_type {
        TensorComm::Ar => (Some(machine(NetOp::AllReduce)), None),
        TensorComm::RsAg => (Some(machine(NetOp::AllGather)), None),
        TensorComm::P2pRsAg => (Some(machine(NetOp::AllReduce)), Some(machine(NetOp::AllGather))),
    }
}
