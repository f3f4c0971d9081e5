//! What the residency policies of a rank add to its passes: their closed forms beside one another.
//!
//! Each policy says what it asks of idle links ([`Law`](crate::step::plan::step::residency::Law)); here is how the requests lie
//! beside passes, one collective at a time on one link, without contention (formulas of FSDP2's dependency graph, checked
//! against a reference simulation). With f, b, g, s the forward, backward, all-gather and reduce-scatter of a unit, for
//! equal units
//! T_fwd = g + (L − 1)·max(f, g) + f and T_bwd = g + b + (L − 1)·max(b, g, s) + s. The sums below are the same laws
//! for unequal units: neighbours in the order of the pass share a slot. Copies in and out lie beside the unit's own passes;
//! the two directions do not disturb each other, nor does any other device.

use std::ops::AddAssign;

use super::floor::Floor;
use super::form::{Form, RankTimes};
use super::memory::Walk;
use super::{Links, Memory};
use crate::step::collective::{CollectiveError, Op};
use crate::step::plan::step::groups::Group;
use crate::step::plan::step::residency::{self as policies, Around, Given, IdleLinks, Repeats, UnitTimes};
use crate::step::schedule::Slot;

impl IdleLinks for Links<'_> {
    fn collective(&self, group: Group, op: Op, bytes: f64) -> Result<f64, CollectiveError> {
        self.time(group, op, bytes)
    }
    fn copy(&self, tier: u8, bytes: f64) -> [f64; 3] {
        self.copies.get(&tier).map_or([0.0; 3], |pipes| pipes.map(|pipe| pipe.time(bytes)))
    }
}

/// The passes of a unit, and what is asked for around them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct UnitCosts {
    forward: f64,
    backward: f64,
    around: Around,
}

impl Form<'_> {
    /// A rank as its policies see it.
    fn given(&self, rank: &RankTimes) -> Given<'_> {
        let chunks = rank.stages.iter().zip(&rank.chunks).map(|(stage, times)| {
            let units = self.stages[*stage].iter().zip(times).map(|(unit, time)| UnitTimes {
                unit,
                forward: time.forward.total(),
                backward: time.recompute.total() + self.gradients(time).total(),
            });
            (units.collect(), *stage + 1 == self.stages.len())
        });
        let passes = f64::from(self.passes());
        Given::new(&self.shares, &self.links, chunks.collect(), passes)
    }

    /// The passes of a rank with what all policies ask for, by chunk; and what is exposed once.
    fn asked(
        &self,
        rank: &RankTimes,
    ) -> Result<(Vec<Vec<UnitCosts>>, Repeats, policies::Once), CollectiveError> {
        let given = self.given(rank);
        let cost = |u: &UnitTimes<'_>| UnitCosts {
            forward: u.forward,
            backward: u.backward,
            around: Around::default(),
        };
        let mut costs: Vec<Vec<UnitCosts>> =
            given.chunks.iter().map(|(units, _)| units.iter().map(cost).collect()).collect();
        let (mut repeats, mut once) = (Repeats::default(), policies::Once::default());
        for law in self.policies.laws() {
            let form = law.closed_form(&given)?;
            let all = costs.iter_mut().flatten().zip(form.around.iter().flatten());
            all.for_each(|(unit, around)| unit.around += *around);
            repeats.gathers = repeats.gathers.max(form.repeats.gathers);
            repeats.reductions = repeats.reductions.max(form.repeats.reductions);
            once.collectives += form.once.collectives;
            once.copies += form.once.copies;
        }
        Ok((costs, repeats, once))
    }

    /// What the policies ask of links and memory for passes of this kind.
    ///
    /// # Errors
    /// A collective that no algorithm can run.
    pub fn held(&self) -> Result<Held, CollectiveError> {
        // The first rank starts first and ends last.
        let (mut chunks, repeats, mut once) = self.asked(&self.ranks[0])?;
        let mut held = Held { repeats, collectives: once.collectives, ..Held::default() };
        for units in &chunks {
            held.beside += Beside::passes(units);
        }
        // Copies lie around the passes of the busiest rank, and behind its last.
        if self.busiest != 0 {
            (chunks, _, once) = self.asked(&self.ranks[self.busiest])?;
        }
        for unit in chunks.iter().flatten() {
            let Around { copy_in: [forward_in, backward_in], copy_out, .. } = unit.around;
            held.copies_of_pass += (forward_in.max(copy_out) - unit.forward).max(0.0);
            held.copies_of_pass += (backward_in - unit.backward).max(0.0);
        }
        held.copies = once.copies;
        held.memory = self.memory();
        held.floor = self.floor();
        Ok(held)
    }

    /// What each rank's device memory holds at its fullest.
    fn memory(&self) -> Vec<Memory> {
        let mut walk: Option<(usize, Walk<'_>)> = None;
        let of_rank = |(rank, slots): (usize, &Vec<Slot>)| {
            let (_, walk) = match walk.take().filter(|(other, _)| self.alike(*other, rank)) {
                Some(same) => walk.insert(same),
                None => {
                    let given = self.given(&self.ranks[rank]);
                    let held = self.policies.laws().map(|law| law.held(&given));
                    walk.insert((rank, Walk::new(given, held)))
                }
            };
            walk.fullest(slots)
        };
        self.order.ranks.iter().enumerate().map(of_rank).collect()
    }
    /// Whether two ranks hold equal units, for which policies ask and hold the same.
    fn alike(&self, a: usize, b: usize) -> bool {
        let last = self.stages.len() - 1;
        let stages = self.ranks[a].stages.iter().zip(&self.ranks[b].stages);
        self.policies.laws().iter().all(|law| !law.tells_layers_apart())
            && self.classes[a] == self.classes[b]
            && self.ranks[a].stages.len() == self.ranks[b].stages.len()
            && stages.into_iter().all(|(&a, &b)| {
                let (own, other) = (&self.stages[a], &self.stages[b]);
                (a == last) == (b == last)
                    && own.len() == other.len()
                    && own.iter().zip(other).all(|(own, other)| own.equals(other))
            })
    }
}

/// What the policies ask of links and memory. Batches whose order goes on by turns from one order have it alike.
#[derive(Default)]
pub(super) struct Held {
    repeats: Repeats,
    beside: Beside,
    /// Collectives that are exposed once a step.
    collectives: f64,
    /// Copies that are exposed in each forward and backward pass together, and once a step.
    copies_of_pass: f64,
    copies: f64,
    /// Device memory of each pipeline rank.
    pub memory: Vec<Memory>,
    /// What the step takes at least.
    pub floor: Floor,
}

impl Held {
    /// Exposed gathers and reductions of a step of so many passes.
    pub fn data(&self, passes: f64) -> f64 {
        let (gathers, reductions) = (self.repeats.gathers.of(passes), self.repeats.reductions.of(passes));
        gathers * self.beside.forward
            + reductions * self.beside.reducing
            + (passes - reductions) * self.beside.backward
            + self.collectives
    }
    /// Exposed copies of a step of so many passes.
    pub fn offload(&self, passes: f64) -> f64 {
        self.copies_of_pass * passes + self.copies
    }
}

/// What gathers and reductions add to a forward pass through all chunks, to a backward pass with reductions, and to one
/// without.
#[derive(Clone, Copy, Default)]
struct Beside {
    forward: f64,
    reducing: f64,
    backward: f64,
}

impl Beside {
    /// Beside the passes of one chunk.
    fn passes(units: &[UnitCosts]) -> Beside {
        let busy = |part: fn(&UnitCosts) -> f64| units.iter().map(part).sum::<f64>();
        let backward = busy(|u| u.backward);
        Beside {
            forward: gathered_forward(units) - busy(|u| u.forward),
            reducing: gathered_backward(units, true) - backward,
            backward: gathered_backward(units, false) - backward,
        }
    }
}

impl AddAssign for Beside {
    fn add_assign(&mut self, other: Beside) {
        self.forward += other.forward;
        self.reducing += other.reducing;
        self.backward += other.backward;
    }
}

/// Forward pass with gathered weights: the gather of a unit runs beside the unit before it.
fn gathered_forward(units: &[UnitCosts]) -> f64 {
    let gather = |u: &UnitCosts| u.around.gather[0];
    let slots = units.windows(2).map(|pair| pair[0].forward.max(gather(&pair[1]))).sum::<f64>();
    let ends = units.first().map_or(0.0, gather) + units.last().map_or(0.0, |u| u.forward);
    slots + ends
}

/// Backward pass with gathered weights and, if `reduces`, reduced gradients: beside the backward of unit i run the
/// gather of unit i − 1 and the reduction of unit i + 1.
fn gathered_backward(units: &[UnitCosts], reduces: bool) -> f64 {
    let gather = |u: Option<&UnitCosts>| u.map_or(0.0, |u| u.around.gather[1]);
    let reduce = |u: Option<&UnitCosts>| if reduces { u.map_or(0.0, |u| u.around.reduce) } else { 0.0 };
    let slots = (0..units.len()).map(|i| {
        let before = i.checked_sub(1).and_then(|i| units.get(i));
        units[i].backward.max(gather(before)).max(reduce(units.get(i + 1)))
    });
    gather(units.last()) + slots.sum::<f64>() + reduce(units.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(forward: f64, backward: f64, gather: [f64; 2], reduce: f64) -> [UnitCosts; 4] {
        [UnitCosts { forward, backward, around: Around { gather, reduce, ..Around::default() } }; 4]
    }

    /// Equal units: the published closed forms, for each of the three costs being the largest.
    #[test]
    fn equal_units_follow_the_textbook() {
        for (f, b, g, s) in [(3.0, 6.0, 1.0, 2.0), (1.0, 2.0, 5.0, 3.0), (1.0, 2.0, 3.0, 7.0)] {
            let units = units(f, b, [g, 0.0], s);
            assert_eq!(gathered_forward(&units), g + 3.0 * f.max(g) + f);
            let kept = b + 3.0 * b.max(s) + s;
            assert_eq!(gathered_backward(&units, true), kept);
        }
        let units = units(3.0, 6.0, [1.0; 2], 2.0);
        assert_eq!(gathered_backward(&units, true), 1.0 + 6.0 + 3.0 * 6.0 + 2.0);
    }
}
