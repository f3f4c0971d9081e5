//! An order walked with the times of its slots: when each rank has done its last one.
//!
//! A forward pass waits for that of the stage before it, a backward pass (or the gradient of the inputs) for that of the stage
//! behind it; messages take no time.

use super::{Order, Pass, Seat, Slot};

/// How long a rank takes for a slot, from its start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotTime {
    /// Until the rank goes on to its next slot.
    pub busy: f64,
    /// Until the next stage has the results.
    pub forward: f64,
    /// Until the stage before has the gradients.
    pub backward: f64,
    /// How long it runs before it needs its gradients.
    pub grace: f64,
}

impl SlotTime {
    /// All at the end of the slot.
    pub fn whole(seconds: f64) -> SlotTime {
        SlotTime { busy: seconds, forward: seconds, backward: seconds, grace: 0.0 }
    }
}

impl Order {
    /// Seconds from the start of the step to the last end of each rank; `time` is how long a rank takes for a slot. `None`
    /// if the order does not end.
    pub fn walk(&self, time: &dyn Fn(u32, &Slot) -> SlotTime) -> Option<Vec<f64>> {
        let stages = self.placement.path(0).len();
        let at = |stage: usize, micro_batch: u32| stage * self.micro_batches as usize + micro_batch as usize;
        let mut made = [vec![None; stages * self.micro_batches as usize], Vec::new()];
        made[1] = made[0].clone();
        let mut ends = vec![0.0_f64; self.ranks.len()];
        let mut next = vec![0; self.ranks.len()];
        loop {
            let before: usize = next.iter().sum();
            for (rank, slots) in self.ranks.iter().enumerate() {
                while let Some(slot) = slots.get(next[rank]) {
                    let stage =
                        |chunk| self.placement.stage(Seat { rank: rank as u32, chunk }).stage as usize;
                    let time = time(rank as u32, slot);
                    let ready = slot.parts().try_fold(ends[rank], |latest: f64, part| {
                        let stage = stage(part.chunk);
                        let input = match part.pass {
                            Pass::Forward if stage > 0 => made[0][at(stage - 1, part.micro_batch)]?,
                            Pass::Backward | Pass::InputGrad if stage + 1 < stages => {
                                made[1][at(stage + 1, part.micro_batch)]? - time.grace
                            }
                            _ => 0.0,
                        };
                        Some(latest.max(input))
                    });
                    let Some(ready) = ready else { break };
                    ends[rank] = ready + time.busy;
                    for part in slot.parts() {
                        let (data, after) = match part.pass {
                            Pass::Forward => (0, time.forward),
                            Pass::Backward | Pass::InputGrad => (1, time.backward),
                            Pass::WeightGrad => continue,
                        };
                        made[data][at(stage(part.chunk), part.micro_batch)] = Some(ready + after);
                    }
                    next[rank] += 1;
                }
            }
            if next.iter().zip(&self.ranks).all(|(next, slots)| *next == slots.len()) {
                return Some(ends);
            }
            if next.iter().sum::<usize>() == before {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SlotTime;
    use crate::core::units::Time;
    use crate::step::schedule::{ALL, PassTimes, Shape, Slot};

    /// Where theory has a bubble, walking the order leaves it to the rank that has most to do.
    #[test]
    fn walked_orders_have_the_bubbles_of_theory() {
        let t = PassTimes::new(Time::from_s(1.0), Time::from_s(1.0), Time::from_s(1.0), 1.0);
        let mut compared = 0;
        for schedule in ALL {
            let facts = schedule.facts();
            let shape = Shape::new(4, 16);
            let (Ok(order), Some(bubble)) = (schedule.order(&shape), schedule.bubble(&shape, &t)) else {
                continue;
            };
            let parts = order.placement.parts();
            let time = |_: u32, slot: &Slot| t.of(slot, parts).s();
            let ends =
                order.walk(&|r, s| SlotTime::whole(time(r, s))).unwrap_or_else(|| panic!("{}", facts.name));
            let last = ends.iter().copied().fold(0.0, f64::max);
            let busy = order.ranks.iter().enumerate();
            let busy = busy.map(|(r, slots)| slots.iter().map(|s| time(r as u32, s)).sum::<f64>());
            let idle = last - busy.fold(0.0, f64::max);
            if let Some(want) = bubble.idle {
                assert!((idle - want.s()).abs() < 1e-6, "{}: {idle} for {}", facts.name, want.s());
                compared += 1;
            }
        }
        assert!(compared >= 6, "{compared}");
    }
}
