//! Hierarchical partition (hpZ of ZeRO++, Wang et al. 2023, arXiv 2306.10209; FSDP2's `reshard_after_forward` with a
//! number): ZeRO-3 with a second copy of the weights on each node, from which backward passes gather. Nothing is
//! quantised.

use super::Extent::{All, Group};
use super::{Cuts, Extent, Facts, GroupSize};

/// Everything over all, with a second copy of the weights within a group.
const CUTS: Cuts<Extent> = Cuts { secondary: Group, ..Cuts::of(All, All, All) };

/// ZeRO-3 with a second copy of weights.
pub const HPZ: Facts = Facts {
    group: GroupSize::Node,
    ..Facts::new(
        "hpz",
        "As zero3, with a second copy of the weights within a group, by default a node, for backward passes (hpZ, arXiv 2306.10209)",
        CUTS,
    )
};
