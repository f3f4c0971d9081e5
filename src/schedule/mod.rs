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
mod choice;
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
mod shape;
mod times;
mod torch_csv;
mod user;
mod walk;
mod zb_auto;
mod zb_h1;
mod zb_h2;
mod zb_v;

pub use check::{Deadlock, OrderFault, Wait};
pub use choice::Choice;
pub use interleaved::Interleaved;
pub use layers::{LayerSplit, SplitError, split_layers};
pub use one_f_one_b::OneFOneB;
pub use order::{Data, Order, Part, Pass, Slot};
pub use placement::{Placement, Seat, StageAt};
pub use shape::Shape;
pub use times::{Bubble, PassTimes, Profile};
pub use torch_csv::order_from_torch_csv;
pub use user::{UserOrderError, order_from_json, order_to_json};
pub use walk::SlotTime;

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
    ALL.iter().copied().find(|s| s.facts().is(name)).ok_or_else(|| {
        let names: Vec<_> = ALL.iter().map(|s| s.name()).collect();
        ScheduleError {
            schedule: name.to_owned(),
            problem: "there is no schedule of this name".to_owned(),
            remedy: format!("choose one of {}", names.join(", ")),
        }
    })
}

/// The schedules whose number of chunks is the user's, as a text.
fn any_chunks() -> String {
    let free = ALL.iter().map(|s| s.facts()).filter(|f| matches!(f.chunks, Chunks::AtLeast(..)));
    free.map(|f| f.name).collect::<Vec<_>>().join(", ")
}

/// What a schedule is, beside its order, bubble and peak: all that its readers need to know of it. No code asks for a
/// schedule by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its name in kebab case.
    pub name: &'static str,
    /// Other names in use.
    pub aliases: &'static [&'static str],
    /// What distinguishes it, in one line.
    pub about: &'static str,
    /// For which numbers it is defined, in one line; empty: any.
    pub needs: &'static str,
    /// How many chunks a rank may hold.
    pub chunks: Chunks,
    /// Whether [`Shape::group`] means anything to it.
    pub groups: bool,
    /// Directions in which micro-batches pass, 1 or 2; with 2 a rank holds a stage of each.
    pub directions: u16,
    /// Whether backward passes are cut into their two gradients.
    pub backward: Backward,
    /// Whether its ranks can send and receive at the same time between passes, as Megatron's batched exchange does. Where
    /// warm-up is deeper than the ranks behind are long, or two directions meet, each of two neighbours would wait in a
    /// send for the other's receive.
    pub batched: bool,
    /// Whether it runs a forward and a backward pass of two micro-batches together.
    pub pairs: bool,
    /// Whether [`Schedule::order_for`] makes the order for the times and the memory of a step.
    pub searched: bool,
}

impl Facts {
    /// One chunk on a rank, one direction, whole backward passes; any numbers.
    pub const fn new(name: &'static str, about: &'static str) -> Facts {
        Facts {
            name,
            aliases: &[],
            about,
            needs: "",
            chunks: Chunks::Exactly(1),
            groups: false,
            directions: 1,
            backward: Backward::Whole,
            batched: true,
            pairs: false,
            searched: false,
        }
    }
    /// Whether it is known by that name.
    pub fn is(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// How many chunks a schedule allows on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunks {
    /// This many, by definition.
    Exactly(u16),
    /// The user's choice from a least number on; the default comes second.
    AtLeast(u16, u16),
}

impl Chunks {
    /// The number where none is given.
    pub fn usual(self) -> u16 {
        match self {
            Chunks::Exactly(v) | Chunks::AtLeast(_, v) => v,
        }
    }
}

/// How a schedule runs backward passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backward {
    /// Both gradients at once.
    Whole,
    /// The two gradients apart, the weights' later.
    Split,
    /// Some whole, some split.
    Both,
}

/// A pipeline schedule.
pub trait Schedule: Sync {
    /// What it is.
    fn facts(&self) -> Facts;
    /// Its name in kebab case.
    fn name(&self) -> &'static str {
        self.facts().name
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
    /// The bubble to reckon with: by theory, or for a searched order what it at least reaches.
    fn expected_bubble(&self, shape: &Shape, times: &PassTimes) -> Option<Bubble> {
        self.bubble(shape, times)
    }
    /// Live micro-batch chunks at the worst moment on each rank by theory, where a closed form holds; for
    /// shapes that have an order.
    fn peak(&self, shape: &Shape) -> Option<Vec<u32>>;
    /// Transfers on the critical path where sends run beside compute; by default those of one fill and one drain,
    /// 2(pv − 1).
    fn transfers(&self, shape: &Shape) -> f64 {
        2.0 * (f64::from(shape.ranks) * f64::from(shape.parts_under(self.facts())) - 1.0)
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
    /// An error of this schedule.
    pub fn new(schedule: &dyn Schedule, problem: String, remedy: String) -> ScheduleError {
        ScheduleError { schedule: schedule.name().to_owned(), problem, remedy }
    }
}
