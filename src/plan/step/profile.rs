//! The step as an automatic schedule knows it: how long each stage's passes take on an idle machine.

use super::groups::{Degrees, Group};
use super::unit::Unit;
use super::{PlanError, PriceList};
use stepsim_core::ids::RankId;
use stepsim_core::units::Time;
use stepsim_fabric::collective::{Lowering, Op, Transfer};
use stepsim_fabric::topology::{Axis, Layout, Machine};
use stepsim_price::model::{CommOp, CommPoint, Item};
use stepsim_schedule::{Pass, PassProfile, PassTimes, StagePlacement};
use stepsim_spec::workload::WorkloadSpec;

/// The facts that the times of passes depend on.
pub(super) struct ProfileContext<'a, 'm> {
    pub workload: &'a WorkloadSpec,
    pub machine: &'a Machine,
    pub degrees: &'a Degrees,
    pub layout: &'a Layout,
    pub lowering: &'a Lowering<'m>,
    pub prices: &'a dyn PriceList,
}

impl ProfileContext<'_, '_> {
    /// Sums kernels and the communication that nothing hides, pass by pass, over the stages that each pipeline rank
    /// holds of one direction.
    ///
    /// # Errors
    /// A group is not connected.
    pub(super) fn profile(
        &self,
        placement: &StagePlacement,
        stages: &[Vec<Unit>],
        border_bytes: u64,
    ) -> Result<PassProfile, PlanError> {
        let mut ranks =
            vec![PassTimes::new(Time::ZERO, Time::ZERO, Time::ZERO, 1.0); placement.ranks() as usize];
        for seat in placement.path(0) {
            let units = &stages[placement.stage(*seat).stage as usize];
            let [forward, input_grad, weight_grad] = [Pass::Forward, Pass::InputGrad, Pass::WeightGrad]
                .map(|pass| self.time(units, pass, self.first_of(seat.rank)));
            let of = &mut ranks[seat.rank as usize];
            *of = PassTimes::new(
                of.forward + forward?,
                of.input_grad + input_grad?,
                of.weight_grad + weight_grad?,
                1.0,
            );
        }
        let message = match ranks.len() {
            1 => Time::ZERO,
            _ => {
                self.alone(&[self.first_of(0), self.first_of(1)], &Transfer::new(Op::SendRecv, border_bytes))?
            }
        };
        // The stage whose weight gradients hold the largest share bounds them all.
        let share = |units: &Vec<Unit>| {
            let held: u64 = units.iter().map(|u| u.plan.weight_grad_bytes).sum();
            let all: u64 = units.iter().map(|u| u.kept_bytes.max(u.plan.weight_grad_bytes)).sum();
            held as f64 / all.max(1) as f64
        };
        let kept = stages.iter().map(share).fold(0.0, f64::max);
        let limit = self.workload.parallelism.pipeline.activation_limit.map(|n| n as f64);
        Ok(PassProfile { ranks, message, limit, kept })
    }

    /// The first rank of a pipeline rank.
    fn first_of(&self, pipeline_rank: u32) -> RankId {
        let mut coordinates = [0; 5];
        coordinates[Axis::Pp as usize] = pipeline_rank;
        self.layout.rank(coordinates)
    }

    /// A collective on an idle machine.
    fn alone(&self, ranks: &[RankId], transfer: &Transfer) -> Result<Time, PlanError> {
        let devices: Vec<_> = ranks.iter().map(|r| self.layout.device(*r)).collect();
        Ok(Time::from_s(self.lowering.explain(transfer, &devices)?.1.expected_s))
    }

    /// One pass through a stage.
    fn time(&self, units: &[Unit], pass: Pass, rank: RankId) -> Result<Time, PlanError> {
        let repeated = |u: &Unit| if pass == Pass::InputGrad { u.repeated() } else { Vec::new() };
        let prices = self.prices.on(self.machine.device_class(self.layout.device(rank)));
        let (mut sum, mut members) = (Time::ZERO, Vec::new());
        for item in units.iter().flat_map(|u| [repeated(u), u.items(pass).to_vec()].concat()) {
            match item {
                Item::Kernel(kernel) => sum += prices.time(&kernel),
                Item::Comm(point) => {
                    self.degrees.members(self.layout, rank, Group::Layer(point.group), &mut members);
                    if members.len() > 1 && point.hidden_behind == 0 {
                        sum += self.alone(&members, &transfer_of(&point))?;
                    }
                }
            }
        }
        Ok(sum)
    }
}

/// The transfer at a communication point.
pub fn transfer_of(point: &CommPoint) -> Transfer {
    Transfer { op: op_of(point.op), bytes: point.bytes, staged: point.staged }
}

/// The collective of a layer's communication.
fn op_of(op: CommOp) -> Op {
    match op {
        CommOp::AllGather => Op::AllGather,
        CommOp::ReduceScatter => Op::ReduceScatter,
        CommOp::AllReduce => Op::AllReduce,
        CommOp::AllToAll => Op::AllToAll,
        CommOp::SendRecv => Op::RingShift,
        CommOp::ExpertExchange => Op::ExpertExchange,
    }
}
