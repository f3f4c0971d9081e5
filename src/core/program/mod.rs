//! Rank programs, and the world they run in: everything that the engine knows.
//!
//! A **program** is what one rank does: a few in-order streams of ops. An op may wait for other ops of the same rank
//! (an event, as in CUDA), and may allocate and free bytes on memory tiers. Ranks with the same role share one
//! program; a rank adds only its **bindings**: which communicator each slot of the program means, and which tier.
//!
//! A **communicator** is an ordered group of ranks. Communication ops are matched by their order within the
//! communicator, as NCCL does; the n-th starts when its last member arrives. A local copy is a communicator of one
//! member whose path is the copy's route; a point-to-point channel has two members.
//!
//! An **action** is the work of a communication op once it starts: a latency, then work (bytes) over a set of
//! resources at a max–min fair rate, in one phase or in many. The same transfer can be another action on a
//! communicator of another geometry: communicators of one geometry share a **profile**.
//!
//! Hazards:
//! * Two communicators of one pair of ranks must see their ops in the same order on both sides, or the ops mismatch.
//! * Resource coefficients are whole numbers on purpose: sums of them are exact in any order, and that is what
//!   makes a folded run equal to the unfolded one to the last bit (see `fold`).
//! * The engine never reads labels and infos: they are for readers of the record.
//! * Programs of one shape differ in times, slowdowns and memory rates of kernels alone and share what is known of
//!   the shape (`facts`). Facts kept there must not depend on those. A copy of a program has no facts: it may
//!   be changed.

mod action;
mod bandwidth;
mod build;
pub mod comms;
mod edit;
mod facts;
mod flow;
mod ops;
mod period;
mod rounds;
pub mod span;
mod validate;
mod world;

pub use action::Action;
pub use build::ProgramBuilder;
pub use comms::{Comm, CommIter, Comms};
pub use edit::Edit;
pub use facts::ProgramFacts;
pub use flow::Flow;
pub use ops::{
    MemoryClass, MemoryEffect, MemoryWhen, NO_MICRO_BATCH, Op, OpInfo, Phase, Program, Stream, StreamKind,
    StreamTraits, Work,
};
pub use period::Period;
pub use rounds::{BEHIND, Rounds, Waits};
pub use span::Span;
pub use validate::WorldError;
pub use world::{Rank, Resource, Tier, TierUse, World};
