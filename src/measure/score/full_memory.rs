//! The price of a device that is too full: its allocator gives memory back and asks again in every micro-batch.
//!
//! Found by sweeps in which every layout was run: from some part of the memory on nearly all steps take much longer than
//! is simulated, by about as much in each slot of the pipeline, whatever the micro-batch. Layouts that were published
//! because they ran well say nothing of it, so it is a price of choosing one, and in no step.

use serde::{Deserialize, Serialize};

/// A step is slow if it takes so many times what is simulated.
const SLOW: f64 = 1.5;
/// So many of the fuller steps have to be slow.
const MOST: f64 = 0.9;
/// Less full devices have another trouble.
const LEAST_SHARE: f64 = 0.5;

/// The price of a full device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FullMemory {
    /// Part of the device memory from which on it is paid.
    pub share: f64,
    /// Seconds in each slot: micro-batches and stages, less one.
    pub slot_s: f64,
    /// Steps that it was found by.
    pub steps: usize,
}

/// A measured step and how full its device is simulated to be.
#[derive(Clone, Copy, Debug)]
pub struct FilledStep {
    /// Part of the device memory.
    pub share: f64,
    /// Micro-batches and stages, less one.
    pub slots: u64,
    /// Simulated seconds.
    pub simulated_s: f64,
    /// Measured seconds.
    pub measured_s: f64,
}

impl FullMemory {
    /// The price that steps of sweeps were measured to pay; `None` where too few were that full.
    pub fn of(steps: &[FilledStep]) -> Option<FullMemory> {
        let mut fullest: Vec<&FilledStep> = steps.iter().filter(|step| step.share >= LEAST_SHARE).collect();
        fullest.sort_by(|a, b| b.share.total_cmp(&a.share));
        let is_slow = |step: &FilledStep| step.measured_s > SLOW * step.simulated_s;
        let (mut slow, mut last) = (0usize, None);
        for (i, _) in fullest.iter().enumerate().filter(|(_, step)| is_slow(step)) {
            slow += 1;
            last = if slow as f64 >= MOST * (i + 1) as f64 { Some(i) } else { last };
        }
        let paying = &fullest[..=last?];
        let mut slots: Vec<f64> =
            paying.iter().map(|step| (step.measured_s - step.simulated_s) / step.slots as f64).collect();
        slots.sort_by(f64::total_cmp);
        let rounded = |x: f64| (1e3 * x).round() / 1e3;
        let slot_s = rounded(slots[slots.len() / 2]);
        Some(FullMemory { share: rounded(paying.last()?.share), slot_s, steps: paying.len() })
    }

    /// Seconds that a step pays.
    pub fn seconds(&self, share: f64, slots: u64) -> f64 {
        if self.steps > 0 && share >= self.share { self.slot_s * slots as f64 } else { 0.0 }
    }
}
