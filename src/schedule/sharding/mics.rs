//! MiCS (Zhang et al. 2022, arXiv 2205.00119): everything is cut within a partition group. Micro-batches sum their
//! gradients within it, and groups sum their shards once a step (2-hop gradient synchronisation).

use super::CutExtent::Group;
use super::{Cuts, GroupSize, ShardingFacts};

/// Everything within a group, and groups meet once a step.
pub const MICS: ShardingFacts = ShardingFacts {
    group: GroupSize::Node,
    across_once: true,
    ..ShardingFacts::new(
        "mics",
        "Optimizer state, gradients and weights within a group, by default a node; groups sum their shards \
         once a step (MiCS, arXiv 2205.00119)",
        Cuts::of(Group, Group, Group),
    )
};
