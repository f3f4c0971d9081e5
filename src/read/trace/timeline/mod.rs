//! The timeline of a run: which process, row, slice, arrow and counter stands for what in the record.
//!
//! * A **process** per rank (`pid` = rank + 1), named by the caller, in the order of the ranks. Before them a process
//!   `step` whose one slice spans the step, is named by what the step hangs on, and carries the run's parameters as
//!   arguments, because viewers drop what else a file says about itself. After them, if link use was recorded, a
//!   process `links`, and for tiers that ranks share a process `pools`, and for the
//!   numbers of ranks that do each thing a process `all ranks`. A format may put all rows into one process
//!   ([`Sink::is_one_process`]): a rank's first row then has its name, and the others its number.
//! * A **row** per kind of stream, in the order of [`StreamKind`](stepsim_core::program::StreamKind), with the stalls
//!   below the kernels; rows that nobody waits for stand last. Streams of one kind share rows: an op goes to the first
//!   row that is free. Two passes that are taken in turn have a row each. Names of rows begin with the rank, because a
//!   row that is pinned loses its process.
//! * **Slices** in three levels on the rows of kernels, each with a category: `pass` (`m17 fwd`), `layer` (`layer 3`),
//!   `compute` (`qkv`, or what of a layer or pass nothing interrupts: [`Detail`]). Elsewhere a slice per op, or per
//!   run of ops; its category is the row's kind. Where a format has slices on a process itself, passes stand there
//!   once more (`summary`), so that ranks that are folded away show them. Perfetto colours by the name without its
//!   digits, so passes and collectives differ in words; transfers between stages have the colour of their micro-batch
//!   where a format can say so.
//! * An **arrow** from what an op waited for to the op: the send of a receive, the collective that held up a kernel,
//!   the prefetch that it uses, the kernel that a send had to wait for. Stalls lie between: one arrow from what held
//!   the rank up, here or on another rank, to the kernel that then could start, one from the stall to it. Stalls that
//!   follow each other with no kernel between lie in a slice (`stalls`) named after the causes of most of it, which is
//!   wide enough to be read.
//! * The **critical path** as one row below the step: the ranks that it stays on, in them the passes, and in those
//!   its ops, without gaps; a launch on its way and a wait for room are slices too, so that all of them together are
//!   the step.
//! * **Counters** for the bytes that a rank holds on each tier, by class and in total; only those that move. In
//!   percent of what there is, on one axis: FLOP/s, memory bandwidth, the busiest link, device memory.
//! * **Transfers beside kernels** (gradients, what is fetched ahead) say when they were issued and needed, how late
//!   they were and how long kernels hid them.
//!
//! Coarser detail merges slices, steps of the critical path and values of counters, and leaves out arrows that would
//! leave from the middle of a merged slice: they say no more than the stall's name.
//!
//! Times are nanoseconds, start and end rounded each for itself: slices that touch still touch, none overlap. An op
//! that is empty then has no slice ([`TimelineSummary::too_short`] counts them).

mod arrows;
pub mod beside;
pub mod counters;
mod critical;
mod keys;
pub(super) mod kineto;
mod layout;
pub mod names;
pub mod passes;
mod places;
pub mod rows;
mod shares;
pub mod shown;
mod size;
mod slices;
mod stalls;

use crate::trace::writer::Sink;

use layout::TimelineLayout;
pub use names::op as op_name;
pub use shown::{
    BusiestLink, Capacities, CounterTrack, Critical, Detail, LinkCounter, MetaValue, Pool, RunMeta,
    StallSlice, Timeline, TimelineError, TimelineSummary, TracedRank,
};
pub use size::{EASY, FITS_IN_JSON, FITS_IN_PERFETTO};

impl Timeline<'_> {
    /// About how many slices it would come to, without writing any.
    pub fn slices(&self) -> u64 {
        size::slices(self)
    }

    /// No fewer than it would come to at this detail and coarser ones, without looking at times.
    pub fn most_slices(&self) -> u64 {
        size::most(self)
    }

    /// Writes the timeline. Memory does not grow with the number of ranks.
    ///
    /// # Errors
    /// If a rank does not exist, is named twice or is given times that are not its own; if the window is empty; if
    /// the sink cannot write.
    pub fn write(&self, sink: &mut dyn Sink) -> Result<TimelineSummary, TimelineError> {
        self.check()?;
        sink.begin(&self.meta.values())?;
        let mut layout = TimelineLayout::new(self, sink)?;
        layout.step()?;
        let mut arrows = arrows::between_ranks(self);
        let held_up = stalls::between_ranks(self, &mut arrows);
        let on_path = critical::ops_by_rank(self);
        layout.next_arrow += arrows.count;
        layout.summary.arrows += arrows.count;
        for (place, (traced, on_path)) in self.ranks.iter().zip(on_path).enumerate() {
            layout.rank(traced, &arrows.ends[place], &held_up[place], on_path)?;
        }
        layout.links()?;
        layout.pools()?;
        layout.all_ranks()?;
        layout.sink.finish()?;
        Ok(layout.summary)
    }
}
