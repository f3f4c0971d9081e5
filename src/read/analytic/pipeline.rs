//! Bubble and transfers between stages.

use super::form::{Form, RankTimes};
use super::pass_time::{PassTime, UnitTime};
use crate::core::units::Time;
use crate::step::moe::overlap::{Layer, paired};
use crate::step::plan::step::PlanError;
use crate::step::schedule::{Choice, Order, Part, Pass, PassTimes, Slot, SlotTime};
use crate::step::spec::workload::{ExpertOverlap, PointToPoint};

impl Form<'_> {
    /// The schedule's bubble for the mean of the ranks other than the busiest; for fill-and-drain schedules that is
    /// what those ranks' passes add, for uneven stages too.
    ///
    /// # Errors
    /// The order of all micro-batches is walked, and there is none.
    pub fn bubble(&self) -> Result<f64, PlanError> {
        let others = self.ranks.len() - 1;
        if others == 0 {
            return Ok(0.0);
        }
        let busiest = self.busiest;
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
        let pipeline = &self.workload().parallelism.pipeline;
        let theory = match pipeline.choice() {
            // Theory has chunks alike.
            _ if self.order.placement.parts() > 1 && !self.even => None,
            Choice::Named(schedule) => schedule.expected_bubble(&pipeline.shape(self.micro_batches), &times),
            Choice::File => None,
        };
        let theory = theory.and_then(|bubble| bubble.idle.or(bubble.own)).map(Time::s);
        let drained = || drain / f64::from(self.order.placement.parts());
        Ok(match theory {
            Some(seconds) => seconds,
            None => self.walked(busiest)?.unwrap_or_else(drained),
        })
    }

    /// How much longer the order takes than the slots of a rank, where it is walked with the times of all slots.
    fn walked(&self, rank: usize) -> Result<Option<f64>, PlanError> {
        let order = self.whole_order()?;
        let known: Vec<_> = (0..order.ranks.len()).map(|rank| self.kinds_of_slots(&order, rank)).collect();
        let time = |rank: u32, slot: &Slot| {
            let slot = alike(slot);
            let same = known[rank as usize].iter().find(|k| k.0 == slot);
            same.map_or(SlotTime::whole(0.0), |(_, _, (time, _))| *time)
        };
        let Some(ends) = order.walk(&time) else { return Ok(None) };
        let last = ends.into_iter().fold(0.0, f64::max);
        let busy: f64 = known[rank].iter().map(|(_, slots, (time, _))| f64::from(*slots) * time.busy).sum();
        Ok(Some((last - busy).max(0.0)))
    }
    /// Exposed exchanges of all slots of a rank.
    ///
    /// # Errors
    /// There is no order of all micro-batches.
    pub fn exposed_of(&self, rank: usize) -> Result<f64, PlanError> {
        let known = self.kinds_of_slots(&*self.whole_order()?, rank);
        Ok(known.iter().map(|(_, slots, (_, exposed))| f64::from(*slots) * exposed).sum())
    }
    /// The slots of a rank that differ in more than their micro-batches: how many there are, their times, and what their
    /// exchanges expose.
    fn kinds_of_slots(&self, order: &Order, rank: usize) -> Vec<(Slot, u32, (SlotTime, f64))> {
        let mut known: Vec<(Slot, u32, (SlotTime, f64))> = Vec::new();
        for slot in order.ranks[rank].iter().map(alike) {
            match known.iter_mut().find(|k| k.0 == slot) {
                Some((_, slots, _)) => *slots += 1,
                None => known.push((slot, 1, self.slot(rank as u32, &slot))),
            }
        }
        known
    }

    /// Times of a slot, and what its exchanges expose: of paired passes what no kernel of either covers; the last layer's
    /// results arrive beside the kernels of the slot behind.
    fn slot(&self, rank: u32, slot: &Slot) -> (SlotTime, f64) {
        let units = |part: Part| &self.ranks[rank as usize].chunks[usize::from(part.chunk)];
        let of = |part: Part| {
            let mut all = PassTime::default();
            for unit in units(part) {
                let passes: &[PassTime] = match part.pass {
                    Pass::Forward => &[unit.forward],
                    Pass::Backward => &[unit.recompute, self.gradients(unit)],
                    Pass::InputGrad => &[unit.recompute, unit.input_grad],
                    Pass::WeightGrad => &[unit.weight_grad],
                };
                passes.iter().for_each(|pass| all += *pass);
            }
            all
        };
        match *slot {
            Slot::Single(part) => {
                let all = of(part);
                (SlotTime::whole(all.total()), all.expert)
            }
            Slot::Overlapped { forward, backward } => {
                let layer = |unit: &UnitTime, kernels: f64| match unit.cells {
                    0 => Layer::Kernels(kernels),
                    _ => Layer::Cell(unit.cell),
                };
                let forwards: Vec<Layer> =
                    units(forward).iter().map(|unit| layer(unit, unit.forward.total())).collect();
                let kernels = |unit: &UnitTime| unit.recompute.total() + self.gradients(unit).total();
                let backwards: Vec<Layer> =
                    units(backward).iter().rev().map(|unit| layer(unit, kernels(unit))).collect();
                let fused = self.workload().expert.overlap == ExpertOverlap::MicroBatchesFusedGradients;
                let span = paired(&forwards, &backwards, fused);
                let (f, b) = (of(forward), of(backward));
                let busy = f.total() + b.total() - f.expert - b.expert + span.exposed;
                // Gaps that no cell has.
                let others = busy - span.kernels;
                // The first layer's attention runs before gradients go to the experts.
                let grace = match (forwards.first(), backwards.first()) {
                    (Some(Layer::Cell(f)), Some(Layer::Cell(b))) => (f.attn - b.combine_back).max(0.0),
                    _ => 0.0,
                };
                let (forward, backward) = (others + span.forward, others + span.backward);
                (SlotTime { busy, forward, backward, grace }, span.exposed)
            }
        }
    }

    /// How many messages of c seconds between stages are on the critical path. Blocking sends stall their rank by each of them. Asynchronous ones follow
    /// the latency laws: 2(p − 1)c for a fill and a drain; 1F1B pays c·(2(p − 1)m/p + 2(p − 2)), as each of its
    /// steady-state transfers is on the critical path; v chunks make 2(pv − 1)c. Batched ones wait for each other:
    /// 1F1B with them pays what 1F1B pays anyway, v chunks an exchange between any two of the mv + w units of the first
    /// rank, of which w are its warm-up.
    pub fn hops(&self) -> f64 {
        let pipeline = &self.workload().parallelism.pipeline;
        let (p, m) = (pipeline.size as f64, f64::from(self.micro_batches));
        let v = f64::from(self.order.placement.parts());
        let batched = pipeline.p2p == PointToPoint::Batched && v > 1.0;
        match pipeline.choice() {
            _ if p == 1.0 => 0.0,
            _ if pipeline.p2p == PointToPoint::Blocking => 2.0 * (m * v + p - 1.0),
            _ if batched => {
                let group = pipeline.group_size.map_or(p, |g| g as f64);
                let warm_up = (2.0 * (p - 1.0) + (v - 1.0) * group).min(m * v);
                m * v + warm_up - 1.0
            }
            Choice::Named(schedule) => schedule.transfers(&pipeline.shape(self.micro_batches)),
            Choice::File => 2.0 * (p * v - 1.0),
        }
    }
}

/// A slot without its micro-batches: those that take the same time are one.
fn alike(slot: &Slot) -> Slot {
    let first = |part: Part| Part { micro_batch: 0, ..part };
    match *slot {
        Slot::Single(part) => Slot::Single(first(part)),
        Slot::Overlapped { forward, backward } => {
            Slot::Overlapped { forward: first(forward), backward: first(backward) }
        }
    }
}
