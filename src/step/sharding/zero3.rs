//! ZeRO-3 (Rajbhandari et al. 2020, arXiv 1910.02054) and FSDP: weights are gathered for every pass.

use super::Extent::{All, Group};
use super::{Cuts, Facts};

/// Optimizer state, gradients and weights.
pub const ZERO3: Facts = Facts {
    aliases: &["fsdp"],
    experts: Cuts::of(All, All, All),
    searched: true,
    ..Facts::new("zero3", "Optimizer state, gradients and weights (FSDP)", Cuts::of(Group, Group, Group))
};
