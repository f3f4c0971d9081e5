//! What a report is made of: sums over what happened, in whole numbers.

use std::collections::BTreeMap;

use super::RankInfo;
use crate::core::ids::RankId;
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
use crate::read::analysis::turns::Sums;
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
    /// Time of ops by layer.
    pub layers: ByLayer,
    /// By tier.
    pub peaks: Vec<Peak>,
    /// By program.
    pub transfers: Vec<BySlot>,
    /// Copies that kernels waited for.
    pub copies: prefetch::ByLayer,
    /// By kind of op.
    pub slack: slack::ByKind,
    /// The times of the steps of a run.
    pub rounds: Vec<Time>,
}

/// The readings of one simulated rank.
pub(crate) struct RankReadings {
    /// Ops of its program.
    pub ops: u64,
    /// Where its time went.
    pub time: RankTime,
    /// Its communication by kind.
    pub communication: ByKind,
    /// Its bars from the peak to MFU.
    pub bars: Reading,
}

impl Readings {
    /// Reads a run that is, or is a part of one that goes on to, a step that ends at `end`.
    ///
    /// # Panics
    /// If `ranks` has not one entry for each rank of the world.
    pub fn of(
        causes: &mut Causes,
        idle: &mut IdleTimes,
        slacks: &Slack,
        ranks: &[RankInfo],
        end: Time,
    ) -> Readings {
        let (world, record) = (causes.world(), causes.record());
        assert_eq!(ranks.len(), world.ranks.len(), "one RankInfo for each simulated rank");
        let weights: Vec<u64> = ranks.iter().map(|r| r.members.len() as u64).collect();
        let mut pieces = Vec::new();
        let mut of_rank = |r: u32| {
            pieces.clear();
            let mut time = stalls::stalls_of(causes, idle, RankId(r), &mut pieces);
            time.slowed_by_memory = record.slowed_by_memory.get(r as usize).copied().unwrap_or_default();
            RankReadings {
                ops: world.program_of(RankId(r)).ops.len() as u64,
                time,
                communication: overlap::overlap(causes, RankId(r), &pieces),
                bars: waterfall::reading(causes, idle, RankId(r), &time, &pieces),
            }
        };
        Readings {
            end: record.step_end,
            events: record.events,
            ranks: (0..record.ranks()).map(&mut of_rank).collect(),
            kernels: kernel_classes::sums(causes, &weights),
            layers: layers::sums(causes, &weights),
            peaks: memory::peaks(causes),
            transfers: links::transfers(world),
            copies: copies(causes, |rank| weights[rank.index()]),
            slack: slack::sums(causes, slacks, &weights, end),
            rounds: round_times(world, record),
        }
    }

    /// Makes of the readings of a step those of one that is so many turns longer; `next` is one turn longer. Whether
    /// what is no sum is the same in both.
    pub fn go_on(&mut self, next: &Readings, turns: u64) -> bool {
        self.end.go_on(&next.end, turns);
        self.ranks.go_on(&next.ranks, turns);
        self.kernels.go_on(&next.kernels, turns);
        self.layers.go_on(&next.layers, turns);
        self.peaks.go_on(&next.peaks, turns);
        self.transfers.iter_mut().zip(&next.transfers).for_each(|(all, next)| {
            all.iter_mut().zip(next).for_each(|(of_slot, next)| of_slot.go_on(next, turns));
        });
        self.slack.go_on(&next.slack, turns);
        let higher = self.peaks.iter().zip(&next.peaks).any(|(peak, next)| peak.bytes != next.bytes);
        prefetch::go_on(&mut self.copies, &next.copies, turns) && !higher
    }
}

impl Sums for RankReadings {
    fn go_on(&mut self, next: &Self, turns: u64) {
        self.ops.go_on(&next.ops, turns);
        self.time.go_on(&next.time, turns);
        self.communication.go_on(&next.communication, turns);
        self.bars.go_on(&next.bars, turns);
    }
}
