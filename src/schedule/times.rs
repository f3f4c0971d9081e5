//! Times of passes, what a searched schedule may know of them, and the bubble that they leave.

use super::{Pass, Slot};
use stepsim_core::units::Time;

/// How long the passes of one rank's whole share of layers take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassTimes {
    /// Forward, tF.
    pub forward: Time,
    /// Gradient of the inputs, tI.
    pub input_grad: Time,
    /// Gradient of the weights, tW.
    pub weight_grad: Time,
    /// A forward and a full backward pass of two micro-batches overlapped, t(F&B).
    pub overlapped: Time,
}

impl PassTimes {
    /// With F&B = `overlap_factor`·(F + B), rounded to a picosecond.
    pub fn new(forward: Time, input_grad: Time, weight_grad: Time, overlap_factor: f64) -> PassTimes {
        let both = (forward + input_grad + weight_grad).0;
        // A factor of 1 must not round through a float.
        let overlapped =
            if overlap_factor == 1.0 { both } else { (both as f64 * overlap_factor).round() as u64 };
        PassTimes { forward, input_grad, weight_grad, overlapped: Time(overlapped) }
    }
    /// Full backward, tB = tI + tW.
    pub fn backward(&self) -> Time {
        self.input_grad + self.weight_grad
    }
    /// The time of a slot, for a rank whose share is cut into `parts` chunks (each rounded to a picosecond).
    pub fn of(&self, slot: &Slot, parts: u32) -> Time {
        let whole = match slot {
            Slot::Overlapped { .. } => self.overlapped,
            Slot::Single(part) => match part.pass {
                Pass::Forward => self.forward,
                Pass::Backward => self.backward(),
                Pass::InputGrad => self.input_grad,
                Pass::WeightGrad => self.weight_grad,
            },
        };
        let n = u64::from(parts);
        Time((whole.0 + n / 2) / n)
    }
}

/// The step as a schedule knows it when it orders its passes.
#[derive(Clone, Debug, PartialEq)]
pub struct PassProfile {
    /// Times of each rank's whole share of layers.
    pub ranks: Vec<PassTimes>,
    /// Delay of a message between ranks.
    pub message: Time,
    /// Most activations that a rank may hold, in micro-batches; twice the ranks if not given.
    pub limit: Option<f64>,
    /// Share of a micro-batch's activations that wait for its weight gradient once its input gradient is done.
    pub kept: f64,
}

/// Idle time of the worst rank in theory; `None` where no closed form is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bubble {
    /// Between its first start and its last end (what the zero-bubble papers quote).
    pub own: Option<Time>,
    /// From the start to the end of the whole step.
    pub idle: Option<Time>,
}

impl Bubble {
    /// Both measures the same.
    pub fn both(t: Time) -> Option<Bubble> {
        Some(Bubble { own: Some(t), idle: Some(t) })
    }
    /// (p−1)(tF + tB)/v: what all schedules without split backward passes leave.
    pub fn fill_and_drain(p: u32, v: u16, t: &PassTimes) -> Option<Bubble> {
        Bubble::both(Time(((t.forward + t.backward()) * u64::from(p - 1)).0 / u64::from(v)))
    }
}
