//! ZeRO-3 (Rajbhandari et al. 2020, arXiv 1910.02054) and FSDP: weights are gathered for every pass.

use super::CutExtent::{All, Group};
use super::{Cuts, ShardingFacts};

/// Optimizer state, gradients and weights.
pub const ZERO3: ShardingFacts = ShardingFacts {
    aliases: &["fsdp"],
    experts: Cuts::of(All, All, All),
    searched: true,
    ..ShardingFacts::new(
        "zero3",
        "Optimizer state, gradients and weights (FSDP)",
        Cuts::of(Group, Group, Group),
    )
};
