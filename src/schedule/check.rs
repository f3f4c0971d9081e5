//! Checks that an order can run: each pass once, causes first, no deadlock.

use std::collections::VecDeque;

use super::fault::{Deadlock, OrderFault, Wait};
use super::{Data, Order, Pass, Seat, Slot, SlotPass, StageAt};

impl Order {
    /// Checks that every micro-batch passes every stage forwards and backwards exactly once, that weight gradients
    /// come after their input gradients, and that the ranks' orders together can run to their end.
    ///
    /// # Errors
    /// The first fault found.
    pub fn check(&self) -> Result<(), OrderFault> {
        for rank in 0..self.placement.ranks() {
            self.check_rank(rank)?;
        }
        self.topological().map(|_| ()).map_err(OrderFault::Deadlock)
    }

    fn check_rank(&self, rank: u32) -> Result<(), OrderFault> {
        let (m, chunks) = (self.micro_batches, self.placement.chunks(rank));
        // Per (chunk, micro-batch): bit 1 forward, 2 input gradient, 4 weight gradient.
        let mut seen = vec![0u8; m as usize * chunks as usize];
        for (index, part) in
            self.ranks[rank as usize].iter().enumerate().flat_map(|(i, s)| s.parts().map(move |p| (i, p)))
        {
            let fault = |what: String| Err(OrderFault::Slot { rank, index, part, what });
            if part.chunk >= chunks {
                return fault(format!("the rank has {chunks} chunk(s), numbered from 0"));
            }
            let direction = self.placement.stage(Seat { rank, chunk: part.chunk }).direction;
            let first = u32::from(direction) * self.per_direction();
            if !(first..first + self.per_direction()).contains(&part.micro_batch) {
                let last = first + self.per_direction() - 1;
                return fault(format!("micro-batches {first} to {last} pass this chunk"));
            }
            let (bits, needs) = match part.pass {
                Pass::Forward => (1, 0),
                Pass::Backward => (6, 1),
                Pass::InputGrad => (2, 1),
                Pass::WeightGrad => (4, 3),
            };
            let entry = &mut seen[part.chunk as usize * m as usize + part.micro_batch as usize];
            if *entry & bits != 0 {
                return fault("this pass has been done already".to_owned());
            }
            if *entry & needs != needs {
                let before = if part.pass == Pass::WeightGrad { "input gradient" } else { "forward pass" };
                return fault(format!("its {before} must come before it"));
            }
            *entry |= bits;
        }
        for chunk in 0..chunks {
            let direction = self.placement.stage(Seat { rank, chunk }).direction;
            let first = u32::from(direction) * self.per_direction();
            for micro_batch in first..first + self.per_direction() {
                let missing = match seen[chunk as usize * m as usize + micro_batch as usize] {
                    7 => continue,
                    0 => Pass::Forward,
                    1 => Pass::Backward,
                    _ => Pass::WeightGrad,
                };
                return Err(OrderFault::Missing {
                    rank,
                    part: SlotPass { pass: missing, chunk, micro_batch },
                });
            }
        }
        Ok(())
    }

    /// All slots as (rank, index in the rank's list) so that each comes after all it needs.
    ///
    /// # Errors
    /// If the ranks wait for each other in a cycle.
    pub fn topological(&self) -> Result<Vec<(u32, u32)>, Deadlock> {
        let mut progress = Progress::new(self);
        let mut sequence = Vec::with_capacity(self.ranks.iter().map(Vec::len).sum());
        let mut woken: VecDeque<u32> = (0..self.placement.ranks()).collect();
        while let Some(rank) = woken.pop_front() {
            let slots = &self.ranks[rank as usize];
            while let Some(slot) = slots.get(progress.cursor[rank as usize]) {
                if slot.parts().any(|part| progress.blocker(rank, part).is_some()) {
                    break;
                }
                sequence.push((rank, progress.cursor[rank as usize] as u32));
                progress.cursor[rank as usize] += 1;
                slot.parts().for_each(|part| progress.finish(rank, part, &mut woken));
            }
        }
        match (0..self.placement.ranks())
            .find(|&r| progress.cursor[r as usize] < self.ranks[r as usize].len())
        {
            None => Ok(sequence),
            Some(stuck) => Err(progress.cycle_from(stuck)),
        }
    }
}

/// How far a walk through an order has come.
struct Progress<'a> {
    order: &'a Order,
    cursor: Vec<usize>,
    /// Per (stage of a direction, micro-batch): bit 1 activations, bit 2 gradients.
    made: Vec<u8>,
}

impl<'a> Progress<'a> {
    fn new(order: &'a Order) -> Self {
        let stages = order.placement.stages() as usize * order.placement.directions() as usize;
        let made = vec![0; stages * order.micro_batches as usize];
        Progress { order, cursor: vec![0; order.ranks.len()], made }
    }
    fn entry(&mut self, at: StageAt, micro_batch: u32) -> &mut u8 {
        let stage = usize::from(at.direction) * self.order.placement.stages() as usize + at.stage as usize;
        &mut self.made[stage * self.order.micro_batches as usize + micro_batch as usize]
    }
    /// The seat and data that `part` still waits for.
    fn blocker(&mut self, rank: u32, part: SlotPass) -> Option<(Seat, Data)> {
        let placement = &self.order.placement;
        let at = placement.stage(Seat { rank, chunk: part.chunk });
        // A weight gradient is local: `check` sees to its input gradient.
        let (source, data) = placement.source(at, part.pass.makes()?)?;
        let bit = 1 << data as u8;
        (*self.entry(source, part.micro_batch) & bit == 0).then(|| (placement.seat(source), data))
    }
    fn finish(&mut self, rank: u32, part: SlotPass, woken: &mut VecDeque<u32>) {
        let Some(data) = part.pass.makes() else { return };
        let placement = &self.order.placement;
        let at = placement.stage(Seat { rank, chunk: part.chunk });
        *self.entry(at, part.micro_batch) |= 1 << data as u8;
        if let Some(consumer) = placement.consumer(at, data) {
            woken.push_back(placement.seat(consumer).rank);
        }
    }
    /// Follows "waits for" from a stuck rank until a rank comes up again.
    fn cycle_from(mut self, mut rank: u32) -> Deadlock {
        let mut seen: Vec<Wait> = Vec::new();
        loop {
            if let Some(first) = seen.iter().position(|w| w.rank == rank) {
                return Deadlock { cycle: seen.split_off(first) };
            }
            let slot = self.order.ranks[rank as usize][self.cursor[rank as usize]];
            let (part, (seat, data)) = slot
                .parts()
                .find_map(|p| Some((p, self.blocker(rank, p)?)))
                .expect("a stuck rank waits for something");
            let producer = &self.order.ranks[seat.rank as usize];
            let makes = |s: &Slot| {
                s.parts().find(|p| {
                    p.micro_batch == part.micro_batch && p.chunk == seat.chunk && p.pass.makes() == Some(data)
                })
            };
            let made_by = producer.iter().find_map(makes);
            seen.push(Wait { rank, at: slot, for_rank: seat.rank, for_part: made_by });
            if made_by.is_none() {
                return Deadlock { cycle: seen.split_off(seen.len() - 1) };
            }
            rank = seat.rank;
        }
    }
}
