//! Progressive filling of a part: flows whose rates may change, the *free* ones, among others that keep theirs.
//!
//! Rates are what progressive filling of everything would give. A resource is left as it is unless a flow on it came,
//! went or got another rate, and a flow keeps its rate while what holds it down is as it was. So the part begins with
//! the flows that have come and the resources that flows have left, and is filled with all other flows going at the
//! rates that they have. Two things show that one of these must change: a resource saturates below its rate, or what
//! held it down at that rate no longer does. Such flows are set free, and the part is filled anew, until there is
//! none. A flow over a thousand links is then looked at only where another joins it.
//!
//! Nothing in this depends on numbers of flows or on their order: a folded run sets free what stands for the flows
//! that the unfolded one sets free. After a few rounds all that hangs together is, so that a change that travels far,
//! link by link, costs no more than that.
//!
//! Hazard: the level of a resource must have the same bits whichever part it is computed in. What a level takes from a
//! resource is level × count, once, in the order of levels, be it from flows frozen there now or from those that keep
//! their rates; a level that rounding puts below the last one counts as that one.

use std::cmp::Reverse;

use super::part::{FlowId, NEVER, PartResource};
use super::sharing::{Sharing, per_crossing};

/// Rounds after which the whole component is free.
const ROUNDS: u32 = 3;

/// Marks a heap entry that stands for a flow's own limit instead of a resource.
const LIMIT: u64 = 1 << 32;

impl Sharing<'_> {
    /// Begins a part without flows.
    pub(super) fn begin_part(&mut self) {
        self.part.epoch += 1;
        self.part.resources.clear();
        self.part.free.clear();
    }

    /// Looks at a resource anew.
    pub(super) fn touch(&mut self, r: usize) {
        let part = &mut self.part;
        if part.has(r) {
            return;
        }
        part.known[r].seen = part.epoch;
        part.known[r].before = part.saturates[r];
        part.resources.push(r as u32);
        self.drop_dead(r);
    }

    /// Lets a flow have another rate.
    pub(super) fn release(&mut self, id: FlowId) {
        let flow = &mut self.flows[id as usize];
        if flow.free_in == self.part.epoch {
            return;
        }
        flow.free_in = self.part.epoch;
        self.part.free.push(id);
        let all = self.uses;
        for &(r, _) in &all[flow.path.start as usize..flow.path.end as usize] {
            if self.joins[r.index()] {
                self.touch(r.index());
            }
        }
    }

    /// Finds the levels of the free flows, setting others free as need be.
    pub(super) fn solve_part(&mut self) {
        for round in 1.. {
            self.prepare();
            self.fill();
            self.find_disturbed();
            if self.part.disturbed.is_empty() {
                return;
            }
            while let Some(id) = self.part.disturbed.pop() {
                self.release(id);
            }
            if round >= ROUNDS {
                self.release_all();
            }
        }
    }

    /// Sets free all that hangs together with the part.
    fn release_all(&mut self) {
        let mut next = 0;
        while let Some(&r) = self.part.resources.get(next) {
            next += 1;
            for i in 0..self.users[r as usize].len() {
                self.release(self.users[r as usize][i].flow);
            }
        }
    }

    /// Everything at level zero.
    fn prepare(&mut self) {
        let part = &mut self.part;
        part.kept.clear();
        for &r in &part.resources {
            let r = r as usize;
            let begin = part.kept.len();
            let mut load = 0;
            for user in &self.users[r] {
                load += u64::from(user.times);
                let flow = &self.flows[user.flow as usize];
                if flow.free_in != part.epoch {
                    part.kept.push((flow.rate, u64::from(user.times)));
                }
            }
            let end = merge(&mut part.kept, begin);
            part.known[r] = PartResource {
                kept: begin as u32,
                kept_end: end as u32,
                left: self.capacity[r],
                load,
                level: 0.0,
                at_level: 0,
                ..part.known[r]
            };
            part.saturates[r] = NEVER;
        }
        part.limited.clear();
        for &id in &part.free {
            let flow = &mut self.flows[id as usize];
            // Where a resource of the part binds as early, the flow's own limit never does.
            let (mut shares, mut bound) = (false, false);
            for &(q, a) in &self.uses[flow.path.start as usize..flow.path.end as usize] {
                if part.has(q.index()) {
                    shares = true;
                    bound |= per_crossing(self.capacity[q.index()], a) <= flow.solo;
                }
            }
            flow.frozen = !shares;
            flow.level = flow.solo;
            if shares && !bound {
                part.limited.push(id);
            }
        }
    }

    /// Raises the common level from saturation to saturation until every free flow is frozen.
    fn fill(&mut self) {
        let mut heap = std::mem::take(&mut self.part.heap);
        let mut batch = std::mem::take(&mut self.part.batch);
        heap.clear();
        let part = &self.part;
        heap.extend(part.resources.iter().map(|&r| key(part.next_level(r as usize, 0.0), u64::from(r))));
        let limits = part.limited.iter().map(|&id| (self.flows[id as usize].solo, LIMIT | u64::from(id)));
        heap.extend(limits.map(|(solo, what)| key(solo, what)));
        let mut floor = 0.0;
        while let Some(Reverse((bits, what))) = heap.pop() {
            let level = self.level(what, floor);
            if level.is_infinite() {
                continue;
            }
            if level.to_bits() != bits {
                heap.push(key(level, what));
                continue;
            }
            batch.clear();
            batch.push(what);
            while let Some(&Reverse((b, k))) = heap.peek() {
                if b != bits {
                    break;
                }
                heap.pop();
                let other = self.level(k, floor);
                if other.to_bits() == bits {
                    batch.push(k);
                } else if other.is_finite() {
                    heap.push(key(other, k));
                }
            }
            for &what in &batch {
                self.freeze(what, level, floor);
            }
            floor = level;
            self.subtract_frozen(level);
            // Where flows that keep their rates go no faster, others may.
            let going_on = batch.iter().filter(|what| *what & LIMIT == 0);
            let next = going_on.map(|what| (self.level(*what, floor), *what));
            heap.extend(next.filter(|(level, _)| level.is_finite()).map(|(level, what)| key(level, what)));
        }
        self.part.heap = heap;
        self.part.batch = batch;
    }

    /// The level at which something is next to happen on a resource or a flow meets its own limit; infinite when that
    /// is settled.
    fn level(&self, what: u64, floor: f64) -> f64 {
        if what & LIMIT == 0 {
            return self.part.next_level(what as usize, floor);
        }
        let flow = &self.flows[(what ^ LIMIT) as usize];
        if flow.frozen { NEVER } else { flow.solo }
    }

    /// Freezes the flow that met its limit, or the flows of a resource: all of one that is full, otherwise those that
    /// keep this rate.
    fn freeze(&mut self, what: u64, level: f64, floor: f64) {
        if what & LIMIT != 0 {
            self.freeze_flow((what ^ LIMIT) as FlowId, level);
            return;
        }
        let r = what as usize;
        if self.part.known[r].full_at().max(floor) > level {
            if let Some((_, times)) = self.part.next_kept(r) {
                self.part.known[r].kept += 1;
                self.part.freeze_on(r, times);
            }
            return;
        }
        if self.joins[r] {
            self.part.saturates[r] = level;
        }
        for i in 0..self.users[r].len() {
            let id = self.users[r][i].flow;
            let flow = &self.flows[id as usize];
            if flow.free_in == self.part.epoch {
                self.freeze_flow(id, level);
            } else if flow.rate > level {
                self.part.disturbed.push(id);
            }
        }
        let known = &mut self.part.known[r];
        let rest = &self.part.kept[known.kept as usize..known.kept_end as usize];
        let times = rest.iter().map(|(_, times)| times).sum();
        known.kept = known.kept_end;
        self.part.freeze_on(r, times);
    }

    fn freeze_flow(&mut self, id: FlowId, level: f64) {
        let flow = &mut self.flows[id as usize];
        if flow.frozen {
            return;
        }
        flow.frozen = true;
        flow.level = level;
        for &(q, a) in &self.uses[flow.path.start as usize..flow.path.end as usize] {
            if self.part.has(q.index()) {
                self.part.freeze_on(q.index(), u64::from(a));
            }
        }
    }

    /// Takes what this level froze from each resource it touched: once per level, in whole numbers of `level`.
    fn subtract_frozen(&mut self, level: f64) {
        while let Some(q) = self.part.hit.pop() {
            let known = &mut self.part.known[q as usize];
            let frozen = std::mem::take(&mut known.frozen_now);
            known.take(level, frozen);
        }
    }

    /// Flows that nothing holds down any more at the rates that they have.
    fn find_disturbed(&mut self) {
        for i in 0..self.part.resources.len() {
            let r = self.part.resources[i] as usize;
            let before = self.part.known[r].before.to_bits();
            if before == NEVER.to_bits() || before == self.part.saturates[r].to_bits() {
                continue;
            }
            for k in 0..self.users[r].len() {
                let id = self.users[r][k].flow;
                let flow = &self.flows[id as usize];
                if flow.free_in != self.part.epoch && flow.rate.to_bits() == before && !self.is_held(id) {
                    self.part.disturbed.push(id);
                }
            }
        }
    }

    /// True if a resource or its own limit holds a flow down at the rate that it has.
    fn is_held(&mut self, id: FlowId) -> bool {
        let flow = &mut self.flows[id as usize];
        let rate = flow.rate.to_bits();
        let holds = |r: usize| self.part.saturates[r].to_bits() == rate;
        let path = &self.uses[flow.path.start as usize..flow.path.end as usize];
        if flow.solo.to_bits() == rate
            || path.get(flow.held_by as usize).is_some_and(|(r, _)| holds(r.index()))
        {
            return true;
        }
        let found = path.iter().position(|(r, _)| holds(r.index()));
        flow.held_by = found.unwrap_or_default() as u32;
        found.is_some()
    }
}

/// A heap entry.
#[inline]
fn key(level: f64, what: u64) -> Reverse<(u64, u64)> {
    Reverse((level.to_bits(), what))
}

/// Sorts the rates from `begin` on, each with how many times it occurs; returns where they end.
fn merge(kept: &mut Vec<(f64, u64)>, begin: usize) -> usize {
    let rates = &mut kept[begin..];
    if rates.len() > 1 {
        rates.sort_unstable_by_key(|(rate, _)| rate.to_bits());
        let mut last = 0;
        for i in 1..rates.len() {
            if rates[i].0.to_bits() == rates[last].0.to_bits() {
                rates[last].1 += rates[i].1;
            } else {
                last += 1;
                rates[last] = rates[i];
            }
        }
        kept.truncate(begin + last + 1);
    }
    kept.len()
}
