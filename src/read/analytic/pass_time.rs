//! Seconds of passes: of a unit, of a stage, of a rank.

use std::ops::AddAssign;

use super::least::Least;
use crate::step::moe::overlap::Cell;

/// Seconds of one pass: kernels, and communication that no kernel hides, by group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PassTime {
    /// Kernels.
    pub compute: f64,
    /// Tensor parallelism (inside experts too).
    pub tensor: f64,
    /// Context parallelism.
    pub context: f64,
    /// Expert parallelism.
    pub expert: f64,
    /// What the host takes longer to launch all this than the device to run it.
    pub host: f64,
    /// What of all this is certain; not a part of the sum.
    pub least: Least,
}

impl PassTime {
    /// Everything.
    pub fn total(&self) -> f64 {
        self.compute + self.tensor + self.context + self.expert + self.host
    }
    /// So many times.
    pub fn times(self, k: f64) -> PassTime {
        PassTime {
            compute: k * self.compute,
            tensor: k * self.tensor,
            context: k * self.context,
            expert: k * self.expert,
            host: k * self.host,
            least: self.least.times(k),
        }
    }
}

impl AddAssign for PassTime {
    fn add_assign(&mut self, other: PassTime) {
        self.compute += other.compute;
        self.tensor += other.tensor;
        self.context += other.context;
        self.expert += other.expert;
        self.host += other.host;
        self.least += other.least;
    }
}

/// The passes of one unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UnitTime {
    /// Forward.
    pub forward: PassTime,
    /// What is computed again before the backward pass.
    pub recompute: PassTime,
    /// Both gradients in one pass.
    pub backward: PassTime,
    /// Gradient of the input alone.
    pub input_grad: PassTime,
    /// Gradient of the weights alone.
    pub weight_grad: PassTime,
    /// Casts of the weights, once a step.
    pub weight_casts: f64,
    /// Layers with exchanges.
    pub cells: u32,
    /// Parts of such a layer where a forward and a backward pass are paired ([`crate::step::moe::overlap`]).
    pub cell: Cell,
}

impl UnitTime {
    /// Recomputation and both gradients, in seconds.
    pub fn whole_backward(&self) -> f64 {
        self.recompute.total() + self.backward.total()
    }
}

impl AddAssign for UnitTime {
    fn add_assign(&mut self, other: UnitTime) {
        self.forward += other.forward;
        self.recompute += other.recompute;
        self.backward += other.backward;
        self.input_grad += other.input_grad;
        self.weight_grad += other.weight_grad;
        self.weight_casts += other.weight_casts;
        if other.cells > 0 {
            self.cell = other.cell;
        }
        self.cells += other.cells;
    }
}
