//! The key of a walk that layouts share, and its end.

use std::sync::Arc;

use super::asked::PolicyDemand;
use super::unit_passes::UnitPasses;
use stepsim_schedule::Order;

/// The key of a walk that layouts share.
#[derive(Debug)]
pub(super) struct WalkKey {
    pub(super) order: Arc<Order>,
    /// By rank, chunk and unit.
    pub(super) chunks: Vec<Vec<Vec<Arc<UnitPasses>>>>,
    pub(super) hops: Vec<Vec<f64>>,
    /// By rank; none where nothing is gathered.
    pub(super) gathers: Vec<Arc<PolicyDemand>>,
}

/// The end of one rank's walk.
#[derive(Clone, Debug, Default)]
pub(super) struct RankEnd {
    /// When its passes are done, and its gathers.
    pub passes: f64,
    pub gathers: f64,
    /// Chunk and unit of each gradient that is complete, and when: in this order.
    pub complete: Vec<(usize, usize, f64)>,
}

impl WalkKey {
    /// Numbers that usually tell walks apart.
    pub fn digest(&self) -> [u64; 4] {
        let first = self.chunks.first().and_then(|chunks| chunks.first()).and_then(|units| units.first());
        let hop = self.hops.iter().flatten().next().copied().unwrap_or_default();
        let order = Arc::as_ptr(&self.order) as usize as u64;
        let unit = first.map_or(0, |unit| Arc::as_ptr(unit) as usize as u64);
        [order, unit, hop.to_bits(), self.gathers.len() as u64]
    }
    /// True if two walks are one.
    pub fn same(&self, other: &WalkKey) -> bool {
        let units = |key: &WalkKey| key.chunks.iter().flatten().map(Vec::len).collect::<Vec<_>>();
        let all =
            |key: &'_ WalkKey| key.chunks.iter().flatten().flatten().map(Arc::as_ptr).collect::<Vec<_>>();
        Arc::ptr_eq(&self.order, &other.order)
            && self.hops == other.hops
            && self.gathers.len() == other.gathers.len()
            && self.gathers.iter().zip(&other.gathers).all(|(a, b)| Arc::ptr_eq(a, b) || a.gathers_as(b))
            && units(self) == units(other)
            && all(self) == all(other)
    }
}
