//! ZeRO++ (Wang et al. 2023, arXiv 2306.10209): ZeRO-3 with little traffic between nodes.
//!
//! * qwZ: weights are quantised to 8 bits before they are gathered.
//! * hpZ: a second copy of the weights is cut over the ranks of a node; backward passes gather from it.
//! * qgZ: gradients are quantised to 4 bits and exchanged in all-to-alls, first within nodes, then between.
//!
//! The scales of quantised blocks, and the kernels that quantise, are left out.

use super::CutExtent::{All, Group};
use super::{CutExtent, Cuts, GroupSize, ShardingFacts};

/// Everything over all, with a second copy of the weights within a node.
const CUTS: Cuts<CutExtent> = Cuts { secondary: Group, summed: Group, ..Cuts::of(All, All, All) };

/// ZeRO-3 with a second copy of weights, and quantised messages.
pub const ZERO_PLUS_PLUS: ShardingFacts = ShardingFacts {
    aliases: &["zero++"],
    group: GroupSize::Node,
    sums_by_all_to_all: true,
    weight_bytes: Some(1.0),
    gradient_bytes: Some(0.5),
    ..ShardingFacts::new(
        "zero-plus-plus",
        "As zero3, with a second copy of the weights within a node, 8-bit gathers and 4-bit gradients \
         (ZeRO++, arXiv 2306.10209)",
        CUTS,
    )
};
