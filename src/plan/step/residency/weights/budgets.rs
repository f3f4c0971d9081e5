//! DeepSpeed's ZeRO-3 with element budgets (`partitioned_param_coordinator`): when a visit starts, what it lacks is
//! gathered, then min(`bucket_elements`, `max_live_elements` − live) elements along the trace of visits to come, the
//! last of them in part. Weights needed again within `max_reuse_elements` are kept.

use super::super::{ClassBytes, Law, LinkDemand, PolicyInputs, Residency};
use super::gathered::{Shards, elements, reductions_before, reductions_behind};
use crate::step::chain::{Chain, Visit};
use crate::step::writer::Writer;
use stepsim_core::ids::OpId;
use stepsim_core::program::{Phase, ProgramBuilder};
use stepsim_fabric::collective::CollectiveError;
use stepsim_schedule::Pass;
use stepsim_spec::workload::ElementBudgets;

/// Weights gathered along the trace of visits.
pub(in super::super) struct Budgets {
    budgets: ElementBudgets,
    shards: Shards,
}

impl Budgets {
    pub fn new(budgets: ElementBudgets) -> Budgets {
        Budgets { budgets, shards: Shards::default() }
    }
    /// True if a unit is read again before the budget's elements have passed.
    fn read_soon(&self, w: &Writer<'_, '_>, unit: u32) -> bool {
        let mut passed = 0u64;
        w.visits.ahead().iter().any(|c| {
            let near = passed < self.budgets.max_reuse_elements && c.unit == unit;
            passed = passed.saturating_add(elements(w, c.unit));
            near
        })
    }
}

impl Residency for Budgets {
    fn begin(&mut self, units: usize) {
        self.shards.begin(units);
    }
    fn resident(&self, w: &Writer<'_, '_>) -> Vec<(u8, f64)> {
        super::resident(w)
    }

    fn arrive(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        let phase = |backward| if backward { Phase::Backward } else { Phase::Forward };
        let backward = visit.pass != Pass::Forward;
        let last_reductions = reductions_before(w, backward);
        last_reductions.iter().for_each(|op| chain.wait(*op));
        let starts: Vec<OpId> = w.visits.begun().last().map(|v| v.end).into_iter().collect();
        let mut waits = starts.clone();
        waits.extend(&last_reductions);
        let when = (phase(backward), visit.micro_batch);
        self.shards.gather_rest(w, b, visit.unit, u64::MAX, when, &waits);
        self.shards.await_unit(chain, visit.unit);
        let room = self.budgets.max_live_elements.saturating_sub(self.shards.live_elements());
        let mut left = room.min(self.budgets.bucket_elements);
        for coming in w.visits.ahead().to_vec() {
            if left == 0 {
                break;
            }
            let when = (phase(coming.backward), coming.micro_batch);
            left -= self.shards.gather_rest(w, b, coming.unit, left, when, &starts);
        }
        reductions_behind(w, backward).iter().for_each(|op| chain.wait(*op));
    }

    fn leave(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, visit: Visit, end: OpId) {
        let gives_up = match visit.pass {
            // Not read: what was kept for a backward visit goes with the last one.
            Pass::WeightGrad => w.visits.backward_left(visit.unit) == 0,
            _ => !self.read_soon(w, visit.unit),
        };
        if gives_up {
            self.shards.give_up(b, visit.unit, end);
        }
    }
}

impl Law for Budgets {
    /// As many units are gathered ahead as the budget has room for.
    fn closed_form(&self, given: &PolicyInputs<'_>) -> Result<LinkDemand, CollectiveError> {
        super::gathered_for_each_pass(given, self.ahead(given), true)
    }
    fn held(&self, given: &PolicyInputs<'_>) -> ClassBytes {
        super::held_gathered(given, self.ahead(given))
    }
}

impl Budgets {
    /// Visits between the gate of a gather and its own, if all units were of the mean size.
    fn ahead(&self, given: &PolicyInputs<'_>) -> [usize; 2] {
        let all: u64 = given.units().map(|u| u.unit.plan.parameters.total()).sum();
        let mean = (all / given.units().count().max(1) as u64).max(1);
        let most = self.budgets.bucket_elements.min(self.budgets.max_live_elements);
        [1 + (most / mean) as usize; 2]
    }
}
