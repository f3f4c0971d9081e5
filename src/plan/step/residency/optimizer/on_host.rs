//! Update on the host (ZeRO-Offload, Ren et al. 2021): the gradient goes out, the update reads and writes the memory
//! that holds the state (which all devices of a host share) as fast as its threads can (`stack.optimizer.host`), the
//! new weights come back. Units follow in the order of their gradients; where the stack clips by the norm, behind all
//! of them.
//! A share of the state that stays on the device is updated there beside it.

use super::super::copies::Cargo;
use super::super::{ClassBytes, Law, LinkDemand, PolicyInputs, Residency, UnitTimes, Updates, free, take};
use super::in_place::sum_norm;
use super::{StreamedState, cargo, newest_per_stream, take_moments};
use crate::step::groups::Group;
use crate::step::residency::away::{Away, fraction_away, spread};
use crate::step::writer::Writer;
use stepsim_core::ids::OpId;
use stepsim_core::program::{MemoryClass, NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, Work};
use stepsim_core::units::Time;
use stepsim_fabric::collective::{CollectiveError, Op};
use stepsim_spec::stack::UpdatePass;
use stepsim_spec::workload::WorkloadSpec;

/// State that the host updates where it is.
#[derive(Default)]
pub(in super::super) struct OnHost {
    /// By unit: the op that brought its state home.
    written: Vec<Option<OpId>>,
    /// The part that is updated on the device.
    rest: StreamedState,
}

impl Residency for OnHost {
    fn begin(&mut self, units: usize) {
        self.written = vec![None; units];
        self.rest.begin(units);
    }
    fn resident(&self, w: &Writer<'_, '_>) -> Vec<(u8, f64)> {
        spread(super::resident_bytes(w), &w.setup.shares.placed.optimizer)
    }
    fn close(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder) {
        let norm = self.begin_updates(w, b);
        // As gradients are reduced: from the last unit on.
        (0..w.units.len()).rev().for_each(|unit| self.update_unit(w, b, unit, &norm));
    }
}

impl OnHost {
    /// All passes are over; returns the ops behind which the host may update.
    pub(super) fn begin_updates(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder) -> Vec<OpId> {
        self.rest.begin_updates(w, b);
        norm_of_all(w, b)
    }
    /// The update of a unit where its state lives: on the host, and a share on the device.
    pub(super) fn update_unit(
        &mut self,
        w: &mut Writer<'_, '_>,
        b: &mut ProgramBuilder,
        unit: usize,
        norm: &[OpId],
    ) {
        let share = w.updated_parameters(unit..unit + 1);
        if share == 0 {
            return;
        }
        let mut on_device = share;
        for away in &w.setup.shares.placed.optimizer {
            let part = away.of(share);
            on_device = on_device.saturating_sub(part);
            self.update(w, b, (unit, part), away, norm);
        }
        self.rest.update(w, b, unit, on_device, &[]);
    }
    /// The update of a unit on the device, through which its state streams.
    pub(super) fn stream_unit(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, unit: usize) {
        let share = w.updated_parameters(unit..unit + 1);
        self.rest.update(w, b, unit, share, &w.setup.shares.placed.optimizer);
    }
    /// The update of `share` parameters of a unit on the host that holds their state.
    fn update(
        &mut self,
        w: &mut Writer<'_, '_>,
        b: &mut ProgramBuilder,
        (unit, share): (usize, u64),
        away: &Away,
        norm: &[OpId],
    ) {
        let bytes = w.setup.shares.bytes;
        let placed = &w.setup.shares.placed;
        let layer = w.units[unit].layer;
        let near = away.near();
        let mut waits = w.reduced[unit].clone();
        // The part of the gradient that is not there yet.
        let there: f64 = placed.gradients.iter().filter(|a| a.tier == near).map(|a| a.fraction).sum();
        let missing = (1.0 - there).max(0.0) * share as f64 * bytes.gradients;
        let direct = Away { tier: near, via: Vec::new(), fraction: 1.0 };
        let load = cargo(w, unit, MemoryClass::Gradients, "offload gradients", missing);
        let sent = w.send(b, &direct, load, &w.reduced[unit].clone(), 0, true);
        let gradients = if sent.is_some() { load.bytes } else { 0 };
        waits.extend(sent);
        let state = share as f64 * bytes.optimizer();
        let load = cargo(w, unit, MemoryClass::Optimizer, "prefetch optimizer state", state);
        let gates: Vec<OpId> = self.written[unit].into_iter().collect();
        waits.extend(w.stage_in(b, away, load, &gates));
        waits.extend(norm);
        let waits = newest_per_stream(b, waits);
        let (moved, beyond) = w.setup.shares.host_update(share as f64, near);
        let moved = moved.round() as u64;
        let what = ("optimizer step (host)", Phase::Optimizer, layer);
        let Some(updated) =
            w.communicate(b, Group::HostUpdate(near), Op::SendRecv, moved, what, &waits, NO_MICRO_BATCH)
        else {
            return;
        };
        let updated = w.compute_on_host(b, near, layer, beyond, updated);
        free(b, updated, MemoryClass::Gradients, near, gradients);
        if away.via.is_empty() {
            take_moments(w, b, updated, near, share);
        }
        self.written[unit] = Some(stage_out(w, b, away, load, updated));
        // Weights that live with the state are updated in place; all others come back to the device.
        let here: f64 = placed.weights.iter().filter(|a| a.tier == near).map(|a| a.fraction).sum();
        let back = share as f64 * bytes.weights * (1.0 - here).max(0.0);
        let load = cargo(w, unit, MemoryClass::Weights, "fetch updated weights", back);
        let fetched = w.copy(b, Group::CopyIn(near), load, &[updated]);
        w.fresh[unit].extend(fetched.or(Some(updated)));
    }
}

impl Writer<'_, '_> {
    /// The seconds of an update beyond its traffic; returns the op after which it is done.
    fn compute_on_host(
        &mut self,
        b: &mut ProgramBuilder,
        tier: u8,
        layer: Option<u32>,
        seconds: f64,
        behind: OpId,
    ) -> OpId {
        let time = Time::from_s(seconds);
        let Some(slot) = self.slot(Group::HostUpdate(tier)).filter(|_| time > Time::ZERO) else {
            return behind;
        };
        let info = OpInfo { layer, ..OpInfo::of("optimizer step (host)", Phase::Optimizer, 0.0) };
        let info = b.info(info);
        b.op(self.streams[usize::from(slot)], Work::Compute { time }, &[behind], info, NO_MICRO_BATCH)
    }
}

/// The ops behind which the norm of all gradients is known, where the stack clips by it: nothing is updated before.
fn norm_of_all(w: &mut Writer<'_, '_>, b: &mut ProgramBuilder) -> Vec<OpId> {
    if !waits_for_norm(w.setup.shares.workload) {
        return Vec::new();
    }
    let reduced = w.reduced.iter().flatten().copied().collect();
    let reduced = newest_per_stream(b, reduced);
    sum_norm(w, b, &reduced)
}

fn waits_for_norm(workload: &WorkloadSpec) -> bool {
    workload.optimizer.clip_gradients && workload.stack().optimizer.passes.contains(&UpdatePass::Norm)
}

/// The way back of what `stage_in` brought next to the device; returns the op after which it is home.
fn stage_out(
    w: &mut Writer<'_, '_>,
    b: &mut ProgramBuilder,
    away: &Away,
    cargo: Cargo,
    updated: OpId,
) -> OpId {
    let mut last = updated;
    let cargo = Cargo { name: "write back optimizer state", ..cargo };
    for (i, (to, from)) in away.hops().into_iter().rev().enumerate() {
        let Some(op) = w.copy(b, Group::TierOut(from, to), cargo, &[last]) else { continue };
        let home = i + 1 == away.via.len();
        if !home {
            take(b, op, cargo.class, to, cargo.bytes);
        }
        free(b, op, cargo.class, from, cargo.bytes);
        if home {
            let parameters = (cargo.bytes as f64 / w.setup.shares.bytes.optimizer()).round() as u64;
            take_moments(w, b, op, to, parameters);
        }
        last = op;
    }
    last
}

impl Law for OnHost {
    /// Gradients out, the update, weights back: a unit's behind the one before it.
    fn closed_form(&self, given: &PolicyInputs<'_>) -> Result<LinkDemand, CollectiveError> {
        let (shares, placed) = (given.shares, &given.shares.placed);
        let here = (1.0 - fraction_away(&placed.weights)).max(0.0);
        let there = (1.0 - fraction_away(&placed.gradients)).max(0.0);
        let of_unit = |u: &UnitTimes<'_>| {
            let updated = shares.updated(std::iter::once(u.unit)) as f64;
            let [_, out, _] = given.copies(&placed.optimizer, updated * shares.bytes.gradients * there);
            let of_tier = |away: &Away| {
                let (moved, beyond) = shares.host_update(updated * away.fraction, away.near());
                given.links.copy(away.near(), moved)[2] + beyond
            };
            let update = placed.optimizer.iter().map(of_tier).sum();
            let [back, ..] = given.copies(&placed.optimizer, updated * shares.bytes.weights * here);
            [out, update, back]
        };
        let stations = given.units().map(of_unit).collect();
        Ok(LinkDemand {
            updates: Some(Updates {
                stations,
                queues: [1, 0],
                ahead: None,
                together: waits_for_norm(shares.workload),
            }),
            ..LinkDemand::default()
        })
    }
    fn held(&self, given: &PolicyInputs<'_>) -> ClassBytes {
        super::held(given)
    }
}
