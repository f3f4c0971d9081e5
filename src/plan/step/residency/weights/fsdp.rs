//! FSDP / ZeRO-3 (PyTorch 2.11 `fsdp/_fully_shard`): the weights of a unit are gathered before each visit.
//!
//! With prefetch depth 1 the gather of visit j in forward waits for the start of the kernels of visit j−2, that is
//! for the end of visit j−3 (at most two gathered buffers beside the one in use); in backward for the start of visit
//! j−1 (end of visit j−2), since it is issued behind the copy-out of the visit before. Kernels of backward visit j
//! also wait for the reduction of visit j−2. Nothing is gathered ahead from forward to backward or from a micro-batch
//! to the next, whose first gather also waits for the last reductions. A depth of d moves both waits by d−1; depth 0
//! gathers when it is needed. For L equal layers (f, b compute, g gather, s reduction) without contention
//! ```text
//! T_fwd = g + (L−1)·max(f, g) + f        T_bwd = [g +] b + (L−1)·max(b, [g,] s) + s
//! ```
//! where the brackets are left out without resharding.
//!
//! **Explicit lists**: layers of `forward[i]` are issued when layer i starts, in that order; what no list has gathered
//! follows the rule above.

use super::super::{ClassBytes, Law, LinkDemand, PolicyInputs, Residency, StateShares};
use super::gathered::{Shards, reductions_before, reductions_behind};
use crate::step::chain::{Chain, Visit};
use crate::step::writer::Writer;
use stepsim_core::ids::OpId;
use stepsim_core::program::{Phase, ProgramBuilder};
use stepsim_fabric::collective::CollectiveError;
use stepsim_schedule::Pass;

/// Weights gathered before each visit.
#[derive(Default)]
pub(in super::super) struct Fsdp {
    shards: Shards,
}

impl Residency for Fsdp {
    fn begin(&mut self, units: usize) {
        self.shards.begin(units);
    }
    fn resident(&self, w: &Writer<'_, '_>) -> Vec<(u8, f64)> {
        super::resident(w)
    }

    /// Gathers before the visit, not earlier than the prefetch rule allows.
    fn arrive(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        let backward = visit.pass != Pass::Forward;
        let when = (if backward { Phase::Backward } else { Phase::Forward }, visit.micro_batch);
        let last_reductions = reductions_before(w, backward);
        last_reductions.iter().for_each(|op| chain.wait(*op));
        let starts: Vec<OpId> = w.visits.begun().last().map(|v| v.end).into_iter().collect();
        let mut waits: Vec<OpId> = gate(w, backward).into_iter().collect();
        waits.extend(&last_reductions);
        self.shards.gather_rest(w, b, visit.unit, u64::MAX, when, &waits);
        self.shards.await_unit(chain, visit.unit);
        for unit in listed(w, visit.unit, backward) {
            self.shards.gather_rest(w, b, unit, u64::MAX, when, &starts);
        }
        reductions_behind(w, backward).iter().for_each(|op| chain.wait(*op));
    }

    /// Weights are given up behind a visit. A unit without gradients of its inputs (the embedding) is not visited
    /// where backward passes are split, since its weight gradient does not read its weights: what was kept for a
    /// backward visit goes with the last one.
    fn leave(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, visit: Visit, end: OpId) {
        if gives_up(w, visit) {
            self.shards.give_up(b, visit.unit, end);
        }
    }
}

/// True if gathered weights are given up behind a visit.
fn gives_up(w: &Writer<'_, '_>, visit: Visit) -> bool {
    let reshard = w.setup.shares.workload.parallelism.sharding.reshard_after_forward;
    let over = w.visits.backward_left(visit.unit) == 0;
    match visit.pass {
        Pass::Forward if !w.units[visit.unit as usize].plan.has_backward() => true,
        // The last unit is the first that backward needs.
        Pass::Forward => reshard.unwrap_or_else(|| {
            let next = w.visits.ahead().first();
            !next.is_some_and(|c| c.backward && c.unit == visit.unit && c.micro_batch == visit.micro_batch)
        }),
        Pass::WeightGrad => over,
        // PyTorch's pipelines keep weights that are not resharded until the last backward pass; else each backward
        // reshards.
        Pass::Backward | Pass::InputGrad => {
            reshard != Some(false) || w.setup.shares.degrees.pipeline == 1 || over
        }
    }
}

/// How many visits before it ends the one behind which the weights of a visit may be gathered.
fn ahead(shares: &StateShares<'_>, backward: bool) -> usize {
    let depth = shares.workload.parallelism.sharding.prefetch.depth;
    match usize::try_from(depth).unwrap_or(usize::MAX) {
        0 => 1,
        depth => depth.saturating_add(if backward { 1 } else { 2 }),
    }
}

/// The op behind which the weights of the next visit may be gathered.
fn gate(w: &Writer<'_, '_>, backward: bool) -> Option<OpId> {
    let ahead = ahead(&w.setup.shares, backward);
    let (begun, start) = (w.visits.begun(), w.visits.run_start());
    let gate = begun.len().checked_sub(ahead).filter(|g| *g >= start);
    gate.or(start.checked_sub(1)).map(|g| begun[g].end)
}

/// The units that the explicit lists gather when a unit starts: entries count transformer layers of its chunk. What
/// has no backward pass left is not gathered for one.
fn listed(w: &Writer<'_, '_>, unit: u32, backward: bool) -> Vec<u32> {
    let prefetch = &w.setup.shares.workload.parallelism.sharding.prefetch;
    let Some(lists) = (if backward { &prefetch.backward } else { &prefetch.forward }) else {
        return Vec::new();
    };
    let chunk = w.first_unit.partition_point(|first| *first <= unit) - 1;
    let range = w.first_unit[chunk]..w.first_unit[chunk + 1];
    let layers: Vec<u32> = range.filter(|u| w.units[*u as usize].layer.is_some()).collect();
    let Some(at) = layers.iter().position(|u| *u == unit) else { return Vec::new() };
    let entries = lists.get(at).into_iter().flatten();
    let left = |unit: u32| w.units[unit as usize].plan.has_backward() && w.visits.backward_left(unit) > 0;
    let wanted = |unit: &u32| !backward || left(*unit);
    entries.filter_map(|i| layers.get(usize::try_from(*i).ok()?)).copied().filter(wanted).collect()
}

impl Law for Fsdp {
    /// Gathers before every forward pass and every backward one, or before forward passes alone.
    fn closed_form(&self, given: &PolicyInputs<'_>) -> Result<LinkDemand, CollectiveError> {
        super::gathered_for_each_pass(
            given,
            [false, true].map(|backward| ahead(given.shares, backward)),
            false,
        )
    }
    fn held(&self, given: &PolicyInputs<'_>) -> ClassBytes {
        super::held_gathered(given, [false, true].map(|backward| ahead(given.shares, backward)))
    }
}
