//! Max–min fair sharing of resources by flows.
//!
//! A flow f occupies a path: a set of resources, resource r counted a(f,r) times (a whole number). All flows want to
//! go as fast as they can; resource r allows Σ_f a(f,r)·rate(f) ≤ capacity(r), and a flow may have a limit of its own.
//! The max–min fair rates are the unique ones where no flow can gain without one of at most its own rate losing.
//! *Progressive filling* finds them (Bertsekas & Gallager, *Data Networks*, 1992, §6.5.2): raise one common level
//! until resources saturate, freeze the flows on them, take away what they use, go on with the rest. A resource
//! saturates at level (capacity − frozen load) / Σ a(f,r) over its flows that are not frozen.
//!
//! A flow alone goes at its *solo rate*: the least capacity/a on its path, or its own limit.
//!
//! Only the connected component of resources that changed is solved again, once for all changes of an instant. With
//! F flows, E path entries and R resources in the component this costs O(E + R log R) per level structure: a resource
//! sits in a heap under its saturation level, which only rises, so entries are refreshed when they surface.
//!
//! A resource that its flows could not fill at their solo rates, or that has one flow only, binds nobody beyond these
//! rates: it *joins* nothing, and is left out of components. Whether it joins is not the same in a folded run, whose
//! solo rates are lower; rates are, to the last bit: left out in one of the two runs, a resource has a billionth of its
//! capacity to spare in both (`FULL`), so its level never comes up, and levels of other resources do not depend on it.
//!
//! Hazard: a flow that nothing joins must wait for `solve` all the same. If it had its rate at once, its end could fall
//! before an admission of the same instant in the one run and behind it in the other (`tests/fold.rs` has such a case).
//!
//! Hazard: rates must not depend on how many equal flows a component holds, or a folded run would differ from the
//! unfolded one in the last bit. So loads are counted in whole numbers, and what a level froze on a resource is
//! subtracted once per level (level × count), not flow by flow.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::ids::ResourceId;
use crate::units::Time;

/// Number of a flow in flight; reused after it has ended.
pub type FlowId = u32;

/// The resources that a flow occupies, each with how many times: a range of the world's table of uses.
pub type Path = std::ops::Range<u32>;

#[derive(Clone, Debug)]
struct Flow {
    /// Bytes left at `since`, per unit of coefficient.
    left: f64,
    rate: f64,
    /// The rate when nobody else is there.
    solo: f64,
    since: Time,
    path: Path,
    /// Distinguishes the users of one slot over time; even when the slot is free.
    generation: u32,
    seen: u32,
    frozen: bool,
}

/// What resources carry now.
#[derive(Debug)]
pub struct Sharing<'w> {
    uses: &'w [(ResourceId, u32)],
    capacity: Vec<f64>,
    /// Flows on each resource, with dead entries until the next visit: (flow, generation).
    users: Vec<Vec<(FlowId, u32)>>,
    live: Vec<u32>,
    /// By resource: what its flows would use of it at their solo rates, in parts of `WHOLE`.
    wanted: Vec<u128>,
    /// By resource: whether its flows belong to one component.
    joins: Vec<bool>,
    flows: Vec<Flow>,
    free: Vec<FlowId>,
    /// Resources that join or joined, and lost or gained by it.
    dirty: Vec<ResourceId>,
    /// Flows that have come or have another limit, with their generations.
    fresh: Vec<(FlowId, u32)>,
    epoch: u32,
    fill: Filling,
    /// Flows whose rate the last `solve` changed.
    changed: Vec<FlowId>,
    solves: u64,
}

/// Scratch space of progressive filling, kept between calls.
#[derive(Debug, Default)]
struct Filling {
    /// By resource: the last epoch in which it belonged to a component.
    seen: Vec<u32>,
    left: Vec<f64>,
    load: Vec<u64>,
    frozen_now: Vec<u64>,
    resources: Vec<u32>,
    /// Flows of the component whose own limit may bind.
    limited: Vec<FlowId>,
    heap: BinaryHeap<Reverse<(u64, u64)>>,
    saturated: Vec<u64>,
    touched: Vec<u32>,
}

/// The capacity of a resource, in the parts that `Sharing::wanted` counts: whole numbers, so that sums do not drift.
const WHOLE: u128 = 1 << 60;
/// What flows may want of a resource that they cannot fill: all but a billionth, far more than levels err.
const FULL: u128 = WHOLE - (WHOLE >> 30);

/// Marks a heap entry that stands for a flow's own limit instead of a resource.
const LIMIT: u64 = 1 << 32;

/// The rate of a flow that crosses a resource `a` times and is alone there.
#[inline]
fn per_crossing(capacity: f64, a: u32) -> f64 {
    // Nearly all cross once, and a division costs as much as all else.
    if a == 1 { capacity } else { capacity / f64::from(a) }
}

impl<'w> Sharing<'w> {
    /// Idle resources of the given capacities in bytes per second; paths are ranges of `uses`.
    pub fn new(capacity: Vec<f64>, uses: &'w [(ResourceId, u32)]) -> Self {
        let n = capacity.len();
        Sharing {
            uses,
            capacity,
            users: vec![Vec::new(); n],
            live: vec![0; n],
            wanted: vec![0; n],
            joins: vec![false; n],
            flows: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            fresh: Vec::new(),
            epoch: 0,
            fill: Filling {
                seen: vec![0; n],
                left: vec![0.0; n],
                load: vec![0; n],
                frozen_now: vec![0; n],
                ..Filling::default()
            },
            changed: Vec::new(),
            solves: 0,
        }
    }

    /// Puts a flow of `bytes` on `path`. If nothing is on it, the flow goes at its solo rate and `Some(finish)` is
    /// returned; otherwise the next [`solve`](Self::solve) gives it a rate.
    pub fn insert(&mut self, now: Time, bytes: f64, limit: f64, path: Path) -> (FlowId, Option<Time>) {
        let id = self.free.pop().unwrap_or_else(|| {
            self.flows.push(Flow {
                left: 0.0,
                rate: 0.0,
                solo: limit,
                since: now,
                path: 0..0,
                generation: 0,
                seen: 0,
                frozen: false,
            });
            (self.flows.len() - 1) as FlowId
        });
        let flow = &mut self.flows[id as usize];
        flow.generation = flow.generation.wrapping_add(1);
        let entry = (id, flow.generation);
        let all = self.uses;
        let uses = &all[path.start as usize..path.end as usize];
        let solo = uses.iter().map(|&(r, a)| per_crossing(self.capacity[r.index()], a)).fold(limit, f64::min);
        let free = uses.is_empty();
        if !free {
            self.fresh.push(entry);
        }
        for &(r, a) in uses {
            let i = r.index();
            if self.live[i] == 0 {
                self.users[i].clear();
            } else if self.users[i].len() > 2 * self.live[i] as usize + 8 {
                // Few are left of many: the dead go before the list grows without end.
                let flows = &self.flows;
                self.users[i].retain(|&(id, generation)| flows[id as usize].generation == generation);
            }
            self.live[i] += 1;
            self.users[i].push(entry);
            self.wanted[i] += self.part(r, a, solo);
            self.judge(r);
        }
        let flow = &mut self.flows[id as usize];
        *flow = Flow { left: bytes, rate: if free { solo } else { 0.0 }, solo, since: now, path, ..*flow };
        (id, free.then(|| flow.finish()))
    }

    /// Takes a flow off its path; those it held up are solved again by the next [`solve`](Self::solve).
    pub fn remove(&mut self, id: FlowId) {
        let flow = &mut self.flows[id as usize];
        flow.generation = flow.generation.wrapping_add(1);
        let solo = flow.solo;
        for at in flow.path.clone() {
            let (r, a) = self.uses[at as usize];
            let i = r.index();
            self.live[i] -= 1;
            self.wanted[i] -= self.part(r, a, solo);
            if self.joins[i] {
                self.dirty.push(r);
            }
            self.judge(r);
        }
        self.free.push(id);
    }

    /// What a flow of a solo rate can use of a resource that it crosses `a` times.
    fn part(&self, r: ResourceId, a: u32, solo: f64) -> u128 {
        (solo * f64::from(a) / self.capacity[r.index()] * WHOLE as f64) as u128
    }

    /// Decides anew whether a resource joins its flows.
    fn judge(&mut self, r: ResourceId) {
        let i = r.index();
        self.joins[i] = self.live[i] > 1 && self.wanted[i] > FULL;
    }

    /// Gives a flow without bytes (a kernel, whose end is kept elsewhere) another limit. Returns its rate if nothing is
    /// on its path; otherwise the next [`solve`](Self::solve) tells.
    pub fn set_limit(&mut self, id: FlowId, limit: f64) -> Option<f64> {
        let all = self.uses;
        let flow = &self.flows[id as usize];
        let uses = &all[flow.path.start as usize..flow.path.end as usize];
        let solo = uses.iter().map(|&(r, a)| per_crossing(self.capacity[r.index()], a)).fold(limit, f64::min);
        let (free, before) = (uses.is_empty(), flow.solo);
        if !free {
            self.fresh.push((id, flow.generation));
        }
        for &(r, a) in uses {
            let i = r.index();
            self.wanted[i] = self.wanted[i] - self.part(r, a, before) + self.part(r, a, solo);
            if self.joins[i] {
                self.dirty.push(r);
            }
            self.judge(r);
        }
        let flow = &mut self.flows[id as usize];
        flow.solo = solo;
        flow.rate = if free { solo } else { 0.0 };
        free.then_some(solo)
    }

    /// Whether any flow is on a resource.
    pub fn is_used(&self, resource: ResourceId) -> bool {
        self.live[resource.index()] > 0
    }

    /// Whether rates must be computed anew before time goes on.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || !self.fresh.is_empty()
    }

    /// Number of components solved so far.
    pub fn solves(&self) -> u64 {
        self.solves
    }

    /// Computes the rates of every component that changed and calls `retime(flow, finish)` for each flow whose rate
    /// is no longer what it was.
    pub fn solve(&mut self, now: Time, mut retime: impl FnMut(FlowId, Time)) {
        self.epoch += 1;
        let mut fresh = std::mem::take(&mut self.fresh);
        for (id, generation) in fresh.drain(..) {
            if self.flows[id as usize].generation == generation {
                self.solve_component(id, now, &mut retime);
            }
        }
        self.fresh = fresh;
        let mut dirty = std::mem::take(&mut self.dirty);
        for r in dirty.drain(..) {
            let r = r.index();
            // One that still joins is solved with the first of its flows, and the others have been seen then.
            if self.fill.seen[r] == self.epoch {
                continue;
            }
            self.drop_dead(r);
            for i in 0..self.users[r].len() {
                self.solve_component(self.users[r][i].0, now, &mut retime);
            }
        }
        self.dirty = dirty;
    }

    /// Solves the component of a flow, unless that has been done.
    fn solve_component(&mut self, seed: FlowId, now: Time, retime: &mut impl FnMut(FlowId, Time)) {
        if self.flows[seed as usize].seen == self.epoch {
            return;
        }
        self.collect(seed);
        self.changed.clear();
        if self.fill.resources.is_empty() {
            let solo = self.flows[seed as usize].solo;
            self.freeze_flow(seed, solo, now);
        } else {
            self.progressive_filling(now);
        }
        self.solves += 1;
        for &id in &self.changed {
            retime(id, self.flows[id as usize].finish());
        }
    }

    fn drop_dead(&mut self, resource: usize) {
        if self.users[resource].len() == self.live[resource] as usize {
            return;
        }
        let flows = &self.flows;
        self.users[resource].retain(|&(id, generation)| flows[id as usize].generation == generation);
    }

    /// The connected component of a seed, into `fill.resources` and `fill.limited`, with loads counted.
    fn collect(&mut self, seed: FlowId) {
        self.fill.resources.clear();
        self.fill.limited.clear();
        self.join(seed);
        let mut next = 0;
        while next < self.fill.resources.len() {
            let r = self.fill.resources[next] as usize;
            next += 1;
            self.drop_dead(r);
            for i in 0..self.users[r].len() {
                let id = self.users[r][i].0;
                if self.flows[id as usize].seen != self.epoch {
                    self.join(id);
                }
            }
        }
    }

    /// Adds a resource to the component.
    fn reach(&mut self, r: usize) {
        let fill = &mut self.fill;
        fill.resources.push(r as u32);
        fill.seen[r] = self.epoch;
        fill.left[r] = self.capacity[r];
        fill.load[r] = 0;
    }

    /// Adds a flow to the component, with the resources on its path that join it to others, whose loads it adds to.
    fn join(&mut self, id: FlowId) {
        let all = self.uses;
        let flow = &mut self.flows[id as usize];
        flow.seen = self.epoch;
        flow.frozen = false;
        let (path, solo) = (flow.path.clone(), flow.solo);
        // Where a resource of the component binds as early, the flow's own limit never does.
        let mut bound = false;
        for &(q, a) in &all[path.start as usize..path.end as usize] {
            let q = q.index();
            if !self.joins[q] {
                continue;
            }
            if self.fill.seen[q] != self.epoch {
                self.reach(q);
            }
            self.fill.load[q] += u64::from(a);
            bound |= per_crossing(self.capacity[q], a) <= solo;
        }
        if !bound {
            self.fill.limited.push(id);
        }
    }

    /// Raises the common level from saturation to saturation until every flow of the component is frozen.
    fn progressive_filling(&mut self, now: Time) {
        let mut heap = std::mem::take(&mut self.fill.heap);
        let mut saturated = std::mem::take(&mut self.fill.saturated);
        heap.clear();
        heap.extend(
            self.fill.resources.iter().map(|&r| Reverse((self.level(u64::from(r)).to_bits(), u64::from(r)))),
        );
        for &id in &self.fill.limited {
            heap.push(Reverse((self.flows[id as usize].solo.to_bits(), LIMIT | u64::from(id))));
        }
        while let Some(Reverse((bits, key))) = heap.pop() {
            let level = self.level(key);
            if level.is_infinite() {
                continue;
            }
            if level.to_bits() != bits {
                heap.push(Reverse((level.to_bits(), key)));
                continue;
            }
            saturated.clear();
            saturated.push(key);
            while let Some(&Reverse((b, k))) = heap.peek() {
                if b != bits {
                    break;
                }
                heap.pop();
                let other = self.level(k);
                if other.to_bits() == bits {
                    saturated.push(k);
                } else if other.is_finite() {
                    heap.push(Reverse((other.to_bits(), k)));
                }
            }
            for &k in &saturated {
                self.freeze(k, level, now);
            }
            self.subtract_frozen(level);
        }
        self.fill.heap = heap;
        self.fill.saturated = saturated;
    }

    /// The level at which a resource saturates or a flow meets its own limit; infinite when that is settled.
    fn level(&self, key: u64) -> f64 {
        if key & LIMIT != 0 {
            let flow = &self.flows[(key ^ LIMIT) as usize];
            return if flow.frozen { f64::INFINITY } else { flow.solo };
        }
        let r = key as usize;
        if self.fill.load[r] == 0 {
            return f64::INFINITY;
        }
        (self.fill.left[r] / self.fill.load[r] as f64).max(0.0)
    }

    /// Freezes the flows of a saturated resource, or the one flow that met its limit, at `level`.
    fn freeze(&mut self, key: u64, level: f64, now: Time) {
        if key & LIMIT != 0 {
            self.freeze_flow((key ^ LIMIT) as FlowId, level, now);
            return;
        }
        for i in 0..self.users[key as usize].len() {
            let id = self.users[key as usize][i].0;
            self.freeze_flow(id, level, now);
        }
    }

    fn freeze_flow(&mut self, id: FlowId, level: f64, now: Time) {
        let flow = &mut self.flows[id as usize];
        if flow.frozen {
            return;
        }
        flow.frozen = true;
        for &(q, a) in &self.uses[flow.path.start as usize..flow.path.end as usize] {
            if self.fill.seen[q.index()] != self.epoch {
                continue;
            }
            if self.fill.frozen_now[q.index()] == 0 {
                self.fill.touched.push(q.0);
            }
            self.fill.frozen_now[q.index()] += u64::from(a);
        }
        if flow.rate.to_bits() != level.to_bits() {
            flow.left = (flow.left - flow.rate * (now - flow.since).s()).max(0.0);
            flow.since = now;
            flow.rate = level;
            self.changed.push(id);
        }
    }

    /// Takes what this level froze from each resource it touched: once per level, in whole numbers of `level`.
    fn subtract_frozen(&mut self, level: f64) {
        while let Some(q) = self.fill.touched.pop() {
            let q = q as usize;
            let frozen = std::mem::take(&mut self.fill.frozen_now[q]);
            self.fill.left[q] -= level * frozen as f64;
            self.fill.load[q] -= frozen;
        }
    }

    /// What decides how a flow goes on, relative to now.
    pub fn state(&self, id: FlowId, now: Time) -> [u64; 4] {
        let flow = &self.flows[id as usize];
        [flow.left.to_bits(), flow.rate.to_bits(), flow.solo.to_bits(), (now - flow.since).0]
    }

    /// The rate of a flow in bytes per second and unit of coefficient.
    pub fn rate(&self, id: FlowId) -> f64 {
        self.flows[id as usize].rate
    }
}

impl Flow {
    /// When the flow ends at its present rate, to the nearest picosecond.
    fn finish(&self) -> Time {
        if self.left <= 0.0 { self.since } else { self.since + Time::from_s(self.left / self.rate) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates of flows that all start at once, each path given as resources used once.
    fn rates(capacity: &[f64], paths: &[&[u32]]) -> Vec<f64> {
        let mut uses = Vec::new();
        let mut spans = Vec::new();
        for path in paths {
            let start = uses.len() as u32;
            uses.extend(path.iter().map(|&r| (ResourceId(r), 1)));
            spans.push(start..uses.len() as u32);
        }
        let mut sharing = Sharing::new(capacity.to_vec(), &uses);
        let ids: Vec<_> =
            spans.into_iter().map(|p| sharing.insert(Time::ZERO, 1.0, f64::INFINITY, p).0).collect();
        sharing.solve(Time::ZERO, |_, _| {});
        ids.into_iter().map(|id| sharing.rate(id)).collect()
    }

    #[test]
    fn two_flows_halve_a_link() {
        assert_eq!(rates(&[10.0], &[&[0], &[0]]), [5.0, 5.0]);
    }

    #[test]
    fn what_a_bottlenecked_flow_leaves_goes_to_the_other() {
        // Flow 0 crosses both links, flow 1 the wide one, flow 2 the narrow one.
        assert_eq!(rates(&[10.0, 4.0], &[&[0, 1], &[0], &[1]]), [2.0, 8.0, 2.0]);
    }

    #[test]
    fn parking_lot() {
        // A long flow over n equal links, each with one short flow: everybody gets half.
        assert_eq!(rates(&[1.0, 1.0, 1.0], &[&[0, 1, 2], &[0], &[1], &[2]]), [0.5; 4]);
    }

    #[test]
    fn a_limit_frees_the_rest_for_others() {
        let uses = [(ResourceId(0), 1)];
        let mut sharing = Sharing::new(vec![10.0], &uses);
        let (slow, _) = sharing.insert(Time::ZERO, 1.0, 2.0, 0..1);
        let (fast, _) = sharing.insert(Time::ZERO, 1.0, f64::INFINITY, 0..1);
        sharing.solve(Time::ZERO, |_, _| {});
        assert_eq!((sharing.rate(slow), sharing.rate(fast)), (2.0, 8.0));
    }

    /// Two ports of 10 behind an uplink: of 30, which they cannot fill, and of 15, which they fill until one flow leaves.
    #[test]
    fn a_link_that_cannot_fill_joins_nobody() {
        let uses = [(ResourceId(0), 1), (ResourceId(2), 1), (ResourceId(1), 1), (ResourceId(2), 1)];
        for (uplink, together, first, later) in [(30.0, 2, 10.0, 2), (15.0, 1, 7.5, 2)] {
            let mut sharing = Sharing::new(vec![10.0, 10.0, uplink], &uses);
            let a = sharing.insert(Time::ZERO, 1.0, f64::INFINITY, 0..2).0;
            let b = sharing.insert(Time::ZERO, 1.0, f64::INFINITY, 2..4).0;
            sharing.solve(Time::ZERO, |_, _| {});
            assert_eq!((sharing.rate(a), sharing.rate(b)), (first, first));
            assert_eq!(sharing.solves(), together);
            sharing.remove(a);
            sharing.solve(Time::ZERO, |_, _| {});
            assert_eq!((sharing.rate(b), sharing.solves()), (10.0, later));
        }
    }

    #[test]
    fn a_coefficient_counts_as_that_many_crossings() {
        let uses = [(ResourceId(0), 3), (ResourceId(0), 1)];
        let mut sharing = Sharing::new(vec![8.0], &uses);
        let a = sharing.insert(Time::ZERO, 1.0, f64::INFINITY, 0..1).0;
        let b = sharing.insert(Time::ZERO, 1.0, f64::INFINITY, 1..2).0;
        sharing.solve(Time::ZERO, |_, _| {});
        assert_eq!((sharing.rate(a), sharing.rate(b)), (2.0, 2.0));
        sharing.remove(a);
        sharing.solve(Time::ZERO, |_, _| {});
        assert_eq!(sharing.rate(b), 8.0);
    }
}
