//! ZeRO-2 (Rajbhandari et al. 2020, arXiv 1910.02054): each rank keeps of the gradients what it updates with.

use super::CutExtent::{All, Group, Nobody};
use super::{Cuts, ShardingFacts};

/// Optimizer state and gradients.
pub const ZERO2: ShardingFacts = ShardingFacts {
    experts: Cuts::of(Nobody, All, All),
    searched: true,
    ..ShardingFacts::new("zero2", "Optimizer state and gradients", Cuts::of(Nobody, Group, Group))
};
