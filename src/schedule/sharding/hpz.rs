//! Hierarchical partition (hpZ of ZeRO++, Wang et al. 2023, arXiv 2306.10209; FSDP2's `reshard_after_forward` with a
//! number): ZeRO-3 with a second copy of the weights on each node, from which backward passes gather. Nothing is
//! quantised.

use super::CutExtent::{All, Group};
use super::{CutExtent, Cuts, GroupSize, ShardingFacts};

/// Everything over all, with a second copy of the weights within a group.
const CUTS: Cuts<CutExtent> = Cuts { secondary: Group, ..Cuts::of(All, All, All) };

/// ZeRO-3 with a second copy of weights.
pub const HPZ: ShardingFacts = ShardingFacts {
    group: GroupSize::Node,
    ..ShardingFacts::new(
        "hpz",
        "As zero3, with a second copy of the weights within a group, by default a node, for backward passes \
         (hpZ, arXiv 2306.10209)",
        CUTS,
    )
};
