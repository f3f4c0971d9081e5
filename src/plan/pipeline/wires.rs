//! The transfers of an order: what each stage makes, and the channels that carry it.

use super::Channel;
use stepsim_schedule::{Data, Order, Seat, StageAt, StagePlacement};

/// The channels met so far; each is met on two ranks.
pub(super) struct Channels {
    pub(super) list: Vec<Channel>,
    /// Per (wire, lane) its place in the list, or `u32::MAX`.
    pub(super) known: Vec<u32>,
}

impl Channels {
    pub(super) fn index_of(&mut self, key: usize, channel: Channel) -> u32 {
        if self.known[key] == u32::MAX {
            self.known[key] = self.list.len() as u32;
            self.list.push(channel);
        }
        self.known[key]
    }
}

/// The outputs of each stage, in its order.
pub(super) struct Wires {
    stages: usize,
    micro_batches: usize,
    /// `made[wire]`: the micro-batches in the order in which the producer makes them.
    pub(super) made: Vec<Vec<u32>>,
    /// `place[wire · m + micro-batch]`: where in `made` it stands.
    place: Vec<u32>,
}

impl Wires {
    pub(super) fn new(order: &Order) -> Wires {
        let stages = order.placement.all_stages() as usize;
        let (micro_batches, wires) =
            (order.micro_batches as usize, 2 * stages * order.placement.directions() as usize);
        let mut w = Wires {
            stages,
            micro_batches,
            made: vec![Vec::new(); wires],
            place: vec![0; wires * micro_batches],
        };
        for (rank, slots) in order.ranks.iter().enumerate() {
            for part in slots.iter().flat_map(|s| s.parts()) {
                let Some(data) = part.pass.makes() else { continue };
                let at = order.placement.stage(Seat { rank: rank as u32, chunk: part.chunk });
                let to = order.placement.consumer_of(at, data, part.micro_batch);
                if to.is_none() && order.placement.is_side(at) {
                    continue;
                }
                let wire = w.between(&order.placement, at, to, data);
                w.place[wire * micro_batches + part.micro_batch as usize] = w.made[wire].len() as u32;
                w.made[wire].push(part.micro_batch);
            }
        }
        w
    }
    /// The wire from a stage to another: it belongs to the stage that makes the data, or to the side that takes them.
    pub(super) fn between(
        &self,
        placement: &StagePlacement,
        from: StageAt,
        to: Option<StageAt>,
        data: Data,
    ) -> usize {
        self.wire(to.filter(|to| placement.is_side(*to)).unwrap_or(from), data)
    }
    fn wire(&self, at: StageAt, data: Data) -> usize {
        2 * (usize::from(at.direction) * self.stages + at.stage as usize) + data as usize
    }
    pub(super) fn place(&self, wire: usize, micro_batch: u32) -> usize {
        self.place[wire * self.micro_batches + micro_batch as usize] as usize
    }
}
