//! The file of an iteration.

use std::fmt::Display;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use stepsim_core::declare::{one, one_long};
use stepsim_simulate::Inputs;
use stepsim_spec::SpecError;
use stepsim_spec::workload::DrawnLengths;

/// Most sequences of an iteration, and tokens of one.
const MOST_SEQUENCES: u64 = 1 << 20;
const MOST_TOKENS: u64 = 1 << 20;
/// How far the tokens of an update may be from those generated: what packing into whole sequences leaves empty, or
/// drops.
const PACKED: f64 = 0.02;

/// An iteration of reinforcement learning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RlSpec {
    /// Its description, one sentence.
    #[serde(default)]
    pub description: String,
    /// Where its figures come from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The training step of one update: a shipped name, or a path relative to this file.
    pub workload: String,
    /// The machine that trains: a name, a path, or a simple one; default: the workload's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
    /// Fields of the workload that are changed, as `--set` of `run`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// Updates (training steps) of an iteration.
    #[serde(default = "one")]
    pub updates: u32,
    /// Prompts of an iteration.
    pub prompts: u64,
    /// Responses to each prompt.
    #[serde(default = "one_long")]
    pub samples: u64,
    /// Tokens of a prompt.
    pub prompt_tokens: u64,
    /// Tokens of responses.
    pub responses: DrawnLengths,
    /// How they are generated.
    pub generation: GenerationSpec,
    /// Forward passes over all sequences before training.
    #[serde(default)]
    pub forwards: Forwards,
    /// Seconds of the rewards, for which all else waits.
    #[serde(default)]
    pub reward_s: f64,
}

/// How responses are generated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GenerationSpec {
    /// Tensor-parallel ranks of a replica.
    pub tensor: u32,
    /// Devices of their own, of the same class; default: those that train.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<u32>,
    /// True if those make the next batch while this one is trained on (one step off-policy).
    #[serde(default)]
    pub ahead: bool,
    /// Share of the device's memory for weights and KV cache.
    #[serde(default = "memory_share")]
    pub memory_share: f64,
    /// Share of the memory's rate in a copy that decoding reaches.
    #[serde(default = "memory_reached")]
    pub memory_reached: f64,
    /// Most sequences that a replica runs at once.
    #[serde(default = "most_sequences")]
    pub most_sequences: u32,
    /// The time of a decode step beside reading and computing, in microseconds (the host).
    #[serde(default)]
    pub step_overhead_us: f64,
}

/// Forward passes over all sequences before training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Forwards {
    /// Log-probabilities of the policy as it was.
    pub policy: bool,
    /// Log-probabilities of the reference model, of the same size.
    pub reference: bool,
}

fn memory_share() -> f64 {
    0.9
}
/// Llama 3.3 70B in fp8 on two H100 takes 18.6 ms a token for one user (NVIDIA's NIM 1.8 benchmark page): 1.4 ms are
/// all-reduces, the rest reads 35 GB at 0.68 of what a copy reaches.
fn memory_reached() -> f64 {
    0.68
}
fn most_sequences() -> u32 {
    256
}

/// Refuses the value of a field outside its limits, both allowed.
fn within<T: PartialOrd + Display>((path, value, from, to): (&str, T, T, T)) -> Result<(), SpecError> {
    if (&from..=&to).contains(&&value) {
        return Ok(());
    }
    Err(SpecError::at(path, format!("{value} is not allowed")).allowed(format!("{from} to {to}")))
}

impl RlSpec {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn validate(&self) -> Result<(), SpecError> {
        let longest = self.responses.longest.unwrap_or(MOST_TOKENS);
        let whole = [
            ("updates", u64::from(self.updates), 1, 4096),
            ("prompts", self.prompts, 1, MOST_SEQUENCES),
            ("samples", self.samples, 1, MOST_SEQUENCES),
            ("prompt_tokens", self.prompt_tokens, 1, MOST_TOKENS),
            ("responses.shortest", self.responses.shortest, 1, MOST_TOKENS),
            ("responses.longest", longest, self.responses.shortest, MOST_TOKENS),
            ("generation.tensor", u64::from(self.generation.tensor), 1, 1024),
            ("generation.devices", u64::from(self.generation.devices.unwrap_or(1)), 1, 1 << 20),
            ("generation.most_sequences", u64::from(self.generation.most_sequences), 1, 65_536),
        ];
        whole.into_iter().try_for_each(within)?;
        let numbers = [
            ("responses.median", self.responses.median, 1.0, MOST_TOKENS as f64),
            ("responses.sigma", self.responses.sigma, 0.0, 10.0),
            ("generation.memory_share", self.generation.memory_share, 0.01, 1.0),
            ("generation.memory_reached", self.generation.memory_reached, 0.01, 1.0),
            ("generation.step_overhead_us", self.generation.step_overhead_us, 0.0, 1e9),
            ("reward_s", self.reward_s, 0.0, 1e9),
        ];
        numbers.into_iter().try_for_each(within)?;
        let sequences = self.prompts.saturating_mul(self.samples);
        if sequences > MOST_SEQUENCES {
            return Err(SpecError::at("samples", format!("{sequences} sequences"))
                .allowed(format!("prompts times samples up to {MOST_SEQUENCES}")));
        }
        if self.generation.ahead && self.generation.devices.is_none() {
            return Err(SpecError::at("generation.ahead", "true is not allowed")
                .allowed("true with `generation.devices`: devices that train cannot generate meanwhile"));
        }
        Ok(())
    }

    /// The batch of an update that trains on what is generated, in whole micro-batches of every rank; `None` where the
    /// workload's own does (but for what packing leaves empty).
    pub fn batch_for(&self, inputs: &Inputs) -> Option<u64> {
        let w = &inputs.workload.value;
        let sequence = w.sequence(&inputs.model);
        let made: u64 = self.lengths().iter().sum::<u64>() + self.prompts * self.samples * self.prompt_tokens;
        let trained = w.batch.global * sequence * u64::from(self.updates);
        if made.abs_diff(trained) as f64 <= PACKED * made as f64 {
            return None;
        }
        let slice = w.data_parallel(u64::from(inputs.machine.devices())).max(1) * w.batch.micro_batch.max(1);
        let sequences = made.div_ceil(u64::from(self.updates) * sequence);
        Some(sequences.next_multiple_of(slice)).filter(|batch| *batch != w.batch.global)
    }
    /// Tokens of each response, the responses of a prompt in a row.
    pub fn lengths(&self) -> Vec<u64> {
        let longest = Some(self.responses.longest.unwrap_or(MOST_TOKENS));
        stepsim_price::documents::drawn(
            &DrawnLengths { longest, ..self.responses },
            self.prompts * self.samples,
        )
    }
}
