//! State that lives on other tiers, updated on the device: it streams through, unit by unit: fetch state and
//! gradient, update, write state and weights back. How far ahead state is fetched is the prefetch depth, counted in
//! updates where it counts layers, and never earlier than the last pass has ended.

use super::super::{ClassBytes, Law, LinkDemand, PolicyInputs, Residency, UnitTimes, Updates, free, take};
use super::{cargo, newest_per_stream, take_moments};
use crate::step::residency::away::{Away, fraction_away, spread};
use crate::step::writer::Writer;
use stepsim_core::ids::OpId;
use stepsim_core::program::{MemoryClass, Phase, ProgramBuilder};
use stepsim_fabric::collective::CollectiveError;
use stepsim_price::model::optimizer;
use stepsim_spec::workload::PrefetchUnit;

/// State that streams through the device.
#[derive(Default)]
pub(in super::super) struct StreamedState {
    /// By unit: the op that wrote its state back.
    written: Vec<Option<OpId>>,
    /// The last pass, then the updates of the step, each with the bytes of state that were fetched for it.
    updates: Vec<(OpId, u64)>,
}

impl Residency for StreamedState {
    fn begin(&mut self, units: usize) {
        self.written = vec![None; units];
    }
    fn resident(&self, w: &Writer<'_, '_>) -> Vec<(u8, f64)> {
        spread(super::resident_bytes(w), &w.setup.shares.placed.optimizer)
    }
    fn close(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder) {
        self.begin_updates(w, b);
        for unit in 0..w.units.len() {
            let share = w.updated_parameters(unit..unit + 1);
            self.update(w, b, unit, share, &w.setup.shares.placed.optimizer);
        }
    }
}

impl StreamedState {
    /// All passes are over.
    pub(super) fn begin_updates(&mut self, w: &Writer<'_, '_>, b: &ProgramBuilder) {
        self.updates = b.recent(w.compute, 1).map(|last| (last, 0)).into_iter().collect();
    }

    /// The op behind which `bytes` of state may be fetched.
    fn gate(&self, w: &Writer<'_, '_>, b: &ProgramBuilder, bytes: u64) -> Option<OpId> {
        let steps = self.updates.len();
        let gate = w.gate(b, steps, |back| self.updates[steps - back], bytes);
        gate.max(self.updates.first().map(|first| first.0))
    }

    /// The update of `share` parameters of a unit on the device; `state` that lives on other tiers streams through.
    pub(super) fn update(
        &mut self,
        w: &mut Writer<'_, '_>,
        b: &mut ProgramBuilder,
        unit: usize,
        share: u64,
        state: &[Away],
    ) {
        if share == 0 {
            return;
        }
        let bytes = w.setup.shares.bytes;
        let first = w.setup.steps > 1 && w.step == 0;
        let read = if first { bytes.master } else { bytes.optimizer() };
        let placed = &w.setup.shares.placed;
        let fetched = (share as f64 * fraction_away(state) * read).round() as u64;
        let gate = self.gate(w, b, fetched);
        let mut waits = w.reduced[unit].clone();
        // The device buffers of the state: all of it, also where moments are only written.
        let mut buffers = 0;
        for away in state {
            let part = share as f64 * away.fraction;
            let load = cargo(w, unit, MemoryClass::Optimizer, "prefetch optimizer state", part * read);
            let gates: Vec<OpId> = gate.into_iter().chain(self.written[unit]).collect();
            if let Some(op) = w.fetch(b, away, load, &gates, false) {
                waits.push(op);
                buffers += load.bytes;
            }
        }
        let mut gradients = 0;
        for away in &placed.gradients {
            let part = share as f64 * away.fraction;
            let load = cargo(w, unit, MemoryClass::Gradients, "prefetch gradients", part * bytes.gradients);
            let gates: Vec<OpId> = gate.iter().chain(&w.reduced[unit]).copied().collect();
            if let Some(op) = w.fetch(b, away, load, &gates, false) {
                waits.push(op);
                gradients += load.bytes;
            }
        }
        let waits = newest_per_stream(b, waits);
        let kernel = optimizer::step(share, &bytes);
        let updated = w.kernel(b, &kernel, Phase::Optimizer, w.units[unit].layer, &waits);
        self.updates.push((updated, fetched));
        free(b, updated, MemoryClass::Gradients, 0, gradients);
        let written: Vec<u64> =
            state.iter().map(|a| (share as f64 * a.fraction * bytes.optimizer()).round() as u64).collect();
        take(b, updated, MemoryClass::Optimizer, 0, written.iter().sum::<u64>().saturating_sub(buffers));
        let here = (share as f64 * (1.0 - fraction_away(&placed.optimizer)).max(0.0)).round() as u64;
        take_moments(w, b, updated, 0, if state.is_empty() { share } else { here });
        let new_weights: Vec<u64> = placed
            .weights
            .iter()
            .map(|a| (share as f64 * a.fraction * bytes.weights).round() as u64)
            .collect();
        take(b, updated, MemoryClass::Weights, 0, new_weights.iter().sum());
        w.fresh[unit].push(updated);
        for (away, bytes) in state.iter().zip(written) {
            let name = "write back optimizer state";
            let load = cargo(w, unit, MemoryClass::Optimizer, name, bytes as f64);
            let op = w.send(b, away, load, &[updated], bytes, false);
            if let Some(op) = op {
                take_moments(w, b, op, away.tier, (share as f64 * away.fraction).round() as u64);
            }
            self.written[unit] = op.or(self.written[unit]);
        }
        for (away, bytes) in placed.weights.iter().zip(new_weights) {
            let load = cargo(w, unit, MemoryClass::Weights, "write back weights", bytes as f64);
            let op = w.send(b, away, load, &[updated], bytes, false);
            w.fresh[unit].extend(op);
        }
    }
}

impl Law for StreamedState {
    /// State and gradients in, the update, state and weights out: a unit's behind the one before it.
    fn closed_form(&self, given: &PolicyInputs<'_>) -> Result<LinkDemand, CollectiveError> {
        let (shares, placed) = (given.shares, &given.shares.placed);
        let of_unit = |u: &UnitTimes<'_>| {
            let updated = shares.updated(std::iter::once(u.unit)) as f64;
            let [gradients_in, ..] = given.copies(&placed.gradients, updated * shares.bytes.gradients);
            let [state_in, state_out, _] =
                given.copies(&placed.optimizer, updated * shares.bytes.optimizer());
            let [_, weights_out, _] = given.copies(&placed.weights, updated * shares.bytes.weights);
            [state_in + gradients_in, 0.0, state_out + weights_out]
        };
        let stations = given.units().map(of_unit).collect();
        let prefetch = shares.workload.offload.prefetch;
        let ahead = match prefetch.unit {
            PrefetchUnit::Layers | PrefetchUnit::Ops => usize::try_from(prefetch.depth).unwrap_or(usize::MAX),
            PrefetchUnit::Bytes => {
                let units = given.units().count().max(1) as f64;
                let each = given.state().optimizer * fraction_away(&placed.optimizer) / units;
                (prefetch.depth as f64 / each.max(1.0)) as usize
            }
        };
        Ok(LinkDemand {
            updates: Some(Updates { stations, queues: [0, 1], ahead: Some(ahead), together: false }),
            ..LinkDemand::default()
        })
    }
    fn held(&self, given: &PolicyInputs<'_>) -> ClassBytes {
        super::held(given)
    }
}
