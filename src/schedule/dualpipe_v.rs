//! DualPipeV: DualPipe cut in half: one direction, two chunks per rank in a V, no second copy of the parameters.
//!
//! The eight steps of DualPipe on p ranks with 2p stages, m ≥ 2p. Bubble (p−1)(t(F&B) + tB − 3tW)/2, exact for
//! tF = tI = tW and t(F&B) = tF + tB; peak 2p+1 chunks. Sources: deepseek-ai/DualPipe; torch `ScheduleDualPipeV`.

use super::dualpipe::{Ends, bubble, eight_steps};
use super::{
    BackwardSplit, Bubble, ChunkCount, Order, PassTimes, Schedule, ScheduleError, ScheduleFacts, Shape,
    StagePlacement, Turns,
};

/// See the module.
pub(super) struct DualPipeV;

impl Schedule for DualPipeV {
    fn facts(&self) -> ScheduleFacts {
        ScheduleFacts {
            aliases: &["dualpipev"],
            chunks: ChunkCount::Exactly(2),
            backward: BackwardSplit::Both,
            batched: false,
            pairs: true,
            needs: "at least twice as many micro-batches as stages",
            ..ScheduleFacts::new("dualpipe-v", "DualPipe folded into a V, parameters once")
        }
    }
    fn order(&self, shape: &Shape) -> Result<Order, ScheduleError> {
        let (p, m, _) = shape.checked(self)?;
        if m < 2 * p {
            let problem = format!("{m} micro-batches are too few for {p} stages");
            let remedy = format!("{} or more would run, or up to {} stages", 2 * p, m / 2);
            return Err(ScheduleError::new(self, problem, remedy));
        }
        let rank = |r: u32| eight_steps(&Ends { r, h: p, overlapped: m - 2 * p + r + 1 }, [0, 1], [0, 0]);
        Ok(Order {
            placement: StagePlacement::v_shape(p),
            micro_batches: m,
            ranks: (0..p).map(rank).collect(),
        })
    }
    fn turns(&self, shape: &Shape) -> Option<Turns> {
        // At the turn the first pair of passes runs apart.
        Some(Turns { from: 2 * shape.ranks + 1, every: 1 })
    }
    fn bubble(&self, shape: &Shape, times: &PassTimes) -> Option<Bubble> {
        bubble(shape.ranks, 2, times)
    }
    fn peak(&self, shape: &Shape) -> Option<Vec<u32>> {
        Some(vec![2 * shape.ranks + 1; shape.ranks as usize])
    }
}
