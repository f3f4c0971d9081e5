//! Optimizer state, and the way from reduced gradients to new weights.
//!
//! A run of several steps begins without moments: the first update takes their memory.

mod in_place;
mod interleaved;
mod on_host;
mod streamed;

pub(super) use in_place::InPlace;
pub(super) use interleaved::InterleavedUpdate;
pub(super) use on_host::OnHost;
pub(super) use streamed::StreamedState;

use super::copies::Cargo;
use super::{ClassBytes, PolicyInputs, take};
use crate::step::residency::away::fraction_away;
use crate::step::writer::Writer;
use stepsim_core::ids::OpId;
use stepsim_core::program::{MemoryClass, NO_MICRO_BATCH, Phase, ProgramBuilder};

/// Bytes of state that are there before the first op.
fn resident_bytes(w: &Writer<'_, '_>) -> f64 {
    let shares = &w.setup.shares;
    let state = shares.state(w.units.iter()).optimizer;
    if w.setup.steps > 1 {
        // Moments appear with the first update.
        state * shares.bytes.master / shares.bytes.optimizer().max(f64::MIN_POSITIVE)
    } else {
        state
    }
}

/// Moments that appear with the first update of a run, with `op` on one tier.
fn take_moments(w: &Writer<'_, '_>, b: &mut ProgramBuilder, op: OpId, tier: u8, parameters: u64) {
    if w.setup.steps > 1 && w.step == 0 {
        let bytes = (parameters as f64 * w.setup.shares.bytes.moments).round() as u64;
        take(b, op, MemoryClass::Optimizer, tier, bytes);
    }
}

fn cargo(w: &Writer<'_, '_>, unit: usize, class: MemoryClass, name: &'static str, bytes: f64) -> Cargo {
    Cargo {
        class,
        bytes: bytes.round() as u64,
        name,
        phase: Phase::Optimizer,
        layer: w.units[unit].layer,
        micro_batch: NO_MICRO_BATCH,
    }
}

/// Of several ops, the last of each stream: it ends after the others of its stream.
fn newest_per_stream(b: &ProgramBuilder, ops: Vec<OpId>) -> Vec<OpId> {
    let mut newest: Vec<(u16, OpId)> = Vec::new();
    for op in ops {
        let stream = b.stream_of(op);
        match newest.iter_mut().find(|(s, _)| *s == stream) {
            Some((_, known)) => *known = (*known).max(op),
            None => newest.push((stream, op)),
        }
    }
    newest.into_iter().map(|(_, op)| op).collect()
}

/// Closed form: the state that stays on the device.
fn held(given: &PolicyInputs<'_>) -> ClassBytes {
    let here = 1.0 - fraction_away(&given.shares.placed.optimizer);
    ClassBytes { stays: given.state().optimizer * here, ..ClassBytes::default() }
}
