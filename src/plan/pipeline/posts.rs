//! When hosts post the receives that need not wait for a pass of their own rank.
//!
//! A host launches one op after the other and stops where a queue is full: a receive that stands in its list behind
//! the passes of a whole chunk is not there when its sender comes. Frameworks post it where ranks in lock step would
//! send the message. torch's schedules of several stages go through the lists of all ranks by time step, and a rank
//! receives in the step in which a neighbour makes the data (`torch/distributed/pipelining/schedules.py`,
//! `PipelineScheduleMulti._step_microbatches`). Megatron's first stage receives what the last one made (ranks − 1)
//! passes ago (`megatron/core/pipeline_parallel/schedules.py`, `recv_tensor_from_previous_stage`). The lock step is
//! played here, every pass in one unit of time.
//!
//! No full queue stops such ranks for good, however short it is. All lists are in the order of one run that came to
//! its end; of what has not begun, the op that began first in that run has nothing before it in its rank's list that
//! waits, so it is launched.

use super::abstract_work::lock_step;
use super::programs::Posts;
use super::{Receive, Sends};
use stepsim_core::engine;
use stepsim_core::ids::RankId;
use stepsim_schedule::Order;

impl Posts {
    /// Those of an order. Where sends do not hold passes up, or where every receive waits for a pass of its own rank,
    /// there are none. A host that `blocks` holds every pass up until its message is there, on whatever stream it is.
    pub fn of(order: &Order, sends: Sends, blocks: bool) -> Posts {
        let sends = if blocks && sends == Sends::Asynchronous { Sends::Blocking } else { sends };
        let early = |receive: &Receive| match sends {
            Sends::Asynchronous => false,
            Sends::Blocking => true,
            Sends::Batched => receive.comes_round,
        };
        if sends == Sends::Asynchronous || (sends == Sends::Batched && !order.alternates()) {
            return Posts::default();
        }
        let played = lock_step(order, sends);
        // An order that comes to a standstill is refused by whoever asks for it.
        let Ok(record) = engine::run(&played.world) else { return Posts::default() };
        let by_rank = (0..).zip(&played.slot_ops).zip(played.receives).map(|((rank, slot_ops), receives)| {
            let begins = |op| record.span(RankId(rank), op).0;
            let place =
                |receive: Receive| (slot_ops.partition_point(|op| begins(*op) < begins(receive.op)), receive);
            let mut posts: Vec<_> = receives.into_iter().filter(early).map(place).collect();
            posts.sort_by_key(|(slot, _)| *slot);
            posts
        });
        Posts(by_rank.collect())
    }
}
