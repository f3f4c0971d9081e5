//! Bubble and transfers between stages.

use super::{Form, RankTimes};
use crate::collective::Op;
use crate::model::CommGroup;
use crate::plan::step::PlanError;
use crate::plan::step::groups::Group;
use crate::schedule::{Choice, PassTimes};
use crate::spec::workload::PointToPoint;
use crate::units::Time;

impl Form<'_> {
    /// The schedule's bubble for the mean of the ranks other than the busiest; for fill-and-drain schedules that is
    /// what those ranks' passes add, for uneven stages too.
    pub(super) fn bubble(&self) -> f64 {
        let others = self.ranks.len() - 1;
        if others == 0 {
            return 0.0;
        }
        let busiest = self.busiest();
        let directions = f64::from(self.order.placement.directions());
        let mean = |part: &dyn Fn(&RankTimes) -> f64| {
            let rest = self.ranks.iter().enumerate().filter(|(r, _)| *r != busiest);
            rest.map(|(_, rank)| part(rank)).sum::<f64>() / others as f64 / directions
        };
        let forward = mean(&|rank| rank.sum.forward.total());
        let split = self.splits || self.order.placement.directions() > 1;
        let (input_grad, weight_grad) = if split {
            (
                mean(&|r| r.sum.input_grad.total() + r.sum.recompute.total()),
                mean(&|r| r.sum.weight_grad.total()),
            )
        } else {
            (mean(&|r| r.sum.whole_backward()), 0.0)
        };
        let drain = (forward + input_grad + weight_grad) * others as f64;
        let times =
            PassTimes::new(Time::from_s(forward), Time::from_s(input_grad), Time::from_s(weight_grad), 1.0);
        let pipeline = &self.workload.parallelism.pipeline;
        let theory = match pipeline.choice() {
            Choice::Named(schedule) => {
                schedule.expected_bubble(&pipeline.shape(self.order.micro_batches), &times)
            }
            Choice::File => None,
        };
        let theory = theory.and_then(|bubble| bubble.idle.or(bubble.own));
        theory.map_or(drain / f64::from(self.order.placement.parts()), Time::s)
    }

    /// Transfers of c seconds between stages. Blocking sends stall their rank by each of them. Asynchronous ones follow
    /// the latency laws: 2(p − 1)c for a fill and a drain; 1F1B pays c·(2(p − 1)m/p + 2(p − 2)), as each of its
    /// steady-state transfers is on the critical path; v chunks make 2(pv − 1)c. Batched ones wait for each other:
    /// 1F1B with them pays what 1F1B pays anyway, v chunks an exchange between any two of the mv + w units of the first
    /// rank, of which w are its warm-up.
    pub(super) fn p2p(&self, bytes: f64, gathered: f64) -> Result<f64, PlanError> {
        let pipeline = &self.workload.parallelism.pipeline;
        let (p, m) = (pipeline.size as f64, f64::from(self.order.micro_batches));
        let v = f64::from(self.order.placement.parts());
        if p == 1.0 {
            return Ok(0.0);
        }
        let gather = self.links.time(Group::Layer(CommGroup::Tensor), Op::AllGather, gathered)?;
        let c = self.links.border.time(bytes) + gather;
        let batched = pipeline.p2p == PointToPoint::Batched && v > 1.0;
        let transfers = match pipeline.choice() {
            _ if pipeline.p2p == PointToPoint::Blocking => 2.0 * (m * v + p - 1.0),
            _ if batched => {
                let group = pipeline.group_size.map_or(p, |g| g as f64);
                let warm_up = (2.0 * (p - 1.0) + (v - 1.0) * group).min(m * v);
                m * v + warm_up - 1.0
            }
            Choice::Named(schedule) => schedule.transfers(&pipeline.shape(self.order.micro_batches)),
            Choice::File => 2.0 * (p * v - 1.0),
        };
        Ok(c * transfers)
    }
}
