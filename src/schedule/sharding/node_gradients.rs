//! Gradients within a node: micro-batches sum them on the links of the node, and nodes sum their shards once a step,
//! when each rank gets the part that it updates. Weights are whole, optimizer state is cut over all.

use super::CutExtent::{All, Group, Nobody};
use super::{CutExtent, Cuts, GroupSize, ShardingFacts};

/// Gradients over a group, optimizer state over all.
const CUTS: Cuts<CutExtent> = Cuts { summed: Group, ..Cuts::of(Nobody, Group, All) };

/// Gradients within a node.
pub const NODE_GRADIENTS: ShardingFacts = ShardingFacts {
    group: GroupSize::Node,
    across_once: true,
    ..ShardingFacts::new(
        "node-gradients",
        "Gradients within a node and optimizer state over all; nodes sum their shards once a step",
        CUTS,
    )
};
