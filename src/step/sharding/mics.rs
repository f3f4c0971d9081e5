//! MiCS (Zhang et al. 2022, arXiv 2205.00119): everything is cut within a partition group. Micro-batches sum their
//! gradients within it, and groups sum their shards once a step (2-hop gradient synchronisation).

use super::Extent::Group;
use super::{Cuts, Facts, GroupSize};

/// Everything within a group, and groups meet once a step.
pub const MICS: Facts = Facts {
    group: GroupSize::Node,
    across_once: true,
    ..Facts::new(
        "mics",
        "Optimizer state, gradients and weights within a group, by default a node; groups sum their shards once a step (MiCS, arXiv 2205.00119)",
        Cuts::of(Group, Group, Group),
    )
};
