//! A part of all flows whose rates are computed anew (`filling`): the state of its resources meanwhile.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Number of a flow in flight; reused after it has ended.
pub type FlowId = u32;

/// A resource that does not saturate.
pub(super) const NEVER: f64 = f64::INFINITY;

/// The part being solved, and scratch space kept between solutions.
#[derive(Debug)]
pub(super) struct RatePart {
    /// Number of the solution.
    pub epoch: u32,
    /// By resource: the level at which it saturates.
    pub saturates: Vec<f64>,
    /// By resource: what is known of it in this solution.
    pub known: Vec<PartResource>,
    pub resources: Vec<u32>,
    pub free: Vec<FlowId>,
    /// Free flows whose own limit may bind.
    pub limited: Vec<FlowId>,
    /// Rates that flows keep, with how many times these cross: of each resource in ascending order, each rate once.
    pub kept: Vec<(f64, u64)>,
    pub heap: BinaryHeap<Reverse<(u64, u64)>>,
    pub batch: Vec<u64>,
    /// Resources on which the level at hand froze flows.
    pub hit: Vec<u32>,
    /// Flows that do not keep their rates.
    pub disturbed: Vec<FlowId>,
}

/// A resource in the part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PartResource {
    /// The last solution that it had a part in.
    pub seen: u32,
    /// Where its stretch of `kept` goes on, and where it ends.
    pub kept: u32,
    pub kept_end: u32,
    /// Where it saturated before.
    pub before: f64,
    /// The capacity that levels before `level` have left; then this level, and its crossings.
    pub left: f64,
    pub level: f64,
    pub at_level: u64,
    /// Crossings of flows that are not frozen.
    pub load: u64,
    pub frozen_now: u64,
}

impl PartResource {
    /// The level at which it is full, if all flows that are not frozen go on.
    pub fn full_at(&self) -> f64 {
        (self.left - self.level * self.at_level as f64) / self.load as f64
    }
    /// Takes the use of `count` crossings at a level.
    pub fn take(&mut self, level: f64, count: u64) {
        if self.level.to_bits() != level.to_bits() {
            self.left -= self.level * self.at_level as f64;
            (self.level, self.at_level) = (level, 0);
        }
        self.at_level += count;
        self.load -= count;
    }
}

impl RatePart {
    /// A part of `resources` resources.
    pub fn new(resources: usize) -> RatePart {
        RatePart {
            epoch: 0,
            saturates: vec![NEVER; resources],
            known: vec![PartResource::default(); resources],
            resources: Vec::new(),
            free: Vec::new(),
            limited: Vec::new(),
            kept: Vec::new(),
            heap: BinaryHeap::new(),
            batch: Vec::new(),
            hit: Vec::new(),
            disturbed: Vec::new(),
        }
    }
    #[inline]
    pub fn has(&self, resource: usize) -> bool {
        self.known[resource].seen == self.epoch
    }
    /// The next rate that flows on a resource keep.
    #[inline]
    pub fn next_kept(&self, resource: usize) -> Option<(f64, u64)> {
        let known = &self.known[resource];
        (known.kept < known.kept_end).then(|| self.kept[known.kept as usize])
    }
    /// The next event of a resource, not before `floor`: it is full, or flows that keep their rates go no faster.
    pub fn next_level(&self, resource: usize, floor: f64) -> f64 {
        let known = &self.known[resource];
        if known.load == 0 {
            return NEVER;
        }
        let full = known.full_at().max(floor);
        self.next_kept(resource).map_or(full, |(rate, _)| full.min(rate))
    }
    /// Notes crossings of a resource that the level at hand freezes.
    #[inline]
    pub fn freeze_on(&mut self, resource: usize, times: u64) {
        if times == 0 {
            return;
        }
        let frozen = &mut self.known[resource].frozen_now;
        if *frozen == 0 {
            self.hit.push(resource as u32);
        }
        *frozen += times;
    }
}
