//! Weights: there all the time, copied in for each visit, gathered from other ranks, or renewed once a step.

mod ahead;
mod budgets;
mod fsdp;
mod gather_time;
mod gathered;
mod renewed;
mod replicated;

pub(super) use budgets::Budgets;
pub(super) use fsdp::Fsdp;
pub(super) use renewed::StepwiseWeights;
pub(super) use replicated::ReplicatedWeights;

use gather_time::gather_time;

use super::copies::Cargo;
use super::{ClassBytes, Gathers, LinkDemand, PolicyInputs, UnitMessages, take};
use crate::step::chain::Visit;
use crate::step::groups::Group;
use crate::step::residency::away::{fraction_away, spread};
use crate::step::residency::law::windows;
use crate::step::unit::Unit;
use crate::step::writer::Writer;
use stepsim_core::ids::OpId;
use stepsim_core::program::{MemoryClass, Phase, ProgramBuilder};
use stepsim_fabric::collective::{CollectiveError, Op};

/// Where this rank's weights, or its shard of them, live.
fn resident(w: &Writer<'_, '_>) -> Vec<(u8, f64)> {
    let shares = &w.setup.shares;
    spread(shares.state(w.units.iter()).weights, &shares.placed.weights)
}

/// A copy of weights for a visit.
fn cargo(w: &Writer<'_, '_>, visit: Visit, name: &'static str, bytes: u64) -> Cargo {
    Cargo::of(w, visit, (MemoryClass::Weights, name), bytes)
}

/// Gathers a part of a unit's weights (or of those that are trained: `of`), 1 for all; `takes` tells whether device
/// memory is taken for them. Returns the ops and the bytes taken.
fn gather(
    w: &mut Writer<'_, '_>,
    b: &mut ProgramBuilder,
    (unit, part): (u32, f64),
    of: fn(&Unit, f64) -> (u64, u64),
    (phase, micro_batch): (Phase, u32),
    waits: &[OpId],
    takes: bool,
) -> (Vec<OpId>, u64) {
    let (dense, expert) = of(&w.units[unit as usize], w.setup.shares.weight_message_bytes);
    let layer = w.units[unit as usize].layer;
    let live = w.setup.shares.live_share(&w.units[unit as usize]);
    let (mut ops, mut taken) = (Vec::new(), 0);
    let [of_dense, of_experts] = w.setup.shares.gather_groups(phase == Phase::Backward);
    for (group, bytes, name) in
        [(of_dense, dense, "all-gather weights"), (of_experts, expert, "all-gather expert weights")]
    {
        let bytes = (bytes as f64 * part).round() as u64;
        let what = (name, phase, layer);
        let pieces =
            w.setup.shares.gathered_in(&w.units[unit as usize], matches!(group, Group::Experts(_)), bytes);
        let mut last = None;
        for piece in 0..pieces {
            let bytes = bytes * (piece + 1) / pieces - bytes * piece / pieces;
            last = w.communicate(b, group, Op::AllGather, bytes, what, waits, micro_batch);
            if let Some(op) = last.filter(|_| takes) {
                let held = (bytes as f64 * live).round() as u64;
                take(b, op, MemoryClass::Weights, 0, held);
                taken += held;
            }
        }
        ops.extend(last);
    }
    (ops, taken)
}

/// Closed form: gathers of each unit before its visits, where they are asked for, and copies in of what one rank
/// holds of it.
fn around(given: &PolicyInputs<'_>, gathers: bool) -> Result<Vec<Vec<UnitMessages>>, CollectiveError> {
    let (shares, o) = (given.shares, &given.shares.workload.offload);
    let reused = if o.reuse_across_micro_batches { 1.0 / given.passes } else { 1.0 };
    given.around(|unit| {
        let (dense, expert) = unit.weight_bytes(shares.bytes.weights);
        let degrees = &shares.degrees;
        let [over, experts_over] = [degrees.dense_of(&unit.plan), &degrees.experts].map(|cuts| cuts.weights);
        let copied = dense as f64 / f64::from(over) + expert as f64 / f64::from(experts_over);
        let [copy_in, ..] = given.copies(&shares.placed.weights, copied * reused);
        let gather = |backward| match gathers {
            true => gather_time(given, unit, unit.weight_bytes(shares.weight_message_bytes), backward),
            false => Ok(0.0),
        };
        Ok(UnitMessages {
            gather: [gather(false)?, gather(true)?],
            copy_in: [copy_in; 2],
            ..UnitMessages::default()
        })
    })
}

/// Closed form: what stays.
fn stays(given: &PolicyInputs<'_>) -> f64 {
    let here = 1.0 - fraction_away(&given.shares.placed.weights);
    given.state().weights * here
}

/// Closed form of gathers before every visit whose weights are not there: `ahead` visits, in forward and backward
/// passes.
fn gathered_for_each_pass(
    given: &PolicyInputs<'_>,
    ahead: [usize; 2],
    across: bool,
) -> Result<LinkDemand, CollectiveError> {
    let keeps = given.shares.workload.parallelism.sharding.reshard_after_forward == Some(false);
    let gathers = Gathers::Each { ahead, across, keeps };
    Ok(LinkDemand { around: around(given, true)?, gathers, ..LinkDemand::default() })
}

/// Closed form of gathered weights: a unit's buffer is there during its visit and those before it that its gather may
/// run beside; without resharding it stays. Gathers do not run ahead from one pass to the next. Shards that live on
/// tiers are walked ([`ahead::during`]): their copies say how far ahead a gather is.
fn held_gathered(given: &PolicyInputs<'_>, gates: [usize; 2]) -> ClassBytes {
    let sharding = &given.shares.workload.parallelism.sharding;
    let all = |u: &Unit| {
        let (dense, expert) = u.weight_bytes(given.shares.weight_message_bytes);
        (dense + expert) as f64
    };
    let buffer = |u: &Unit| all(u) * given.shares.live_share(u);
    if sharding.reshard_after_forward == Some(false) {
        let all = given.units().map(|u| buffer(u.unit)).sum::<f64>();
        return ClassBytes { stays: stays(given) + all, ..ClassBytes::default() };
    }
    if !given.shares.placed.weights.is_empty() {
        return ClassBytes {
            stays: stays(given),
            during: ahead::during(given, gates),
            ..ClassBytes::default()
        };
    }
    let depth = usize::try_from(sharding.prefetch.depth).unwrap_or(usize::MAX);
    let ahead = if depth == 0 { [0; 2] } else { [depth.saturating_add(1), depth] };
    let bytes = given.bytes(buffer);
    let during = bytes.iter().map(|bytes| windows(bytes, ahead, [0; 2])).collect();
    ClassBytes { stays: stays(given), during, ..ClassBytes::default() }
}
