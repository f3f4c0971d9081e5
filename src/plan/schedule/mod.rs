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
//! A new schedule is one new file and one line in [`ALL`].

mod check;
mod dualpipe;
mod dualpipe_v;
mod eager;
mod gpipe;
mod interleaved;
mod interleaved_torch;
mod layers;
mod looped_bfs;
mod one_f_one_b;
mod order;
mod placement;
mod user;
mod zb_auto;
mod zb_h1;
mod zb_h2;
mod zb_v;

pub use check::{Deadlock, OrderFault, Wait};
pub use layers::{LayerSplit, SplitError, split_layers};
pub use order::{Data, Order, Part, Pass, Slot};
pub use placement::{Placement, Seat, StageAt};
pub use user::{UserOrderError, order_from_json, order_to_json};

use crate::units::Time;

/// The schedules known by name.
pub const ALL: &[&dyn Schedule] = &[
    &gpipe::GPipe,
    &one_f_one_b::OneFOneB,
    &eager::Eager,
    &interleaved::Interleaved,
    &interleaved_torch::InterleavedTorch,
    &looped_bfs::LoopedBfs,
    &zb_h1::ZbH1,
    &zb_h2::ZbH2,
    &zb_v::ZbV,
    &zb_auto::ZbAuto,
    &dualpipe::DualPipe,
    &dualpipe_v::DualPipeV,
];

/// The schedule of that name or alias.
///
/// # Errors
/// If there is none: the message lists the names.
pub fn find(name: &str) -> Result<&'static dyn Schedule, ScheduleError> {
    ALL.iter().copied().find(|s| s.name() == name || s.aliases().contains(&name)).ok_or_else(|| {
        let names: Vec<_> = ALL.iter().map(|s| s.name()).collect();
        ScheduleError {
            schedule: name.to_owned(),
            problem: "there is no schedule of this name".to_owned(),
            remedy: format!("choose one of {}", names.join(", ")),
        }
    })
}

/// A pipeline schedule.
pub trait Schedule: Sync {
    /// Its name in kebab case.
    fn name(&self) -> &'static str;
    /// Other names in use.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }
    /// What distinguishes it, in one line.
    fn about(&self) -> &'static str;
    /// How many chunks a rank may hold.
    fn chunks(&self) -> Chunks {
        Chunks::Exactly(1)
    }
    /// Whether [`Shape::group`] means anything to it.
    fn has_groups(&self) -> bool {
        false
    }
    /// The order of every rank.
    ///
    /// # Errors
    /// If the schedule is not defined for these numbers; the error names numbers that would do.
    fn order(&self, shape: &Shape) -> Result<Order, ScheduleError>;
    /// The order for the times that passes really take and the memory that there is; most schedules do not mind.
    ///
    /// # Errors
    /// As [`Schedule::order`].
    fn order_for(&self, shape: &Shape, _profile: &Profile) -> Result<Order, ScheduleError> {
        self.order(shape)
    }
    /// The bubble by theory, where a closed form holds; for shapes that have an order.
    fn bubble(&self, shape: &Shape, times: &PassTimes) -> Option<Bubble>;
    /// Live micro-batch chunks at the worst moment on each rank by theory, where a closed form holds; for
    /// shapes that have an order.
    fn peak(&self, shape: &Shape) -> Option<Vec<u32>>;
}

/// How many chunks a schedule allows on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunks {
    /// This many, by definition.
    Exactly(u16),
    /// The user's choice from a least number on; the default comes second.
    AtLeast(u16, u16),
}

/// The numbers that a schedule depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pipeline ranks, p.
    pub ranks: u32,
    /// Micro-batches of the step, m (DualPipe: of both directions together).
    pub micro_batches: u32,
    /// Chunks per rank, v; the schedule's own number if not given.
    pub chunks: Option<u16>,
    /// Micro-batches that pass a chunk in a row before the next chunk has its turn (interleaved); p if not given.
    pub group: Option<u32>,
}

impl Shape {
    /// The largest number of slots that an order may have.
    pub const MAX_SLOTS: u64 = 1 << 24;
    /// The largest number of chunks per rank.
    pub const MAX_CHUNKS: u16 = 1024;

    /// p ranks and m micro-batches, all else by default.
    pub fn new(ranks: u32, micro_batches: u32) -> Shape {
        Shape { ranks, micro_batches, chunks: None, group: None }
    }
    /// With v chunks per rank.
    pub fn with_chunks(self, chunks: u16) -> Shape {
        Shape { chunks: Some(chunks), ..self }
    }
    /// With groups of that many micro-batches.
    pub fn with_group(self, group: u32) -> Shape {
        Shape { group: Some(group), ..self }
    }
    /// Chunks per rank under `schedule`.
    pub fn chunks_under(&self, schedule: &dyn Schedule) -> u16 {
        match schedule.chunks() {
            Chunks::Exactly(v) | Chunks::AtLeast(_, v) => self.chunks.unwrap_or(v),
        }
    }

    /// The checks that all schedules share; returns (p, m, v).
    fn checked(&self, schedule: &dyn Schedule) -> Result<(u32, u32, u16), ScheduleError> {
        let fail =
            |problem: String, remedy: &str| Err(ScheduleError::new(schedule, problem, remedy.to_owned()));
        let (p, m, v) = (self.ranks, self.micro_batches, self.chunks_under(schedule));
        if p == 0 || m == 0 {
            return fail(
                format!("{p} stages and {m} micro-batches are no pipeline"),
                "there must be at least 1 of each",
            );
        }
        match schedule.chunks() {
            Chunks::Exactly(n) if v != n => {
                let held = if n == 1 { "1 chunk".to_owned() } else { format!("{n} chunks") };
                return fail(
                    format!("a rank holds {held} by definition, not {v}"),
                    "leave the number of chunks out, or choose interleaved-1f1b or looped-bfs",
                );
            }
            Chunks::AtLeast(least, _) if v < least => {
                return fail(
                    format!("{v} chunks per rank are too few"),
                    &format!("it runs with {least} or more; with 1 chunk choose 1f1b"),
                );
            }
            _ => {}
        }
        if self.group.is_some() && !schedule.has_groups() {
            return fail("it has no groups of micro-batches".to_owned(), "leave the group size out");
        }
        if v > Self::MAX_CHUNKS {
            let remedy = format!("it runs with {} or fewer", Self::MAX_CHUNKS);
            return fail(format!("{v} chunks per rank are too many"), &remedy);
        }
        let slots = u64::from(p).saturating_mul(u64::from(m)).saturating_mul(u64::from(v) * 3);
        if slots > Self::MAX_SLOTS {
            return fail(
                format!("{p} stages x {m} micro-batches x {v} chunks are up to {slots} slots"),
                &format!("keep their product at or below {}", Self::MAX_SLOTS / 3),
            );
        }
        Ok((p, m, v))
    }
}

/// How long the passes of one rank's whole share of layers take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassTimes {
    /// Forward, tF.
    pub forward: Time,
    /// Gradient of the inputs, tI.
    pub input_grad: Time,
    /// Gradient of the weights, tW.
    pub weight_grad: Time,
    /// A forward and a full backward pass of two micro-batches overlapped, t(F&B).
    pub overlapped: Time,
}

impl PassTimes {
    /// With F&B = `overlap_factor`·(F + B), rounded to a picosecond.
    pub fn new(forward: Time, input_grad: Time, weight_grad: Time, overlap_factor: f64) -> PassTimes {
        let both = (forward + input_grad + weight_grad).0;
        // A factor of 1 must not round through a float.
        let overlapped =
            if overlap_factor == 1.0 { both } else { (both as f64 * overlap_factor).round() as u64 };
        PassTimes { forward, input_grad, weight_grad, overlapped: Time(overlapped) }
    }
    /// Full backward, tB = tI + tW.
    pub fn backward(&self) -> Time {
        self.input_grad + self.weight_grad
    }
    /// The time of a slot, for a rank whose share is cut into `parts` chunks (each rounded to a picosecond).
    pub fn of(&self, slot: &Slot, parts: u32) -> Time {
        let whole = match slot {
            Slot::Overlapped { .. } => self.overlapped,
            Slot::Single(part) => match part.pass {
                Pass::Forward => self.forward,
                Pass::Backward => self.backward(),
                Pass::InputGrad => self.input_grad,
                Pass::WeightGrad => self.weight_grad,
            },
        };
        let n = u64::from(parts);
        Time((whole.0 + n / 2) / n)
    }
}

/// What a schedule may know of the step that it orders.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Times of each rank's whole share of layers.
    pub ranks: Vec<PassTimes>,
    /// Delay of a message between ranks.
    pub message: Time,
    /// Most activations that a rank may hold, in micro-batches; twice the ranks if not given.
    pub limit: Option<f64>,
    /// Share of a micro-batch's activations that wait for its weight gradient once its input gradient is done.
    pub kept: f64,
}

/// Idle time of the worst rank in theory; `None` where no closed form is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bubble {
    /// Between its first start and its last end (what the zero-bubble papers quote).
    pub own: Option<Time>,
    /// From the start to the end of the whole step.
    pub idle: Option<Time>,
}

impl Bubble {
    /// Both measures the same.
    fn both(t: Time) -> Option<Bubble> {
        Some(Bubble { own: Some(t), idle: Some(t) })
    }
    /// (p−1)(tF + tB)/v: what all schedules without split backward passes leave.
    fn fill_and_drain(p: u32, v: u16, t: &PassTimes) -> Option<Bubble> {
        Bubble::both(Time(((t.forward + t.backward()) * u64::from(p - 1)).0 / u64::from(v)))
    }
}

/// Why a schedule is not defined for some numbers, and which would do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("schedule {schedule}: {problem}; {remedy}")]
pub struct ScheduleError {
    /// The schedule's name.
    pub schedule: String,
    /// What is wrong, with the numbers.
    pub problem: String,
    /// What would run.
    pub remedy: String,
}

impl ScheduleError {
    fn new(schedule: &dyn Schedule, problem: String, remedy: String) -> ScheduleError {
        ScheduleError { schedule: schedule.name().to_owned(), problem, remedy }
    }
}
