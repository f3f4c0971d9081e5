//! V-Half: two chunks per rank in a V, split backward passes, and half the activations of 1F1B.
//!
//! Forward passes go down the V at half speed, so that activations of the first chunk wait less for their gradients. Source: Qi
//! et al. 2024 (arXiv 2405.15362), table 2 and appendix; [`building_block`] makes the order.

use super::{
    Backward, Bubble, Chunks, Facts, Order, PassTimes, Placement, Schedule, ScheduleError, Shape, Turns,
    building_block,
};

/// See the module.
pub(super) struct VHalf;

impl Schedule for VHalf {
    fn facts(&self) -> Facts {
        Facts {
            aliases: &["vhalf"],
            chunks: Chunks::Exactly(2),
            backward: Backward::Split,
            batched: false,
            prompt: false,
            ..Facts::new("v-half", "two chunks per rank in a V, half the activations of 1F1B")
        }
    }
    fn order(&self, shape: &Shape) -> Result<Order, ScheduleError> {
        let (p, m, _) = shape.checked(self)?;
        let ranks = building_block::order(p, m, |rank| block(p, rank));
        Ok(Order { placement: Placement::v_shape(p), micro_batches: m, ranks })
    }
    fn turns(&self, shape: &Shape) -> Option<Turns> {
        Some(Turns { from: 3 * shape.ranks + 1, every: 1 })
    }
    fn bubble(&self, _: &Shape, _: &PassTimes) -> Option<Bubble> {
        None
    }
    /// No rank holds more than p + 2 chunks (p + 1 where p is odd) in a long step, some hold less.
    fn peak(&self, _: &Shape) -> Option<Vec<u32>> {
        None
    }
}

/// When a rank runs the four passes of the first micro-batch.
fn block(p: u32, rank: u32) -> [u32; 4] {
    // Without them passes of an even number of ranks would meet in one unit.
    let wait = if p.is_multiple_of(2) { 3 } else { 0 };
    [2 * rank, 3 * p - 2 - rank, 3 * p - 1 + wait + 2 * rank, 6 * p - 2 + wait - rank]
}
