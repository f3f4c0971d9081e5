//! The closed form's result for a step.

use serde_json::{Map, Value, json};

use super::memory::MemoryBytes;
use super::rules::Rules;
use super::terms::Terms;

/// The closed form of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Seconds by term.
    pub terms: Terms,
    /// Seconds that the simulated step takes at least; 0 where nothing is certain.
    pub floor: f64,
    /// Device memory of each pipeline rank.
    pub memory: Vec<MemoryBytes>,
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

/// The least time of a step, and its memory, before any order is walked.
#[derive(Clone, Debug, PartialEq)]
pub struct StepBound {
    /// Seconds that the step takes at least, in closed form and simulated; 0 where nothing is certain.
    pub seconds: f64,
    /// Seconds of its closed form at least, whatever a simulation takes; `seconds` where it is full for certain.
    pub form_seconds: f64,
    /// Device memory of each pipeline rank.
    pub memory: Vec<MemoryBytes>,
    /// Capacity of a device's memory in bytes.
    pub capacity: f64,
    /// Tokens of the step.
    pub tokens: f64,
}

impl StepBound {
    /// True if the fullest device holds it.
    pub fn fits(&self) -> bool {
        self.fullest().total() <= self.capacity
    }
    /// The fullest device memory.
    pub fn fullest(&self) -> MemoryBytes {
        fullest(&self.memory)
    }
}

/// The fullest of several devices.
pub(super) fn fullest(memory: &[MemoryBytes]) -> MemoryBytes {
    let larger = |a: MemoryBytes, b: &MemoryBytes| if b.total() > a.total() { *b } else { a };
    memory.iter().fold(MemoryBytes::default(), larger)
}

impl Estimate {
    /// The fullest device memory.
    pub fn fullest(&self) -> MemoryBytes {
        fullest(&self.memory)
    }
    /// Seconds, bytes and counts, with units in the names.
    pub fn report(&self) -> Value {
        let keyed = |pairs: &[(&str, f64)], unit: &str| -> Map<String, Value> {
            let key = |name: &str| format!("{}_{unit}", name.replace(", ", "_").replace(' ', "_"));
            pairs.iter().map(|(name, value)| (key(name), json!(value))).collect()
        };
        json!({
            "total_s": self.terms.total(),
            "terms": keyed(&self.terms.named(), "s"),
            "model_flop_utilisation": self.mfu,
            "model_flops": self.model_flops,
            "tokens": self.tokens,
            "device_memory": keyed(&self.fullest().named(), "bytes"),
            "device_memory_bytes": self.fullest().total(),
            "device_capacity_bytes": self.capacity,
            "rules": self.rules,
        })
    }
}
