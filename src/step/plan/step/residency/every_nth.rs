//! Activations of every n-th layer live on tiers, all others stay (`offload.activations_every_layers`): less to copy
//! where a link is slow and there is room for a part.

use super::activations::{self, MovedActivations};
use super::{ClassBytes, Law, LinkDemand, PolicyInputs, Residency};
use crate::collective::CollectiveError;
use crate::plan::step::chain::{Chain, Visit};
use crate::plan::step::unit::Unit;
use crate::plan::step::writer::Writer;
use stepsim_core::ids::OpId;
use stepsim_core::program::ProgramBuilder;

/// Activations that go out for every n-th layer.
pub(super) struct EveryNth {
    every: u64,
    copies: MovedActivations,
}

impl EveryNth {
    pub fn new(every: u64) -> EveryNth {
        EveryNth { every, copies: MovedActivations::default() }
    }
    /// True if a unit's activations go out: layers 0, n, 2n ... of the model, not embedding and head.
    fn goes_out(&self, unit: &Unit) -> bool {
        unit.layer.is_some_and(|layer| u64::from(layer).is_multiple_of(self.every))
    }
}

impl Residency for EveryNth {
    fn begin(&mut self, units: usize) {
        self.copies.begin(units);
    }
    fn resident(&self, w: &Writer<'_, '_>) -> Vec<(u8, f64)> {
        self.copies.resident(w)
    }
    fn begin_step(&mut self, w: &Writer<'_, '_>) {
        self.copies.begin_step(w);
    }
    fn arrive(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        self.copies.arrive(w, b, chain, visit);
    }
    fn leave(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, visit: Visit, end: OpId) {
        if self.goes_out(&w.units[visit.unit as usize]) {
            self.copies.leave(w, b, visit, end);
        }
    }
}

impl Law for EveryNth {
    fn closed_form(&self, given: &PolicyInputs<'_>) -> Result<LinkDemand, CollectiveError> {
        Ok(activations::closed_form(given, |unit| self.goes_out(unit)))
    }
    fn held(&self, given: &PolicyInputs<'_>) -> ClassBytes {
        activations::held(given, |unit| self.goes_out(unit))
    }
    fn tells_layers_apart(&self) -> bool {
        true
    }
}
