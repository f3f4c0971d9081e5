//! ZeRO-1 (Rajbhandari et al. 2020, arXiv 1910.02054): each rank updates its part of the weights, and gathers the
//! others'.

use super::CutExtent::{All, Group, Nobody};
use super::{Cuts, ShardingFacts};

/// Optimizer state.
pub const ZERO1: ShardingFacts = ShardingFacts {
    experts: Cuts::of(Nobody, Nobody, All),
    searched: true,
    ..ShardingFacts::new(
        "zero1",
        "Optimizer state (Megatron's distributed optimizer)",
        Cuts::of(Nobody, Nobody, Group),
    )
};
