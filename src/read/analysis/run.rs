//! A run as readings see it, and what several of them need of it, found once.

use super::cause::Causes;
use super::critical::{Again, CriticalPath, critical_path};
use super::idle::IdleTimes;
use super::memory::{self, Peak};
use super::overlap::{self, OverlapByKind};
use super::report::{Extent, RunInfo};
use super::slack::Slack;
use super::stalls::{self, RankTime};
use super::turns::Recurring;
use super::waterfall;
use stepsim_core::engine::Record;
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::program::World;
use stepsim_core::units::Time;

/// A run, or the turns of one that were played.
pub struct Run<'r, 'w> {
    /// The waits of all ops; the world, and its record.
    pub causes: &'r mut Causes<'w>,
    /// How long communication takes on an idle machine (of the unfolded world, for a folded one).
    pub idle: &'r mut IdleTimes<'w>,
    /// The facts beside the run.
    pub info: &'r RunInfo<'r>,
    /// How many ranks of the job each rank of the world stands for.
    pub weights: Vec<u64>,
    /// How late ops may end; without it a report is what one screen shows.
    pub(super) slack: Option<&'r Slack>,
    pub(super) turn: RecurringTurn,
    /// By rank of the world.
    pub(super) ranks: Vec<RankReading>,
    /// By tier.
    pub(super) peaks: Vec<Peak>,
}

/// The recurring part of a run, and its critical path.
pub struct RecurringTurn {
    /// The stretch of the step that recurs.
    pub recurring: Recurring,
    /// The critical path.
    pub path: CriticalPath,
    /// The part of the path that would recur.
    pub again: Option<Again>,
}

/// One rank of the world.
pub(crate) struct RankReading {
    /// Ops of its program.
    pub ops: u64,
    /// Where its time went.
    pub time: RankTime,
    /// Its communication by kind; none where it is not asked for.
    pub communication: OverlapByKind,
    /// Its bars from the peak to MFU.
    pub bars: waterfall::RankWaterfall,
}

impl<'r, 'w> Run<'r, 'w> {
    /// A run that was played whole. Layers, links and slack need `slack`, as communication needs an extent beyond the
    /// screen: they take the longest.
    ///
    /// # Panics
    /// If `info.ranks` has not one entry for each rank of the world.
    pub fn new(
        causes: &'r mut Causes<'w>,
        idle: &'r mut IdleTimes<'w>,
        slack: Option<&'r Slack>,
        info: &'r RunInfo<'r>,
    ) -> Self {
        let turn =
            RecurringTurn { recurring: Recurring::default(), path: critical_path(causes, idle), again: None };
        Run::of_turn(causes, idle, slack, info, turn)
    }

    /// The same for a run with a turn that recurs.
    pub fn of_turn(
        causes: &'r mut Causes<'w>,
        idle: &'r mut IdleTimes<'w>,
        slack: Option<&'r Slack>,
        info: &'r RunInfo<'r>,
        turn: RecurringTurn,
    ) -> Self {
        let (world, record, recurring) = (causes.world(), causes.record(), &turn.recurring);
        assert_eq!(info.ranks.len(), world.ranks.len(), "one RankInfo for each simulated rank");
        let mut pieces = Vec::new();
        let mut of_rank = |r: u32| {
            pieces.clear();
            let rank = RankId(r);
            let program = world.program_of(rank);
            let times = recurring.of_rank(rank, program);
            let mut time = stalls::stalls_recurring(causes, idle, rank, recurring, &mut pieces);
            let slowed = record.slowed_by_memory.get(r as usize).copied().unwrap_or_default();
            time.slowed_by_memory = recurring.slowed(rank, slowed);
            let communication =
                (info.extent != Extent::Screen).then(|| overlap::overlap(causes, rank, recurring, &pieces));
            RankReading {
                ops: (0..program.ops.len() as u32).map(|op| times(OpId(op))).sum(),
                time,
                communication: communication.unwrap_or_default(),
                bars: waterfall::of_rank(causes, idle, rank, recurring, (&time, &pieces)),
            }
        };
        let ranks = (0..record.ranks()).map(&mut of_rank).collect();
        // Turns that come again only repeat levels that were there.
        let later = |peak: Peak| Peak { at: recurring.moment(peak.at), ..peak };
        let peaks = memory::peaks(causes).into_iter().map(later).collect();
        let weights = info.ranks.iter().map(|r| r.members.len() as u64).collect();
        Run { causes, idle, info, weights, slack, turn, ranks, peaks }
    }

    /// The programs that were played.
    pub fn world(&self) -> &'w World {
        self.causes.world()
    }
    /// When ops started and ended.
    pub fn record(&self) -> &'w Record {
        self.causes.record()
    }
    /// When the last op ended.
    pub fn end(&self) -> Time {
        self.record().step_end + self.turn.recurring.longer()
    }
    /// Ranks of the job.
    pub fn ranks_of_job(&self) -> u64 {
        self.weights.iter().sum()
    }
    /// How often an op of a rank of the world ran: once, but for turns that were counted and not played.
    pub fn times(&self, rank: RankId) -> impl Fn(OpId) -> u64 + Copy + '_ {
        self.turn.recurring.of_rank(rank, self.world().program_of(rank))
    }
    /// How much of the whole run is like a stretch of what was played.
    pub fn time(&self, start: Time, end: Time) -> Time {
        self.turn.recurring.time(start, end)
    }
}
