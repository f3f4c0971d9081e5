//! Hybrid sharding (PyTorch FSDP's `HYBRID_SHARD`, Zhao et al. 2023, arXiv 2304.11277): everything is cut within a
//! node, and every reduction ends with an all-reduce of the shard between nodes.

use super::CutExtent::Group;
use super::{Cuts, GroupSize, ShardingFacts};

/// Everything within a node.
pub const HYBRID: ShardingFacts = ShardingFacts {
    aliases: &["hsdp"],
    group: GroupSize::Node,
    ..ShardingFacts::new(
        "hybrid",
        "Optimizer state, gradients and weights within a node; each reduction sums shards between nodes (HSDP)",
        Cuts::of(Group, Group, Group),
    )
};
