//! Calculon's step as rank programs: its blocks as ops, in (interleaved) 1F1B order, one rank per pipeline stage.
//!
//! Calculon knows one processor of each stage: its tensor- and data-parallel peers do the same at the same time. A
//! world of p ranks is therefore its whole machine, and collectives are communicators of one member whose time is
//! known. The costs of a block are given ([`BlockTimes`]); this module decides only what runs after what:
//!
//! * forward block: kernels, then exposed tensor-parallel communication;
//! * backward block: recomputation, repeated communication, both gradients, exposed tensor-parallel communication;
//! * after a chunk: its transfer to the neighbour (`plan::pipeline`);
//! * after the last backward pass of a block: reduction of its gradients; after that the optimizer.
//!
//! Each assumption of the closed form is one field of [`CalculonStep`], so that a simulation can leave it: transfers
//! that block the sender, data-parallel and offload time added in closed form, a pipeline whose ends send too.
//!
//! Hazards:
//! * A pass starts when the pass before it has ended, its exposed communication included: nothing hides behind another
//!   micro-batch that the closed form does not hide.
//! * Bytes of activations, weights and state are counted on the tiers, working space is not.

mod blocks;
mod labels;
mod step;
mod world;

pub use step::{
    BlockCopies, BlockTimes, CalculonStep, DataParallelPlan, DeviceBlockBytes, Ports, Slowdown, TimedTransfer,
};
pub use world::world;
