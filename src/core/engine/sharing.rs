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
//! Rates are computed anew once for all changes of an instant, and only where these reach (`filling`). With F flows,
//! E path entries and R resources there this costs O(E + R log R) per level structure: a resource sits in a heap
//! under its saturation level, which only rises, so entries are refreshed when they surface.
//!
//! A resource that its flows could not fill at their solo rates, or that has one flow only, binds nobody beyond these
//! rates: it *joins* nothing, and changes do not reach beyond it. A folded run, whose solo rates are lower,
//! may differ in this; its rates are equal, to the last bit: left out in one of the two runs, a resource has a
//! billionth of its capacity to spare in both (`FULL`), so its level never comes up, and levels of other resources do
//! not depend on it.
//!
//! Hazard: a flow that nothing joins must wait for `solve` all the same. If it had its rate at once, its end could fall
//! before an admission of the same instant in the one run and behind it in the other (`src/core/tests/fold.rs` has such a case).
//!
//! Hazard: rates must not depend on how many equal flows a component holds, or a folded run would differ from the
//! unfolded one in the last bit. So loads are counted in whole numbers, and what a level froze on a resource is
//! subtracted once per level (level × count), not flow by flow.

pub use super::part::FlowId;
use super::part::RatePart;
use crate::ids::ResourceId;
use crate::units::Time;

/// The resources that a flow occupies, each with how many times: a range of the world's table of uses.
pub type FlowPath = std::ops::Range<u32>;

#[derive(Clone, Debug)]
pub(super) struct ActiveFlow {
    /// Bytes left at `since`, per unit of coefficient.
    left: f64,
    pub rate: f64,
    /// The rate when nobody else is there.
    pub solo: f64,
    since: Time,
    pub path: FlowPath,
    /// Distinguishes the users of one slot over time.
    pub generation: u32,
    /// The last solution that was free to give it another rate, and that rate.
    pub free_in: u32,
    pub level: f64,
    pub frozen: bool,
    /// A resource that held it down when that was last asked.
    pub held_by: u32,
}

/// A flow on a resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResourceUser {
    pub flow: FlowId,
    /// That of the flow, unless it has ended.
    pub generation: u32,
    /// How many times it crosses the resource.
    pub times: u32,
}

/// The load of resources now.
#[derive(Debug)]
pub struct Sharing<'w> {
    pub(super) uses: &'w [(ResourceId, u32)],
    pub(super) capacity: Vec<f64>,
    /// Flows on each resource, with dead entries until the next visit.
    pub(super) users: Vec<Vec<ResourceUser>>,
    live: Vec<u32>,
    /// By resource: what its flows would use of it at their solo rates, in parts of `WHOLE`.
    wanted: Vec<u128>,
    /// By resource: whether its flows belong to one component.
    pub(super) joins: Vec<bool>,
    pub(super) flows: Vec<ActiveFlow>,
    free: Vec<FlowId>,
    /// Resources that join or joined, and lost or gained by it.
    dirty: Vec<ResourceId>,
    /// Flows that have come or have another limit, with their generations.
    fresh: Vec<(FlowId, u32)>,
    pub(super) part: RatePart,
    solves: u64,
}

/// The capacity of a resource, in the parts that `Sharing::wanted` counts: whole numbers, so that sums do not drift.
const WHOLE: u128 = 1 << 60;
/// The share of a resource that flows may want without filling it: all but a billionth, far more than levels err.
const FULL: u128 = WHOLE - (WHOLE >> 30);

/// The rate of a flow that crosses a resource `a` times and is alone there.
#[inline]
pub(super) fn per_crossing(capacity: f64, a: u32) -> f64 {
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
            part: RatePart::new(n),
            solves: 0,
        }
    }

    /// Puts a flow of `bytes` on `path`. If nothing is on it, the flow goes at its solo rate and `Some(finish)` is
    /// returned; otherwise the next [`solve`](Self::solve) gives it a rate.
    pub fn insert(&mut self, now: Time, bytes: f64, limit: f64, path: FlowPath) -> (FlowId, Option<Time>) {
        let id = self.free.pop().unwrap_or_else(|| {
            self.flows.push(ActiveFlow {
                left: 0.0,
                rate: 0.0,
                solo: limit,
                since: now,
                path: 0..0,
                generation: 0,
                free_in: 0,
                level: 0.0,
                frozen: false,
                held_by: 0,
            });
            (self.flows.len() - 1) as FlowId
        });
        let flow = &mut self.flows[id as usize];
        flow.generation = flow.generation.wrapping_add(1);
        let generation = flow.generation;
        let all = self.uses;
        let uses = &all[path.start as usize..path.end as usize];
        let solo = uses.iter().map(|&(r, a)| per_crossing(self.capacity[r.index()], a)).fold(limit, f64::min);
        let free = uses.is_empty();
        if !free {
            self.fresh.push((id, generation));
        }
        for &(r, a) in uses {
            let i = r.index();
            if self.live[i] == 0 {
                self.users[i].clear();
            } else if self.users[i].len() > 2 * self.live[i] as usize + 8 {
                // Few are left of many: the dead go before the list grows without end.
                let flows = &self.flows;
                self.users[i].retain(|user| flows[user.flow as usize].generation == user.generation);
            }
            self.live[i] += 1;
            self.users[i].push(ResourceUser { flow: id, generation, times: a });
            self.wanted[i] += self.part(r, a, solo);
            self.judge(r);
        }
        let flow = &mut self.flows[id as usize];
        *flow =
            ActiveFlow { left: bytes, rate: if free { solo } else { 0.0 }, solo, since: now, path, ..*flow };
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

    /// The part of a resource that a flow of a solo rate can use when it crosses it `a` times: no more than all.
    fn part(&self, r: ResourceId, a: u32, solo: f64) -> u128 {
        u128::from((solo * f64::from(a) / self.capacity[r.index()] * WHOLE as f64) as u64)
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

    /// True if any flow is on a resource.
    pub fn is_used(&self, resource: ResourceId) -> bool {
        self.live[resource.index()] > 0
    }

    /// True if rates must be computed anew before time goes on.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || !self.fresh.is_empty()
    }

    /// How many times rates were computed anew.
    pub fn solves(&self) -> u64 {
        self.solves
    }

    /// Computes the rates that have changed and calls `retime(flow, finish)` for each flow whose rate is no longer
    /// what it was.
    pub fn solve(&mut self, now: Time, mut retime: impl FnMut(FlowId, Time)) {
        self.solves += 1;
        self.begin_part();
        let mut fresh = std::mem::take(&mut self.fresh);
        for (id, generation) in fresh.drain(..) {
            if self.flows[id as usize].generation == generation {
                self.release(id);
            }
        }
        self.fresh = fresh;
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.drain(..).for_each(|r| self.touch(r.index()));
        self.dirty = dirty;
        self.solve_part();
        for i in 0..self.part.free.len() {
            let id = self.part.free[i];
            if self.flows[id as usize].go_on(now) {
                retime(id, self.flows[id as usize].finish());
            }
        }
    }

    /// Forgets entries of flows that have ended.
    pub(super) fn drop_dead(&mut self, resource: usize) {
        if self.users[resource].len() == self.live[resource] as usize {
            return;
        }
        let flows = &self.flows;
        self.users[resource].retain(|user| flows[user.flow as usize].generation == user.generation);
    }

    /// The state that decides how a flow goes on, relative to now.
    pub fn state(&self, id: FlowId, now: Time) -> [u64; 4] {
        let flow = &self.flows[id as usize];
        [flow.left.to_bits(), flow.rate.to_bits(), flow.solo.to_bits(), (now - flow.since).0]
    }

    /// The rate of a flow in bytes per second and unit of coefficient.
    pub fn rate(&self, id: FlowId) -> f64 {
        self.flows[id as usize].rate
    }
}

impl ActiveFlow {
    /// Takes on the rate that was found for it; whether that is another one.
    fn go_on(&mut self, now: Time) -> bool {
        let changed = self.rate.to_bits() != self.level.to_bits();
        if changed {
            self.left = (self.left - self.rate * (now - self.since).s()).max(0.0);
            self.since = now;
            self.rate = self.level;
        }
        changed
    }
    /// When the flow ends at its present rate, to the nearest picosecond.
    fn finish(&self) -> Time {
        if self.left <= 0.0 { self.since } else { self.since + Time::from_s(self.left / self.rate) }
    }
}
