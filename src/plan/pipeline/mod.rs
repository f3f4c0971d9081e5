//! An order of passes becomes one program per pipeline rank: the same code for abstract and for real steps.
//!
//! A [`StageWork`] says what one pass of one micro-batch through one chunk does on a rank; this module puts the
//! transfers around it. The data of one border between stages in one direction (activations into stage s, gradients
//! into stage s) is a **channel**: a communicator of the sending and the receiving rank, with a stream of its own on
//! both. Sends and receives of a channel stand in the producer's order on both sides, so that messages cannot
//! mismatch, whatever the consumer's order. Receives are posted ahead (`posts` says where a host does); a pass waits
//! for the receive it needs, and no pass waits for its send. A border inside a rank (the turn of a V) needs no
//! transfer.
//!
//! Hazards:
//! * A channel carries one message at a time. Where transfers may last longer than the time between two messages and
//!   must not queue, give the channels more lanes: messages then go round-robin over parallel communicators.
//! * With [`Sends::Blocking`] a send holds the compute stream until the transfer ends.

mod abstract_work;
mod posts;
mod programs;
mod rank;
mod reads;
mod standstill;
mod wires;
mod work;

pub use abstract_work::{AbstractPipeline, abstract_world, abstract_world_over};
pub use reads::reads_before;
pub use standstill::standstill;
pub use work::{Channel, Message, Pipeline, PipelineOptions, Receive, Sends, StageWork, Task, phase};

use programs::{Posts, with_posts};
use stepsim_schedule::Order;

/// Builds the program of every pipeline rank.
///
/// `order` must have passed [`Order::check`] (those of the named schedules always do).
pub fn programs(order: &Order, options: PipelineOptions, work: &mut dyn StageWork) -> Pipeline {
    let posts = match options.launched {
        true => Posts::of(order, options.sends, options.blocks),
        false => Posts::default(),
    };
    with_posts(order, options, &posts, work)
}
