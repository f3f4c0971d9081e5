//! The programs of all ranks of a pipeline, with the receives that hosts post early.

use super::rank::RankBuilder;
use super::wires::{Channels, Wires};
use super::{Pipeline, PipelineOptions, Receive, StageWork};
use stepsim_core::program::ProgramBuilder;
use stepsim_schedule::Order;

/// By rank, the receives to post and the slot before which each stands, in the order of these slots.
#[derive(Debug, Default)]
pub(super) struct Posts(pub(super) Vec<Vec<(usize, Receive)>>);

impl Posts {
    /// Those of a rank.
    pub fn of_rank(&self, rank: u32) -> &[(usize, Receive)] {
        self.0.get(rank as usize).map_or(&[][..], Vec::as_slice)
    }
}

/// Builds the program of every pipeline rank, given what hosts post early.
pub(super) fn with_posts(
    order: &Order,
    options: PipelineOptions,
    posts: &Posts,
    work: &mut dyn StageWork,
) -> Pipeline {
    let wires = Wires::new(order);
    let mut channels =
        Channels { list: Vec::new(), known: vec![u32::MAX; wires.made.len() * options.lanes as usize] };
    let mut pipeline = Pipeline::default();
    for rank in 0..order.placement.ranks() {
        // Ranks of a pipeline do about as much each.
        let last = pipeline.programs.last();
        let room = last.map_or_else(ProgramBuilder::new, |last| ProgramBuilder::with_room_of(last, 0));
        let builder =
            RankBuilder::new(order, &wires, posts.of_rank(rank), options, rank, &mut channels, room);
        let (program, slots, receives) = builder.build(work);
        pipeline.programs.push(program);
        pipeline.slots.push(slots);
        pipeline.receives.push(receives);
    }
    pipeline.channels = channels.list;
    pipeline
}
