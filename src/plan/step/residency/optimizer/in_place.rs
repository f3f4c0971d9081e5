//! State that is all on the device: one update over all that the rank updates, pass by pass of the stack.

use super::super::{ClassBytes, Law, LinkDemand, PolicyInputs, Residency, StateShares, free, take};
use super::{newest_per_stream, take_moments};
use crate::launch::HostWait;
use crate::step::groups::Group;
use crate::step::residency::away::spread;
use crate::step::writer::Writer;
use stepsim_core::ids::OpId;
use stepsim_core::program::{MemoryClass, NO_MICRO_BATCH, Phase, ProgramBuilder};
use stepsim_fabric::collective::{CollectiveError, Op};
use stepsim_price::model::optimizer;
use stepsim_schedule::sharding::Exchange;
use stepsim_spec::stack::{HostRead, UpdatePass};
use stepsim_spec::workload::Dtype;

/// Everything on the device.
pub(in super::super) struct InPlace;

impl Residency for InPlace {
    fn begin(&mut self, _units: usize) {}
    fn resident(&self, w: &Writer<'_, '_>) -> Vec<(u8, f64)> {
        spread(super::resident_bytes(w), &[])
    }
    fn close(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder) {
        let waits: Vec<OpId> = w.reduced.iter().flatten().copied().collect();
        let waits = newest_per_stream(b, waits);
        let share = w.updated_parameters(0..w.units.len());
        if let Some(updated) = update_all(w, b, share, waits) {
            take_moments(w, b, updated, 0, share);
            w.fresh.iter_mut().for_each(|f| f.push(updated));
        }
    }
}

impl Law for InPlace {
    fn closed_form(&self, _given: &PolicyInputs<'_>) -> Result<LinkDemand, CollectiveError> {
        Ok(LinkDemand::default())
    }
    fn held(&self, given: &PolicyInputs<'_>) -> ClassBytes {
        let updated = given.shares.updated(given.units().map(|u| u.unit));
        ClassBytes { update: scratch(given.shares, updated) as f64, ..super::held(given) }
    }
}

/// Scratch bytes during the update of this number of parameters.
fn scratch(shares: &StateShares<'_>, parameters: u64) -> u64 {
    let workload = shares.workload;
    let spec = &workload.stack().optimizer;
    optimizer::Update::scratch(spec, workload.optimizer.kind, parameters, &shares.bytes)
}

/// All passes of the stack over what this rank updates; returns the update itself.
fn update_all(
    w: &mut Writer<'_, '_>,
    b: &mut ProgramBuilder,
    parameters: u64,
    mut waits: Vec<OpId>,
) -> Option<OpId> {
    let workload = w.setup.shares.workload;
    let matrices = w.setup.shares.matrices(w.units.iter());
    let kernels = optimizer::Update {
        matrices: &matrices,
        compute: workload.precision.compute,
        spec: &workload.stack().optimizer,
        kind: workload.optimizer.kind,
        parameters,
        held: w.setup.shares.gradients_kept(w.units.iter()),
        state: w.setup.shares.bytes,
        clips: workload.optimizer.clip_gradients,
        scales_loss: workload.precision.compute == Dtype::Fp16,
    }
    .kernels();
    let scratch = scratch(&w.setup.shares, parameters);
    let mut updated: Option<OpId> = None;
    for (i, (pass, kernel, launches)) in kernels.iter().enumerate() {
        let last_of_pass = kernels.get(i + 1).is_none_or(|(next, ..)| next != pass);
        for launch in 1..=*launches {
            let op = w.kernel(b, kernel, Phase::Optimizer, None, &waits);
            waits.clear();
            if *pass == UpdatePass::Update {
                if updated.is_none() {
                    take(b, op, MemoryClass::Workspace, 0, scratch);
                }
                updated = Some(op);
            }
            if *pass == UpdatePass::Norm && last_of_pass && launch == *launches {
                waits.extend(sum_norm(w, b, &[op]));
            }
        }
    }
    if let Some(last) = updated {
        free(b, last, MemoryClass::Workspace, 0, scratch);
    }
    let norms =
        workload.stack().optimizer.passes.contains(&UpdatePass::Norm) && workload.optimizer.clip_gradients;
    if norms && parameters == 0 {
        // A rank that updates nothing takes part in the sum of those that do.
        sum_norm(w, b, &waits);
    }
    updated
}

/// Sums the norm over the ranks that hold other shards, and over those that hold other weights unless the schedule
/// does not wait for them.
pub(super) fn sum_norm(w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, norm: &[OpId]) -> Vec<OpId> {
    let workload = w.setup.shares.workload;
    let mut last = norm.to_vec();
    let cut = workload.sharding().cuts_optimizer();
    let groups = [
        (Group::Dense(Exchange::Sum), cut),
        (Group::Dense(Exchange::SumAcross), cut),
        (Group::Model, !w.setup.updates_unasked),
    ];
    for (group, summed) in groups {
        let what = ("all-reduce gradient norm", Phase::Optimizer, None);
        if summed {
            let op = w.communicate(b, group, Op::AllReduce, 4, what, &last, NO_MICRO_BATCH);
            last = op.map_or(last, |op| vec![op]);
        }
    }
    if let [summed] = last[..] {
        w.host_reads(HostWait::at_once(HostRead::GradientNorm, summed));
    }
    last
}
