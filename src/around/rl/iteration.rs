//! The phases of an iteration, one after the other or on devices of their own.

use serde::Serialize;

use super::generation::{MOST_TOKENS, Replica, replica};
use super::{Decoder, RlSpec};
use stepsim_core::declare::named;
use stepsim_core::ids::{DeviceId, OpId, RankId};
use stepsim_core::program::{Phase as Pass, StreamKind};
use stepsim_fabric::collective::{Op, Transfer};
use stepsim_price::model::ParameterCount;
use stepsim_simulate::{Inputs, Simulation};
use stepsim_spec::SpecError;

named! {
    /// Where a phase runs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum PhaseLane {
        /// On the devices that train.
        Training = "training",
        /// On those that generate, where they are others.
        Generation = "generation",
        /// On both, or where neither works.
        Both = "both",
    }
}

/// A phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IterationPhase {
    /// Its name.
    pub name: &'static str,
    /// Where.
    pub on: PhaseLane,
    /// From when.
    pub start_s: f64,
    /// How long.
    pub s: f64,
}

/// An iteration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Iteration {
    /// Its length; of one that generates ahead, in a steady state.
    pub s: f64,
    /// Devices, all together.
    pub devices: u64,
    /// Its phases in order.
    pub phases: Vec<IterationPhase>,
    /// Replicas that generate.
    pub replicas: u32,
    /// Sequences, and their tokens with the prompts.
    pub sequences: u64,
    /// Tokens of prompts and responses.
    pub tokens: u64,
    /// Tokens of an update's simulated step, times the updates.
    pub trained_tokens: u64,
    /// The share of work that the mean replica has done when the slowest one ends.
    pub busy_share: f64,
    /// Tokens that all replicas make in a second of generation.
    pub generated_per_s: f64,
    /// All tokens in a second of the iteration on one device.
    pub tokens_per_s_per_device: f64,
    /// The replica that ended last.
    #[serde(skip)]
    pub slowest: Replica,
}

/// Puts the phases together around a training step that was simulated.
///
/// # Errors
/// The replicas do not fit on their devices, or the responses not in their memory.
pub fn iteration(spec: &RlSpec, inputs: &Inputs, step: &Simulation) -> Result<Iteration, SpecError> {
    let generation = &spec.generation;
    let trains = inputs.machine.devices();
    let generates = generation.devices.unwrap_or(trains);
    let replicas = generates / generation.tensor;
    if replicas == 0 || !generates.is_multiple_of(generation.tensor) || generation.tensor > trains {
        return Err(SpecError::at(
            "generation.tensor",
            format!("{} ranks a replica on {generates} devices", generation.tensor),
        )
        .allowed("a divisor of the devices that generate, and no more than those that train"));
    }
    let device = inputs.machine.device(DeviceId(0));
    let lowering = inputs.lowering();
    let decoder = Decoder::new(&inputs.model, device, &lowering, generation)
        .map_err(|e| SpecError::at("generation.tensor", e.to_string()))?;
    let lengths = spec.lengths();
    let made: u64 = lengths.iter().sum();
    if made > MOST_TOKENS {
        return Err(SpecError::at("responses", format!("{made} tokens"))
            .allowed(format!("up to {MOST_TOKENS} in all")));
    }
    let played = generate(spec, &decoder, &lengths, replicas)?;
    let longest = |a: &&Replica, b: &&Replica| a.s.total_cmp(&b.s);
    let slowest = played.iter().max_by(longest).cloned().unwrap_or_default();
    let mean = played.iter().map(|replica| replica.s).sum::<f64>() / f64::from(replicas);

    let updates = f64::from(spec.updates);
    let trained_s = updates * step.record.step_end.s();
    let forward_s = trained_s * forward_share(step);
    let exchange_s = exchange(spec, inputs)?;
    let own = if generation.devices.is_some() { PhaseLane::Generation } else { PhaseLane::Training };
    let forward = |runs: bool| if runs { forward_s } else { 0.0 };
    let phases = [
        ("weight exchange", PhaseLane::Both, exchange_s),
        ("generation", own, slowest.s),
        ("reward", PhaseLane::Both, spec.reward_s),
        ("log-probabilities of the policy", PhaseLane::Training, forward(spec.forwards.policy)),
        ("log-probabilities of the reference", PhaseLane::Training, forward(spec.forwards.reference)),
        ("training", PhaseLane::Training, trained_s),
    ];
    // Generating ahead, the next batch is made while this one is scored and trained on; the exchange is for both.
    let mut clock = [0.0f64; 2];
    let mut placed = Vec::new();
    for (name, on, s) in phases.into_iter().filter(|phase| phase.2 > 0.0) {
        let apart = generation.ahead && on != PhaseLane::Both && name != "reward";
        let lane = usize::from(apart && on == PhaseLane::Generation);
        let on = if generation.ahead && name == "reward" { PhaseLane::Training } else { on };
        if on == PhaseLane::Both {
            clock = [clock[0].max(clock[1]); 2];
        }
        let start_s = clock[lane];
        clock[lane] += s;
        if !generation.ahead || on == PhaseLane::Both {
            clock = [clock[lane]; 2];
        }
        placed.push(IterationPhase { name, on, start_s, s });
    }
    let s = clock[0].max(clock[1]);
    let devices = u64::from(trains) + u64::from(generation.devices.unwrap_or(0));
    let sequences = spec.prompts * spec.samples;
    let tokens = made + sequences * spec.prompt_tokens;
    Ok(Iteration {
        s,
        devices,
        phases: placed,
        replicas,
        sequences,
        tokens,
        trained_tokens: step.plan.tokens * u64::from(spec.updates),
        busy_share: if slowest.s > 0.0 { mean / slowest.s } else { 1.0 },
        generated_per_s: made as f64 / slowest.s.max(f64::MIN_POSITIVE),
        tokens_per_s_per_device: tokens as f64 / s.max(f64::MIN_POSITIVE) / devices as f64,
        slowest,
    })
}

/// Every replica by itself; prompts are dealt in turn.
fn generate(
    spec: &RlSpec,
    decoder: &Decoder,
    lengths: &[u64],
    replicas: u32,
) -> Result<Vec<Replica>, SpecError> {
    let samples = spec.samples as usize;
    let prompts: Vec<&[u64]> = lengths.chunks(samples).collect();
    let play = |first: usize| {
        let own = prompts.iter().skip(first).step_by(replicas as usize);
        let own: Vec<u64> = own.flat_map(|prompt| prompt.iter().copied()).collect();
        replica(decoder, &own, spec.prompt_tokens, spec.samples, spec.generation.most_sequences)
    };
    let played: Option<Vec<Replica>> = (0..replicas as usize).map(play).collect();
    played.ok_or_else(|| {
        let room = (decoder.room() / 1e9).max(0.0);
        let longest = lengths.iter().max().copied().unwrap_or(0) + spec.prompt_tokens;
        let problem =
            format!("a sequence of {longest} tokens has no room: {room:.1} GB are left beside the weights");
        SpecError::at("generation.memory_share", problem)
            .hint("more tensor-parallel ranks a replica (generation.tensor)")
    })
}

/// The share of a step that its forward kernels have, of the rank that computes longest.
fn forward_share(step: &Simulation) -> f64 {
    let (world, record) = (&step.folded.world, &step.record);
    let of = |rank: RankId| {
        let program = world.program_of(rank);
        let (mut forward, mut all) = (0.0, 0.0);
        for (op, id) in program.ops.iter().zip((0..).map(OpId)) {
            if program.streams[usize::from(op.stream)].kind == StreamKind::Compute {
                let (start, end) = record.span(rank, id);
                let s = (end - start).s();
                all += s;
                forward += if program.infos[op.info as usize].phase == Pass::Forward { s } else { 0.0 };
            }
        }
        (all, forward)
    };
    let ranks = (0..record.ranks()).map(|rank| of(RankId(rank)));
    let (all, forward) = ranks.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((1.0, 0.0));
    forward / all.max(f64::MIN_POSITIVE)
}

/// Seconds until the generating ranks hold the new weights.
fn exchange(spec: &RlSpec, inputs: &Inputs) -> Result<f64, SpecError> {
    let generation = &spec.generation;
    let weights = 2.0 * ParameterCount::of(&inputs.model).total() as f64;
    let of_rank = weights / f64::from(generation.tensor);
    let (machine, lowering) = (&inputs.machine, inputs.lowering());
    let wrong = |e: stepsim_fabric::collective::CollectiveError| SpecError::at("generation", e.to_string());
    if generation.devices.is_some() {
        // A chain of replicas: what counts is the link between the two sets, as between the ends of the machine.
        let ends = [DeviceId(0), DeviceId(machine.devices() - 1)];
        let transfer = Transfer::new(Op::SendRecv, of_rank as u64);
        return match ends[0] == ends[1] {
            true => Ok(0.0),
            false => Ok(lowering.explain(&transfer, &ends).map_err(wrong)?.1.expected_s),
        };
    }
    let p = &inputs.workload.value.parallelism;
    let holders = (p.pipeline.size * p.tensor.max(p.expert)).min(u64::from(machine.devices()));
    let shards = holders / u64::from(generation.tensor);
    if shards < 2 {
        // Each holds what it needs, and lays it out anew.
        return Ok(2.0 * of_rank / machine.device(DeviceId(0)).memory_bandwidth().0);
    }
    let stride = u64::from(machine.devices()) / p.pipeline.size.max(1);
    let device = |i: u64| {
        let (stage, within) = (i * p.pipeline.size / shards, i % shards.div_ceil(p.pipeline.size));
        DeviceId((stage * stride + within) as u32)
    };
    let devices: Vec<DeviceId> = (0..shards).map(device).collect();
    let transfer = Transfer::new(Op::AllGather, of_rank as u64);
    Ok(lowering.explain(&transfer, &devices).map_err(wrong)?.1.expected_s)
}
