//! Layers 0, n, 2n ... are updated on the device, through which their state streams, while the host updates the others
//! (`offload.optimizer_on_device_every`; Deep Optimizer States, Maurya et al., Middleware 2024): device, host and both
//! ways of the link work at once.

use super::super::{Law, LinkDemand, PolicyInputs, Residency};
use super::{ClassBytes, OnHost, StreamedState};
use crate::step::unit::Unit;
use crate::step::writer::Writer;
use stepsim_core::program::ProgramBuilder;
use stepsim_fabric::collective::CollectiveError;

/// State that host and device update in turn.
pub(in super::super) struct InterleavedUpdate {
    every: u64,
    host: OnHost,
}

impl InterleavedUpdate {
    /// The device updates every n-th layer.
    pub fn new(every: u64) -> InterleavedUpdate {
        InterleavedUpdate { every, host: OnHost::default() }
    }
    fn on_device(&self, unit: &Unit) -> bool {
        unit.layer.is_some_and(|layer| u64::from(layer).is_multiple_of(self.every))
    }
}

impl Residency for InterleavedUpdate {
    fn begin(&mut self, units: usize) {
        self.host.begin(units);
    }
    fn resident(&self, w: &Writer<'_, '_>) -> Vec<(u8, f64)> {
        self.host.resident(w)
    }
    fn close(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder) {
        let norm = self.host.begin_updates(w, b);
        for unit in (0..w.units.len()).rev() {
            match self.on_device(&w.units[unit]) {
                true => self.host.stream_unit(w, b, unit),
                false => self.host.update_unit(w, b, unit, &norm),
            }
        }
    }
}

impl Law for InterleavedUpdate {
    /// As the host's. What streams through the device takes the link as long, the other way round.
    fn closed_form(&self, given: &PolicyInputs<'_>) -> Result<LinkDemand, CollectiveError> {
        let mut form = self.host.closed_form(given)?;
        let streamed = StreamedState::default().closed_form(given)?;
        if let (Some(host), Some(device)) = (&mut form.updates, streamed.updates) {
            let stations = host.stations.iter_mut().zip(device.stations).zip(given.units());
            for ((host, [inward, update, outward]), _) in stations.filter(|(_, u)| self.on_device(u.unit)) {
                *host = [outward, update, inward];
            }
        }
        Ok(form)
    }
    fn held(&self, given: &PolicyInputs<'_>) -> ClassBytes {
        self.host.held(given)
    }
    fn tells_layers_apart(&self) -> bool {
        true
    }
}
