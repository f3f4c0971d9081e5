//! The passes of a unit, with the ops that they are made of.

use super::pass_time::UnitTime;
use super::queues::{PassOp, Passage, passage};

/// A pass of a unit: its ops, and their matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitPass {
    pub ops: Vec<PassOp>,
    pub passage: Passage,
}

impl UnitPass {
    pub(super) fn new(ops: Vec<PassOp>) -> UnitPass {
        UnitPass { passage: passage(&ops), ops }
    }
}

/// The passes of a unit.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitPasses {
    pub forward: UnitPass,
    /// The recomputation by itself.
    pub recompute: UnitPass,
    pub backward: UnitPass,
    pub input_grad: UnitPass,
    pub weight_grad: UnitPass,
    /// Where passes are paired: the backward pass (its two gradients together, and the inputs' gradient alone) with
    /// the recomputation at the start of each of its parts; and the number of weight gradients of experts.
    pub paired: Option<Box<[UnitPass; 2]>>,
    pub expert_weight_grads: u32,
    /// True if it is computed again from the kept input of a unit before it.
    pub from_before: bool,
    /// Casts of the weights, once a step.
    pub casts: UnitPass,
    /// The same in seconds.
    pub time: UnitTime,
}
