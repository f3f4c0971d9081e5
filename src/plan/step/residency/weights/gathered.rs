//! ZeRO-3: weights cut into shards, one a rank. The gathered part of a unit, and the gather itself.
//!
//! Where shards live on a tier, a rank's own is fetched ahead of the gather and given up with it.

use super::super::free;
use crate::step::chain::{Chain, Visit};
use crate::step::residency::copies::Cargo;
use crate::step::unit::Unit;
use crate::step::writer::Writer;
use stepsim_core::ids::OpId;
use stepsim_core::program::{MemoryClass, Phase, ProgramBuilder};
use stepsim_schedule::Pass;

/// Weights of a unit that are on the device in full, or on their way.
#[derive(Clone, Debug, Default)]
struct Gathered {
    /// The gathers after which they are there.
    ops: Vec<OpId>,
    /// Bytes that they take on the device.
    bytes: u64,
    /// Elements of the unit that they cover.
    elements: u64,
}

/// The gathered weights of every unit of a rank.
#[derive(Default)]
pub(super) struct Shards {
    gathered: Vec<Gathered>,
    /// Elements gathered and not given up.
    live_elements: u64,
}

impl Shards {
    /// Nothing is gathered.
    pub fn begin(&mut self, units: usize) {
        *self = Shards { gathered: vec![Gathered::default(); units], live_elements: 0 };
    }
    /// Elements gathered and not given up.
    pub fn live_elements(&self) -> u64 {
        self.live_elements
    }
    /// Makes a chain wait for what is on its way of a unit.
    pub fn await_unit(&self, chain: &mut Chain, unit: u32) {
        self.gathered[unit as usize].ops.iter().for_each(|op| chain.wait(*op));
    }
    /// Gives up what is gathered of a unit with the end of an op.
    pub fn give_up(&mut self, b: &mut ProgramBuilder, unit: u32, end: OpId) {
        let gathered = std::mem::take(&mut self.gathered[unit as usize]);
        free(b, end, MemoryClass::Weights, 0, gathered.bytes);
        self.live_elements -= gathered.elements;
    }

    /// Gathers the missing weights of a unit, at most `most` elements; returns the number gathered.
    pub fn gather_rest(
        &mut self,
        w: &mut Writer<'_, '_>,
        b: &mut ProgramBuilder,
        unit: u32,
        most: u64,
        when: (Phase, u32),
        waits: &[OpId],
    ) -> u64 {
        let all = elements(w, unit);
        let elements = (all - self.gathered[unit as usize].elements).min(most);
        if elements == 0 {
            return 0;
        }
        let part = elements as f64 / all as f64;
        let renewed = w.fresh[unit as usize].clone();
        let mut waits = waits.to_vec();
        waits.extend(&renewed);
        let (mut fetched, mut copies) = (0, Vec::new());
        let scaled = |bytes: u64| (bytes as f64 * part).round() as u64;
        // Weights that no other rank holds (experts without replicas) are not gathered: the copy itself is used.
        let shares = &w.setup.shares;
        let held = &w.units[unit as usize];
        let [shard, own] = shares.shard_parts(held, held.weight_bytes(shares.bytes.weights)).map(scaled);
        let mut held = 0;
        for away in &shares.placed.weights {
            let visit =
                Visit { unit, pass: Pass::Forward, repeats: false, micro_batch: when.1, recomputes: false };
            let bytes = away.of(shard) + away.of(own);
            let cargo = Cargo { phase: when.0, ..super::cargo(w, visit, "prefetch weight shards", bytes) };
            let mut gates = renewed.clone();
            gates.extend(w.prefetch_gate(b, bytes));
            if let Some(op) = w.fetch(b, away, cargo, &gates, false) {
                copies.push(op);
                fetched += away.of(shard);
                held += away.of(own);
            }
        }
        waits.extend(&copies);
        let (ops, bytes) = super::gather(w, b, (unit, part), Unit::weight_bytes, when, &waits, true);
        match ops.last() {
            Some(last) => free(b, *last, MemoryClass::Weights, 0, fetched),
            None => held += fetched,
        }
        let gathered = &mut self.gathered[unit as usize];
        if held > 0 {
            gathered.ops.extend(copies);
        }
        gathered.ops.extend(ops);
        gathered.bytes += bytes + held;
        gathered.elements += elements;
        self.live_elements += elements;
        elements
    }
}

/// Parameters of a unit.
pub(super) fn elements(w: &Writer<'_, '_>, unit: u32) -> u64 {
    w.units[unit as usize].plan.parameters.total()
}

/// The reductions that a pass waits for: the first forward visit for the last ones of the backward pass before it.
pub(super) fn reductions_before(w: &Writer<'_, '_>, backward: bool) -> Vec<OpId> {
    let begins = w.visits.run_start() == w.visits.begun().len();
    if !begins || backward {
        return Vec::new();
    }
    let last = w.visits.begun().iter().rev().take_while(|v| v.backward).find(|v| !v.reduce.is_empty());
    last.map(|v| v.reduce.clone()).unwrap_or_default()
}

/// The reduction that a backward visit waits for: the one of the visit before the last.
pub(super) fn reductions_behind<'w>(w: &'w Writer<'_, '_>, backward: bool) -> &'w [OpId] {
    let begun = w.visits.begun();
    if backward && begun.len() >= w.visits.run_start() + 2 { &begun[begun.len() - 2].reduce } else { &[] }
}
