//! Activations of some layers live on tiers, all others stay: every n-th (`offload.activations_every_layers`), or all
//! that keep much (`offload.activations_at_least_bytes`). Less to copy where a link is slow and a part has room.

use super::activations::{self, MovedActivations};
use super::{ClassBytes, Law, LinkDemand, PolicyInputs, Residency};
use crate::step::chain::{Chain, Visit};
use crate::step::unit::Unit;
use crate::step::writer::Writer;
use stepsim_core::ids::OpId;
use stepsim_core::program::ProgramBuilder;
use stepsim_fabric::collective::CollectiveError;
use stepsim_spec::workload::OffloadSpec;

/// Activations that go out for some layers.
pub(super) struct SomeLayers {
    every: u64,
    at_least_bytes: u64,
    copies: MovedActivations,
}

impl SomeLayers {
    /// The policy, where a workload asks for it.
    pub fn of(offload: &OffloadSpec) -> Option<SomeLayers> {
        let (every, least) = (offload.activations_every_layers, offload.activations_at_least_bytes);
        (every.is_some() || least.is_some()).then(|| SomeLayers {
            every: every.unwrap_or(1),
            at_least_bytes: least.unwrap_or(0),
            copies: MovedActivations::default(),
        })
    }
    /// True if a unit's activations go out: large ones of layers 0, n, 2n ... of the model, not embedding and head.
    fn goes_out(&self, unit: &Unit) -> bool {
        let counted = unit.layer.is_some_and(|layer| u64::from(layer).is_multiple_of(self.every));
        counted && unit.kept_bytes >= self.at_least_bytes
    }
}

impl Residency for SomeLayers {
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

impl Law for SomeLayers {
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
