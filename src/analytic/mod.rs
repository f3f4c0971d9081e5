//! The closed form of a step of our own files: what Calculon's lacks (embedding and LM head, grouped queries, gated MLP,
//! experts, FSDP, collectives by algorithm, uneven stages, any schedule) with the same layer costs as the simulation
//! and none of its events.
//!
//! step = kernels of the busiest pipeline rank (forward, recompute, backward) + optimizer + exposed tensor, context
//! and expert communication + bubble + exposed p2p + exposed data-parallel communication + exposed offload
//!
//! * Busiest rank: the one with most work over the step; the bubble is what the others' passes add while the pipeline
//!   fills and drains, for even stages the schedule's own closed form ([`crate::schedule`]); where theory has none, the
//!   order is walked with the times of its passes.
//! * A layer's communication is exposed by what it takes longer than the kernels that may run beside it (`passes`).
//! * Sharding, gradient reduction, copies and memory: the laws of the residency policies ([`crate::plan::step::residency`]),
//!   beside one another (`residency`).
//! * p2p: the latency laws of each schedule with asynchronous sends; each transfer in full with blocking ones.
//!
//! Hazards: no contention (data-parallel beside pipeline messages, copies beside collectives), no launch overhead, no
//! interference of collectives with kernels, no stragglers; buckets of gradients are taken unit by unit; all groups are
//! taken to be like rank 0's. The simulation has all of these: the difference is what `compare` explains.

pub mod bounds;
mod closed_form;
mod floor;
mod form;
mod least;
mod links;
pub mod local_sgd;
mod memory;
mod passes;
mod pipeline;
mod residency;
pub mod roofline;
mod rules;

#[cfg(test)]
mod tests;
pub mod training;
mod update;

pub use closed_form::ClosedForm;
pub use least::Least;
pub use links::{Links, Pipe};
pub use memory::Memory;
pub use passes::{PassTime, UnitTime};
pub use rules::Rules;

use serde_json::{Map, Value, json};

use crate::collective::Chooser;
use crate::plan::step::{PlanError, PriceList};
use crate::spec::model::ModelSpec;
use crate::spec::workload::WorkloadSpec;
use crate::topology::Machine;

/// Seconds of a step by term.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
    /// Forward kernels of the busiest rank.
    pub forward: f64,
    /// Recomputed kernels.
    pub recompute: f64,
    /// Backward kernels.
    pub backward: f64,
    /// Gradient norm and update.
    pub optimizer: f64,
    /// Exposed tensor-parallel communication.
    pub tensor: f64,
    /// Exposed context-parallel communication.
    pub context: f64,
    /// Exposed expert-parallel communication.
    pub expert: f64,
    /// Pipeline bubble.
    pub bubble: f64,
    /// Exposed transfers between stages.
    pub p2p: f64,
    /// Exposed gathers of weights and reductions of gradients.
    pub data: f64,
    /// Exposed copies to and from other tiers.
    pub offload: f64,
    /// What the host takes longer to launch kernels than the device to run them, and its reads.
    pub host: f64,
}

impl Terms {
    /// Every term with its name.
    pub fn named(&self) -> [(&'static str, f64); 12] {
        [
            ("forward", self.forward),
            ("recompute", self.recompute),
            ("backward", self.backward),
            ("optimizer", self.optimizer),
            ("tensor parallel, exposed", self.tensor),
            ("context parallel, exposed", self.context),
            ("expert parallel, exposed", self.expert),
            ("pipeline bubble", self.bubble),
            ("pipeline transfers, exposed", self.p2p),
            ("data parallel, exposed", self.data),
            ("offload, exposed", self.offload),
            ("host, exposed", self.host),
        ]
    }
    /// The step.
    pub fn total(&self) -> f64 {
        self.named().iter().map(|term| term.1).sum()
    }
}

/// The closed form of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Seconds by term.
    pub terms: Terms,
    /// Seconds that the simulated step takes at least; 0 where nothing is certain.
    pub floor: f64,
    /// Device memory of each pipeline rank.
    pub memory: Vec<Memory>,
    /// Capacity of a device's memory in bytes.
    pub capacity: f64,
    /// Rules of thumb.
    pub rules: Rules,
    /// Tokens of the step.
    pub tokens: f64,
    /// Model FLOP, attention in full.
    pub model_flops: f64,
    /// Model FLOP over the peak of all devices during the step.
    pub mfu: f64,
    /// The busiest pipeline rank.
    pub busiest: usize,
}

impl Estimate {
    /// The fullest device memory.
    pub fn fullest(&self) -> Memory {
        let larger = |a: Memory, b: &Memory| if b.total() > a.total() { *b } else { a };
        self.memory.iter().fold(Memory::default(), larger)
    }
    /// Seconds, bytes and counts, with units in the names.
    pub fn report(&self) -> Value {
        let keyed = |pairs: &[(&str, f64)], unit: &str| -> Map<String, Value> {
            let key = |name: &str| format!("{}_{unit}", name.replace(", ", "_").replace(' ', "_"));
            pairs.iter().map(|(name, value)| (key(name), json!(value))).collect()
        };
        let r = &self.rules;
        json!({
            "total_s": self.terms.total(),
            "terms": keyed(&self.terms.named(), "s"),
            "model_flop_utilisation": self.mfu,
            "model_flops": self.model_flops,
            "tokens": self.tokens,
            "device_memory": keyed(&self.fullest().named(), "bytes"),
            "device_memory_bytes": self.fullest().total(),
            "device_capacity_bytes": self.capacity,
            "rules": {
                "parameters": r.parameters,
                "active_parameters": r.active_parameters,
                "twelve_l_h2": r.twelve_l_h2,
                "bytes_per_parameter": r.bytes_per_parameter,
                "bytes_per_parameter_sharded": r.bytes_per_parameter_sharded,
                "six_p_d_flops": r.six_p_d,
                "six_p_d_at_peak_s": r.six_p_d_time,
                "ideal_bubble_share": r.ideal_bubble,
                "tokens_per_micro_batch": r.tokens_per_micro_batch,
                "tokens_per_replica": r.tokens_per_replica,
                "data_parallel_tokens": r.data_parallel_tokens,
                "fsdp_tokens": r.fsdp_tokens,
                "tensor_degree": r.tensor_degree,
            },
        })
    }
}

/// Estimates the step of `workload` on `machine`, kernels priced by `prices`, collectives chosen by `chooser`, with a
/// device's peak of `peak` FLOP/s.
///
/// # Errors
/// The workload does not fit the machine, or a group cannot communicate.
pub fn estimate(
    workload: &WorkloadSpec,
    model: &ModelSpec,
    machine: &Machine,
    prices: &dyn PriceList,
    chooser: &Chooser,
    peak: f64,
) -> Result<Estimate, PlanError> {
    ClosedForm::new(workload, model, machine, prices, chooser, peak)?.with_batch(workload.batch.global)
}
