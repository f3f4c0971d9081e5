//! What an automatic schedule may know of a step: how long each stage's passes take on an idle machine.

use super::groups::{Degrees, Group};
use super::unit::Unit;
use super::{PlanError, Prices};
use crate::collective::{Lowering, Op, Transfer};
use crate::ids::RankId;
use crate::model::{CommOp, Item};
use crate::plan::schedule::{Pass, PassTimes, Profile};
use crate::spec::workload::WorkloadSpec;
use crate::topology::{Axis, Layout};
use crate::units::Time;

/// Sums kernels and the communication that nothing hides, pass by pass, for pipeline ranks of one stage each.
///
/// # Errors
/// A group is not connected.
pub(super) fn profile(
    workload: &WorkloadSpec,
    stages: &[Vec<Unit>],
    border_bytes: u64,
    degrees: &Degrees,
    layout: &Layout,
    lowering: &Lowering<'_>,
    prices: &dyn Prices,
) -> Result<Profile, PlanError> {
    let policy = &workload.recompute;
    let first_of = |stage: usize| {
        let mut coordinates = [0; 5];
        coordinates[Axis::Pp as usize] = stage as u32;
        layout.rank(coordinates)
    };
    let alone = |ranks: &[RankId], op: Op, bytes: u64| -> Result<Time, PlanError> {
        let devices: Vec<_> = ranks.iter().map(|r| layout.device(*r)).collect();
        Ok(Time::from_s(lowering.explain(&Transfer { op, bytes }, &devices)?.1.expected_s))
    };
    let mut times = Vec::new();
    let mut members = Vec::new();
    for (stage, units) in stages.iter().enumerate() {
        let mut of_pass = |pass: Pass| -> Result<Time, PlanError> {
            let repeated = |u: &Unit| if pass == Pass::InputGrad { u.repeated(policy) } else { Vec::new() };
            let mut sum = Time::ZERO;
            for item in units.iter().flat_map(|u| [repeated(u), u.items(pass).to_vec()].concat()) {
                match item {
                    Item::Kernel(kernel) => sum += prices.time(&kernel),
                    Item::Comm(point) => {
                        degrees.members(layout, first_of(stage), Group::Layer(point.group), &mut members);
                        if members.len() > 1 && point.hidden_behind == 0 {
                            sum += alone(&members, op_of(point.op), point.bytes)?;
                        }
                    }
                }
            }
            Ok(sum)
        };
        let [forward, input_grad, weight_grad] =
            [of_pass(Pass::Forward)?, of_pass(Pass::InputGrad)?, of_pass(Pass::WeightGrad)?];
        times.push(PassTimes::new(forward, input_grad, weight_grad, 1.0));
    }
    let message = match stages.len() {
        1 => Time::ZERO,
        _ => alone(&[first_of(0), first_of(1)], Op::SendRecv, border_bytes)?,
    };
    // The stage whose weight gradients hold the largest share bounds them all.
    let share = |units: &Vec<Unit>| {
        let held: u64 = units.iter().map(|u| u.plan.weight_grad_bytes).sum();
        let all: u64 = units.iter().map(|u| u.kept_bytes(policy).max(u.plan.weight_grad_bytes)).sum();
        held as f64 / all.max(1) as f64
    };
    let kept = stages.iter().map(share).fold(0.0, f64::max);
    let limit = workload.parallelism.pipeline.activation_limit.map(|n| n as f64);
    Ok(Profile { ranks: times, message, limit, kept })
}

/// The collective of a layer's communication.
pub(super) fn op_of(op: CommOp) -> Op {
    match op {
        CommOp::AllGather => Op::AllGather,
        CommOp::ReduceScatter => Op::ReduceScatter,
        CommOp::AllReduce => Op::AllReduce,
        CommOp::AllToAll => Op::AllToAll,
        CommOp::SendRecv => Op::RingShift,
    }
}
