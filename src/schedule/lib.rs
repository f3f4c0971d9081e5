//! Pipeline schedules: in which order each pipeline rank runs its forward and backward passes.
//!
//! A schedule says nothing else. Sends, receives, recomputation, gradient buckets and offload follow from the order by
//! one code for all schedules (`plan::pipeline`).
//!
//! | symbol | meaning |
//! |---|---|
//! | p | pipeline ranks, r = 0..p−1 |
//! | m | micro-batches of a step |
//! | v | model chunks per rank; stage of chunk c on rank r is c·p + r (looped), or r and 2p−1−r (V shape) |
//! | F, B, I, W | forward; full backward; its two halves: gradient of the inputs, gradient of the weights |
//! | tF, tI, tW | their times for one rank's whole share of the layers, tB = tI + tW; a chunk costs 1/v of them |
//!
//! F of a stage needs F of the stage before; B or I needs B or I of the stage behind (on the last stage: its own F);
//! W needs its own I. Each rank runs its list in order.
//!
//! Hazards:
//! * DualPipe runs two directions at once: a rank holds a stage of each, so the parameters are there twice, and m
//!   counts the micro-batches of both directions.
//! * Closed forms are for even stages and free transfers, and many hold only in a part of the parameter space: they
//!   are `None` where they do not hold.
//!
//! A new schedule is one new file and one line in [`ALL`]. What data-parallel ranks cut among them is [`sharding`].
//!
//! Invariant: it knows numbers of ranks, chunks and micro-batches, and no model, machine or file.

mod allowed;
mod building_block;
mod check;
mod choice;
mod definition;
mod dualpipe;
mod dualpipe_v;
mod eager;
mod facts;
mod fault;
mod gpipe;
mod interleaved;
mod interleaved_torch;
mod layers;
mod looped_bfs;
mod one_f_one_b;
mod order;
mod placement;
mod registry;
mod shape;
pub mod sharding;
mod sides;
mod slot;
mod slow_edge;
mod times;
mod turns;
mod user;
mod v_half;
mod v_min;
mod zb_auto;
mod zb_h1;
mod zb_h2;
mod zb_v;

pub use choice::ScheduleChoice;
pub use definition::{Schedule, ScheduleError};
pub use facts::{BackwardSplit, ChunkCount, ScheduleFacts};
pub use fault::{Deadlock, OrderFault, Wait};
pub use interleaved::InterleavedOneFOneB;
pub use layers::{LayerSplit, SplitError, split_layers};
pub use one_f_one_b::OneFOneB;
pub use order::Order;
pub use placement::{Seat, StageAt, StagePlacement};
pub use registry::{ALL, find};
pub use shape::Shape;
pub use slot::{Data, Pass, Slot, SlotPass};
pub use slow_edge::SlowEdge;
pub use times::{Bubble, PassProfile, PassTimes};
pub use turns::Turns;
pub use user::{UserOrderError, order_from_json, order_to_json};
