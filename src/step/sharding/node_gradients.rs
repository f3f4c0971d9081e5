//! Gradients within a node: micro-batches sum them on the links of the node, and nodes sum their shards once a step,
//! when each rank gets the part that it updates. Weights are whole, optimizer state is cut over all.

use super::Extent::{All, Group, Nobody};
use super::{Cuts, Extent, Facts, GroupSize};

/// Gradients over a group, optimizer state over all.
const CUTS: Cuts<Extent> = Cuts { summed: Group, ..Cuts::of(Nobody, Group, All) };

/// Gradients within a node.
pub const NODE_GRADIENTS: Facts = Facts {
    group: GroupSize::Node,
    across_once: true,
    ..Facts::new(
        "node-gradients",
        "Gradients within a node and optimizer state over all; nodes sum their shards once a step",
        CUTS,
    )
};
