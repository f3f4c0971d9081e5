//! Random steps: one small model on eight devices, in layouts that differ in all that a layout can.

use serde_json::{Value, json};
use stepsim::schedule::sharding;
use stepsim::simulate::Inputs;
use stepsim::spec::Disk;

/// Devices of every step.
pub const DEVICES: u64 = 8;
/// Widths of the model.
pub const HIDDEN: u64 = 256;
pub const EXPERT_WIDTH: u64 = 512;
pub const LAYERS: u64 = 8;
pub const EXPERTS: u64 = 8;
pub const TOP_K: u64 = 2;
pub const VOCABULARY: u64 = 512;
pub const SEQUENCE: u64 = 256;
/// Sequences of a step.
pub const BATCH: u64 = 32;

/// How many steps a law is tried on: `STEPSIM_LAW_STEPS`, 5,000 where everything is tried, else few.
pub fn count() -> u64 {
    let asked = std::env::var("STEPSIM_LAW_STEPS").ok().and_then(|n| n.parse().ok());
    asked.unwrap_or(if crate::slow::slow() { 5000 } else { 120 })
}

/// Draws from a fixed sequence (xorshift64, Marsaglia 2003).
pub struct Draws(pub u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }
    /// A number below this.
    pub fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }
    /// One of these.
    pub fn of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }
}

/// All kinds of sharding; none twice.
pub fn shardings() -> Vec<&'static str> {
    std::iter::once("none").chain(sharding::ALL.iter().map(|facts| facts.name)).collect()
}

/// The step on one device after the other: no dimension cut but the batch.
pub fn plain() -> Value {
    json!({
        "topology": "nodes:2*4,400,1,50,2",
        "model": {
            "name": "small", "source": "made up", "layers": LAYERS, "hidden": HIDDEN, "heads": 8, "ffn": EXPERT_WIDTH,
            "vocabulary": VOCABULARY, "sequence": SEQUENCE, "gated_mlp": true, "tied_embeddings": false,
            "positions": "rotary", "norm": "rms", "moe": {"experts": EXPERTS, "top_k": TOP_K},
        },
        "batch": {"global": BATCH, "micro_batch": 1},
        "parallelism": {"data": DEVICES},
    })
}

/// A step that was drawn.
pub struct Step {
    /// As it was written.
    pub text: String,
    pub inputs: Inputs,
}

impl Step {
    pub fn of(workload: &Value) -> Option<Step> {
        let text = workload.to_string();
        let inputs = Inputs::from_json(&text, None, &[], &Disk).ok()?;
        Some(Step { text, inputs })
    }
}

/// The next step that is allowed.
pub fn draw(draws: &mut Draws) -> Step {
    loop {
        if let Some(step) = Step::of(&drawn(draws)) {
            return step;
        }
    }
}

pub fn drawn(draws: &mut Draws) -> Value {
    let mut step = plain();
    let (tensor, context, stages) =
        (draws.of(&[1, 2, 4, 8]), draws.of(&[1, 1, 2, 4]), draws.of(&[1, 1, 2, 4]));
    let expert = draws.of(&[1, 1, 2, 4, 8]);
    let cut = json!({
        "tensor": tensor, "sequence_parallel": tensor > 1 && draws.of(&[true, false]),
        "context": {"size": context, "kind": draws.of(&["ring", "ulysses", "all-gather"])},
        "pipeline": {
            "size": stages, "schedule": draws.of(&["1f1b", "1f1b", "gpipe", "interleaved", "zb-h1", "zb-v"]),
            "p2p": draws.of(&["async", "async", "blocking", "batched"]),
        },
        "expert": expert, "expert_tensor": draws.of(&[Value::Null, 1.into(), 2.into(), 4.into(), 8.into()]),
        "sharding": {"kind": draws.of(&shardings())},
    });
    step["parallelism"] = cut;
    step["batch"]["micro_batch"] = draws.of(&[1, 1, 2]).into();
    if expert > 1 {
        step["expert"] =
            json!({"dispatcher": draws.of(&["alltoall", "alltoall", "allgather", "rank-dedup"])});
    }
    step["recompute"] = json!({"granularity": draws.of(&["none", "selective", "full"])});
    step["stack"] = draws.of(&["simple", "megatron-te-2024", "nanotron", "fsdp2-compiled"]).into();
    step
}
