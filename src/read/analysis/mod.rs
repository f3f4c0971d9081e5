//! Readers of a record: where the time and the bytes went. None of them changes anything, and none is needed to run.
//!
//! A [`reading`] is one subject in one folder: what it sums (`mod.rs`), and its section, table, chart and comparison
//! (`reading.rs`); the [`registry`] names each in a line. Facts of a [`run`] that several need are found once.
//!
//! * [`cause`]: what each op waited for last (its stream, another op, a peer, a full tier).
//! * [`stalls`]: every gap of a compute stream, cut into pieces with a cause each ([`stall_cause`]); the books
//!   balance exactly.
//! * [`overlap`]: communication by kind: under kernels, exposed, or neither.
//! * [`gaps`]: how long compute streams stand still at a stretch.
//! * [`prefetch`]: how far ahead copies to the device were issued, and should have been.
//! * [`memory`]: level curves of the tiers by class, peaks and what is resident then.
//! * [`critical`]: the chain of binding waits from the end of the step back to its start.
//! * [`waterfall`]: from the peak to MFU, bar by bar; [`kernel_classes`]: kernels by class, with their rates.
//! * [`cost`]: dollars and energy of a step.
//! * [`slack`]: how much later each op could end without moving the step.
//! * [`links`]: bytes through every resource; [`link_rates`]: over time; [`stretches`]: in equal parts of the step.
//! * [`slow_ranks`]: whose kernels take longer than the device needs.
//! * [`candidates`]: what could be otherwise and the step then (who plays it is `study::otherwise`); [`answer`]: what
//!   every screen, page and file says of a step.
//! * [`idle`]: how long communication takes on an idle machine; [`kind`]: what an op is for.
//! * [`samples`]: how step times spread over many seeds, and who was on the critical path how often.
//! * [`layers`]: ops by layer and kind.
//! * [`report`]: all of it as one serialisable value; [`table`] shows it to people, [`digest`] on one screen;
//!   [`diff`] compares two.
//!
//! Hazard: in a folded world a communicator has the members of the folded communicator, and a rank may be a member
//! through two slots. All readers go through [`cause::Causes`] for that.

pub mod answer;
pub mod candidates;
pub mod cause;
pub mod cells;
pub mod cost;
pub mod critical;
pub mod diff;
pub mod digest;
pub mod dynamic_context;
pub mod gaps;
pub mod head;
pub mod idle;
pub mod kernel_classes;
pub mod kind;
pub mod layers;
pub mod lines;
pub mod link_rates;
pub mod links;
pub mod memory;
pub mod overlap;
pub mod prefetch;
pub mod reading;
pub mod registry;
pub mod report;
pub mod run;
pub mod samples;
pub mod sharing;
pub mod shown;
pub mod slack;
pub mod slow_ranks;
pub mod stages;
pub mod stall_cause;
pub mod stalls;
pub mod stretches;
pub mod table;
pub mod turns;
pub mod waterfall;
