//! What a report is made of: sums over what happened, in whole numbers.

use std::collections::BTreeMap;

use super::RankInfo;
use crate::core::ids::{OpId, RankId};
use crate::core::kernel_class::KernelClass;
use crate::core::units::Time;
use crate::read::analysis::cause::Causes;
use crate::read::analysis::idle::IdleTimes;
use crate::read::analysis::kernel_classes::{self, OfClass};
use crate::read::analysis::layers::{self, ByLayer};
use crate::read::analysis::links::{self, BySlot};
use crate::read::analysis::memory::{self, Peak};
use crate::read::analysis::overlap::{self, ByKind};
use crate::read::analysis::prefetch::{self, copies};
use crate::read::analysis::rounds::round_times;
use crate::read::analysis::slack::{self, Slack};
use crate::read::analysis::stalls::{self, RankTime};
use crate::read::analysis::turns::Recurring;
use crate::read::analysis::waterfall::{self, Reading};

/// The readings of a run.
pub(crate) struct Readings {
    /// When the last op ended.
    pub end: Time,
    /// Completions that the event loop handled.
    pub events: u64,
    /// By simulated rank.
    pub ranks: Vec<RankReadings>,
    /// Kernels by class.
    pub kernels: BTreeMap<KernelClass, OfClass>,
    /// By tier.
    pub peaks: Vec<Peak>,
    /// Copies that kernels waited for.
    pub copies: prefetch::ByLayer,
    /// The times of the steps of a run.
    pub rounds: Vec<Time>,
    /// What no screen shows, where it is asked for.
    pub more: Option<More>,
}

/// Readings that take long and that a report on one screen leaves out.
pub(crate) struct More {
    /// Time of ops by layer.
    pub layers: ByLayer,
    /// By program.
    pub transfers: Vec<BySlot>,
    /// Slack by kind of op.
    pub slack: slack::ByKind,
}

/// The readings of one simulated rank.
pub(crate) struct RankReadings {
    /// Ops of its program.
    pub ops: u64,
    /// Where its time went.
    pub time: RankTime,
    /// Its communication by kind; none where it is not asked for.
    pub communication: ByKind,
    /// Its bars from the peak to MFU.
    pub bars: Reading,
}

impl Readings {
    /// Reads a run, of which some may come again; without slack what one screen shows.
    ///
    /// # Panics
    /// If `ranks` has not one entry for each rank of the world.
    pub fn of(
        causes: &mut Causes,
        idle: &mut IdleTimes,
        slacks: Option<&Slack>,
        ranks: &[RankInfo],
        recurring: &Recurring,
    ) -> Readings {
        let (world, record) = (causes.world(), causes.record());
        assert_eq!(ranks.len(), world.ranks.len(), "one RankInfo for each simulated rank");
        let weights: Vec<u64> = ranks.iter().map(|r| r.members.len() as u64).collect();
        let mut pieces = Vec::new();
        let mut of_rank = |r: u32| {
            pieces.clear();
            let rank = RankId(r);
            let program = world.program_of(rank);
            let times = recurring.of_rank(rank, program);
            let mut time = stalls::stalls_recurring(causes, idle, rank, recurring, &mut pieces);
            let slowed = record.slowed_by_memory.get(r as usize).copied().unwrap_or_default();
            time.slowed_by_memory = recurring.slowed(rank, slowed);
            let communication = slacks.map(|_| overlap::overlap(causes, rank, recurring, &pieces));
            RankReadings {
                ops: (0..program.ops.len() as u32).map(|op| times(OpId(op))).sum(),
                time,
                communication: communication.unwrap_or_default(),
                bars: waterfall::reading(causes, idle, rank, recurring, (&time, &pieces)),
            }
        };
        // Turns that come again only repeat levels that were there.
        let later = |peak: Peak| Peak { at: recurring.moment(peak.at), ..peak };
        Readings {
            end: record.step_end + recurring.longer(),
            events: record.events,
            ranks: (0..record.ranks()).map(&mut of_rank).collect(),
            kernels: kernel_classes::sums(causes, &weights, recurring),
            peaks: memory::peaks(causes).into_iter().map(later).collect(),
            copies: copies(causes, recurring, |rank| weights[rank.index()]),
            rounds: round_times(world, record),
            more: slacks.map(|slacks| More {
                layers: layers::sums(causes, &weights, recurring),
                transfers: links::transfers(world, recurring),
                slack: slack::sums(causes, slacks, &weights, recurring),
            }),
        }
    }
}
