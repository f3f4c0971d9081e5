//! The contents of a timeline, and checks that it can be shown.

use std::io;
use std::rc::Rc;

use crate::analysis::link_rates::RateChange;
use crate::analysis::stretches::Stretches;
use crate::trace::writer::Value;
use stepsim_core::declare::named;
use stepsim_core::engine::Record;
use stepsim_core::ids::{OpId, RankId, ResourceId};
use stepsim_core::program::World;
use stepsim_core::units::{Bandwidth, FlopRate, Time};

/// Letters of a row's name that the viewer shows.
const ROW: usize = 24;

/// A rank to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedRank {
    /// The rank.
    pub rank: RankId,
    /// The rank of the record whose times it has: itself, or in a folded run the one that stood for it.
    pub source: RankId,
    /// Its name on screen, numbers padded with zeros: `rank 0017 · stage 3 · tp 1 dp 4`.
    pub name: String,
}

impl TracedRank {
    /// The beginning of its name: `rank 0017`, `rank 00 ×2.85`.
    pub fn short_name(&self) -> &str {
        self.name.split(" · ").next().unwrap_or_default()
    }

    /// The names of its rows where the rows of all ranks stand together: the first, `17 ×2.85 stage 3 · 4 alike`, and
    /// what others begin with, `17`. The viewer shows [`ROW`] letters, so a longer one says `s3`.
    pub(super) fn row_names(&self) -> (Option<String>, String) {
        let Some(numbered) = self.name.strip_prefix("rank ") else {
            return (None, self.short_name().to_owned());
        };
        let number = self.rank.0.to_string();
        let mut parts = numbered.split(" · ");
        let slow = parts.next().and_then(|first| first.split_once(' ')).map_or("", |(_, slow)| slow);
        let kept: Vec<&str> = parts.filter(|p| p.starts_with("stage ") || p.ends_with(" alike")).collect();
        let words = [number.as_str(), slow, &kept.join(" · ")];
        let first = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        let fits = first.chars().count() <= ROW;
        (Some(if fits { first } else { first.replace("stage ", "s") }), number)
    }
}

named! {
    /// How much an innermost slice stands for.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Detail {
        /// One op.
        #[default]
        Op = "op",
        /// All ops in a row of one pass of one micro-batch through one layer; of kernels, those between two stalls.
        Layer = "layer",
        /// All ops in a row of one pass of one micro-batch; of kernels, those between two stalls.
        Phase = "phase",
        /// Passes and what stands between them, on one row a rank: for many ranks.
        Pass = "pass",
    }
}

impl std::str::FromStr for Detail {
    type Err = String;
    fn from_str(text: &str) -> Result<Detail, String> {
        let known = Detail::ALL.into_iter().find(|detail| detail.name() == text);
        known.ok_or_else(|| format!("`{text}` is no level of detail; allowed: op, layer, phase, pass"))
    }
}

/// A time in which a rank's compute stream was held up, as a slice that names the cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StallSlice {
    /// From when.
    pub start: Time,
    /// Until when.
    pub end: Time,
    /// Why, in the words of the report: `pipeline bubble`, `prefetch transferring`.
    pub cause: &'static str,
    /// The op that was waited for, in words; empty if none.
    pub waited_for: String,
    /// Its rank and itself.
    pub op: Option<(RankId, OpId)>,
    /// The last wait of that op, where it had not begun (a peer that was late): its rank and the op.
    pub blocker: Option<(RankId, OpId)>,
    /// The kernel that could not start; `None` after the last one.
    pub waiting: Option<OpId>,
    /// Of contention, the link that was shared most and how many transfers shared it.
    pub shared: Option<(String, u32)>,
}

/// An op on the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Critical {
    /// Its rank.
    pub rank: RankId,
    /// The op.
    pub op: OpId,
    /// When the op before it on the path ended.
    pub from: Time,
    /// When it was ready: later than that by the way of a launch from the host to the device.
    pub ready: Time,
    /// When it started: later than that if it waited for room on a tier.
    pub start: Time,
    /// When it ended.
    pub end: Time,
}

/// A resource whose use is shown as a counter.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkCounter {
    /// The resource.
    pub resource: ResourceId,
    /// Its name on screen.
    pub name: String,
    /// The rate that it can carry.
    pub capacity: Bandwidth,
}

/// A tier that several ranks share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name on screen.
    pub name: String,
    /// The bytes that it can hold.
    pub capacity: u64,
    /// Levels over time in bytes, each with its name: in total, by class, by holder; the first point is at time zero.
    pub levels: Vec<(String, Vec<(Time, u64)>)>,
}

/// A counter of a rank: of what, and how many from when on; the first point is at time zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterTrack {
    /// Whose.
    pub rank: RankId,
    /// Its name on screen.
    pub name: String,
    /// In order of time.
    pub points: Vec<(Time, u64)>,
}

/// The limits of a device.
pub struct Capacities<'a> {
    /// The FLOP/s of its matrix units.
    pub flops: FlopRate,
    /// The bandwidth of its own memory.
    pub memory: Bandwidth,
    /// The busiest link of a rank of the record, with its use; absent if it has none.
    pub busiest_link: &'a dyn Fn(RankId) -> Option<BusiestLink>,
}

/// The use of one link.
#[derive(Clone, Debug, PartialEq)]
pub struct BusiestLink {
    /// The rate that it can carry.
    pub capacity: Bandwidth,
    /// The bytes that went through it.
    pub bytes: Stretches,
}

/// Parameters and results of the run, shown as arguments of the step's slice: versions, seed, hashes of the inputs,
/// step time, MFU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunMeta(pub Vec<(String, MetaValue)>);

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub enum MetaValue {
    /// A text.
    Text(String),
    /// A whole number.
    Int(u64),
    /// Any number.
    Number(f64),
}

/// The fact of a run that says what its step hangs on.
const HANGS_ON: &str = "hangs on";

impl RunMeta {
    /// Adds a text.
    pub fn text(&mut self, key: &str, value: impl Into<String>) {
        self.0.push((key.to_owned(), MetaValue::Text(value.into())));
    }
    /// Adds a whole number.
    pub fn int(&mut self, key: &str, value: u64) {
        self.0.push((key.to_owned(), MetaValue::Int(value)));
    }
    /// Adds a number.
    pub fn number(&mut self, key: &str, value: f64) {
        self.0.push((key.to_owned(), MetaValue::Number(value)));
    }
    /// Adds what the step hangs on.
    pub fn hang_on(&mut self, answer: &str) {
        if !answer.is_empty() {
            self.text(HANGS_ON, answer);
        }
    }
    /// The answer about the step, where it is known.
    pub(super) fn hangs_on(&self) -> Option<&str> {
        self.0.iter().find_map(|(key, value)| match value {
            MetaValue::Text(answer) if key == HANGS_ON => Some(answer.as_str()),
            _ => None,
        })
    }
    pub(super) fn values(&self) -> Vec<(&str, Value<'_>)> {
        let value = |v| match v {
            &MetaValue::Int(n) => Value::Uint(n),
            &MetaValue::Number(x) => Value::Float(x),
            MetaValue::Text(t) => Value::Text(t),
        };
        self.0.iter().map(|(key, v)| (key.as_str(), value(v))).collect()
    }
}

/// Everything that a timeline shows.
pub struct Timeline<'a> {
    /// The world that ran. In a folded run this is still the whole world, so that groups have their true members.
    pub world: &'a World,
    /// When it ran.
    pub record: &'a Record,
    /// The ranks to show, each once.
    pub ranks: &'a [TracedRank],
    /// Parameters of the run.
    pub meta: &'a RunMeta,
    /// How much one slice stands for.
    pub detail: Detail,
    /// Show only what touches this stretch of time.
    pub window: Option<(Time, Time)>,
    /// The stalls of a rank (of the job, not the one played for it) in order of time, not overlapping; absent if not
    /// known.
    pub stalls: Option<&'a dyn Fn(RankId) -> Rc<[StallSlice]>>,
    /// The critical path in order of time; empty if not known. Its parts on hidden ranks are not seen.
    pub critical: &'a [Critical],
    /// How much later an op of a rank of the record could end without moving the end of the step; absent if not known.
    pub slack: Option<&'a dyn Fn(RankId, OpId) -> Time>,
    /// How long a communication op of a rank would have taken on an idle machine; absent if not known.
    pub uncontended: Option<&'a dyn Fn(RankId, OpId) -> Option<Time>>,
    /// Links to show, in order.
    pub links: &'a [LinkCounter],
    /// Their use, in order of time.
    pub link_use: &'a [RateChange],
    /// Shared tiers to show.
    pub pools: &'a [Pool],
    /// Further counters of ranks.
    pub counts: &'a [CounterTrack],
    /// How many of all ranks, shown or not, do each thing, or wait for it, from when on.
    pub doing: &'a [(String, Vec<(Time, u64)>)],
    /// The limits of a device, whose used parts counters show; absent if not known.
    pub capacities: Option<&'a Capacities<'a>>,
}

impl<'a> Timeline<'a> {
    /// The ops of these ranks one by one, and nothing beside them.
    pub fn new(
        world: &'a World,
        record: &'a Record,
        ranks: &'a [TracedRank],
        meta: &'a RunMeta,
    ) -> Timeline<'a> {
        Timeline {
            world,
            record,
            ranks,
            meta,
            detail: Detail::Op,
            window: None,
            stalls: None,
            critical: &[],
            slack: None,
            uncontended: None,
            links: &[],
            link_use: &[],
            pools: &[],
            counts: &[],
            doing: &[],
            capacities: None,
        }
    }
}

/// The totals of a timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelineSummary {
    /// Slices written.
    pub slices: u64,
    /// Arrows written.
    pub arrows: u64,
    /// Counter values written.
    pub counter_values: u64,
    /// Ops left out because they are empty when rounded to nanoseconds.
    pub too_short: u64,
    /// In a Kineto file, how much later than in the run the times of the device are.
    pub shifted_ns: u64,
}

/// Why a timeline was not written.
#[derive(Debug, thiserror::Error)]
pub enum TimelineError {
    /// A rank that does not exist.
    #[error("rank {rank} cannot be traced: the run has ranks 0 to {last}; name ranks in that range")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// The last rank there is.
        last: u32,
    },
    /// A rank that was asked for twice.
    #[error("rank {rank} is to be traced twice; name each rank once")]
    RankTwice {
        /// The rank.
        rank: u32,
    },
    /// The times given for a rank belong to another program.
    #[error(
        "the record of rank {source_rank} holds {recorded} ops, but rank {rank}, which is to be shown with its \
         times, runs {expected}; give each rank the rank of its own class"
    )]
    WrongSource {
        /// The rank to be shown.
        rank: u32,
        /// The rank of the record.
        source_rank: u32,
        /// Ops in the record.
        recorded: u64,
        /// Ops of the rank's program.
        expected: u64,
    },
    /// An empty window.
    #[error("the time window {start} to {end} is empty; its end must be later than its start")]
    EmptyWindow {
        /// Its start.
        start: Time,
        /// Its end.
        end: Time,
    },
    /// The file could not be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Timeline<'_> {
    /// Checks that everything requested can be shown.
    ///
    /// # Errors
    /// As [`Timeline::write`], but for the sink.
    pub(in crate::trace) fn check(&self) -> Result<(), TimelineError> {
        if let Some((start, end)) = self.window.filter(|(start, end)| start >= end) {
            return Err(TimelineError::EmptyWindow { start, end });
        }
        let mut seen = rustc_hash::FxHashSet::default();
        for traced in self.ranks {
            let (rank, source) = (traced.rank.0, traced.source);
            if traced.rank.index() >= self.world.ranks.len() {
                return Err(TimelineError::NoSuchRank { rank, last: self.world.ranks.len() as u32 - 1 });
            }
            if source.index() >= self.record.ranks() as usize {
                return Err(TimelineError::NoSuchRank { rank: source.0, last: self.record.ranks() - 1 });
            }
            if !seen.insert(rank) {
                return Err(TimelineError::RankTwice { rank });
            }
            let recorded = self.record.first[source.index() + 1] - self.record.first[source.index()];
            let expected = self.world.program_of(traced.rank).ops.len() as u64;
            if recorded != expected {
                return Err(TimelineError::WrongSource { rank, source_rank: source.0, recorded, expected });
            }
        }
        Ok(())
    }

    /// The name of a rank, also of one that is not shown.
    pub(super) fn name_of(&self, rank: RankId) -> String {
        let shown = self.ranks.iter().find(|traced| traced.rank == rank);
        shown.map_or_else(|| format!("rank {}", rank.0), |traced| traced.name.clone())
    }

    /// The window in nanoseconds; without one, the whole run.
    pub(super) fn window_ns(&self) -> (u64, u64) {
        self.window.map_or((0, u64::MAX), |(start, end)| (start.round_ns(), end.round_ns()))
    }

    /// Start and end of what is seen of a stretch of time: the rounded nanoseconds of it inside the window.
    pub(super) fn within(&self, (start, end): (Time, Time)) -> Option<(Time, Time)> {
        let (from, until) = self.window_ns();
        let [start, end] = [start, end].map(|at| Time::from_ns(at.round_ns().clamp(from, until)));
        (start < end).then_some((start, end))
    }

    /// Start and end in nanoseconds of what is seen: it lasts, and touches the window.
    pub(super) fn seen(&self, (start, end): (Time, Time)) -> Option<(u64, u64)> {
        let ((from, until), start, end) = (self.window_ns(), start.round_ns(), end.round_ns());
        (start < end && end > from && start < until).then_some((start, end))
    }
}
