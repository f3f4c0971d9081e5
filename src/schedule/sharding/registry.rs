//! The kinds of sharding known by name.

use super::{ShardingFacts, hpz, hybrid, mics, node_gradients, none, zero_plus_plus, zero1, zero2, zero3};

/// The kinds of sharding known by name.
pub const ALL: &[&ShardingFacts] = &[
    &none::NONE,
    &zero1::ZERO1,
    &zero2::ZERO2,
    &zero3::ZERO3,
    &hybrid::HYBRID,
    &mics::MICS,
    &node_gradients::NODE_GRADIENTS,
    &hpz::HPZ,
    &zero_plus_plus::ZERO_PLUS_PLUS,
];
