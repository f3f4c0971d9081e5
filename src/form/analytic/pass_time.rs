//! Seconds of passes: of a unit, of a stage, of a rank.

use std::ops::{AddAssign, Index, IndexMut};

use super::least::Least;
use super::queues::Queue;

/// Seconds of one pass among others like it: kernels, and what each kind of communication adds to them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PassTime {
    /// Kernels.
    pub compute: f64,
    /// Tensor parallelism.
    pub tensor: f64,
    /// Context parallelism.
    pub context: f64,
    /// Expert parallelism (tensor parallelism inside experts too).
    pub expert: f64,
    /// The time that the host takes longer to launch all this than the device to run it.
    pub host: f64,
    /// The certain part of all this; not a part of the sum.
    pub least: Least,
}

impl PassTime {
    /// Everything.
    pub fn total(&self) -> f64 {
        self.compute + self.tensor + self.context + self.expert + self.host
    }
    /// The time beside kernels.
    pub fn exposed(&self) -> f64 {
        self.total() - self.compute
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

/// The part that a queue adds; the kernels' where it adds none.
impl Index<Queue> for PassTime {
    type Output = f64;

    fn index(&self, queue: Queue) -> &f64 {
        match queue {
            Queue::Tensor => &self.tensor,
            Queue::Context => &self.context,
            Queue::Expert => &self.expert,
            Queue::Host => &self.host,
            Queue::Input | Queue::Other | Queue::Compute => &self.compute,
        }
    }
}

impl IndexMut<Queue> for PassTime {
    fn index_mut(&mut self, queue: Queue) -> &mut f64 {
        match queue {
            Queue::Tensor => &mut self.tensor,
            Queue::Context => &mut self.context,
            Queue::Expert => &mut self.expert,
            Queue::Host => &mut self.host,
            Queue::Input | Queue::Other | Queue::Compute => &mut self.compute,
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
    /// The recomputation before the backward pass.
    pub recompute: PassTime,
    /// Both gradients in one pass.
    pub backward: PassTime,
    /// Gradient of the input alone.
    pub input_grad: PassTime,
    /// Gradient of the weights alone.
    pub weight_grad: PassTime,
    /// Casts of the weights, once a step.
    pub weight_casts: f64,
}

impl UnitTime {
    /// So many times; weights are cast once a step.
    pub fn times(self, k: f64) -> UnitTime {
        UnitTime {
            forward: self.forward.times(k),
            recompute: self.recompute.times(k),
            backward: self.backward.times(k),
            input_grad: self.input_grad.times(k),
            weight_grad: self.weight_grad.times(k),
            weight_casts: self.weight_casts,
        }
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
    }
}
