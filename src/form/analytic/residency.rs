//! The requests of a rank's residency policies, and their memory.

use std::cell::RefCell;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::asked::PolicyDemand;
use super::beside::SideWork;
use super::floor::Floor;
use super::form::StepForm;
use super::memory::RankWalk;
use super::{MemoryBytes, RankLinks};
use stepsim_fabric::collective::{CollectiveError, Op};
use stepsim_plan::step::groups::Group;
use stepsim_plan::step::residency::{IdleLinks, PolicyInputs, UnitTimes};
use stepsim_schedule::Slot;

impl IdleLinks for RankLinks<'_> {
    fn collective(&self, group: Group, op: Op, bytes: f64) -> Result<f64, CollectiveError> {
        self.time(group, op, bytes)
    }
    fn copy(&self, tier: u8, bytes: f64) -> [f64; 3] {
        self.copies.get(&tier).map_or([0.0; 3], |pipes| pipes.map(|pipe| pipe.time(bytes)))
    }
}

impl StepForm<'_> {
    /// A rank as its policies see it.
    pub fn given(&self, number: usize) -> PolicyInputs<'_> {
        let rank = &self.ranks[number];
        let chunks = rank.stages.iter().zip(&rank.chunks).map(|(stage, times)| {
            let units = self.stages[*stage].iter().zip(times).map(|(unit, passes)| UnitTimes {
                unit,
                forward: passes.time.forward.total(),
                backward: passes.time.recompute.total() + self.gradients(&passes.time).total(),
            });
            (units.collect(), *stage + 1 == self.stages.len())
        });
        let passes = f64::from(self.passes());
        PolicyInputs::new(&self.parts.shares, self.links_of(number), chunks.collect(), passes)
    }

    /// The demand of the policies on links and memory for passes of this kind.
    ///
    /// # Errors
    /// A collective that no algorithm can run.
    pub fn held(&self) -> Result<ResidencyDemand, CollectiveError> {
        let mut asked: Vec<Arc<PolicyDemand>> = Vec::with_capacity(self.ranks.len());
        for rank in 0..self.ranks.len() {
            let same = asked.last().filter(|_| self.alike(rank - 1, rank)).cloned();
            asked.push(same.map_or_else(|| self.asked(rank).map(Arc::new), Ok)?);
        }
        Ok(ResidencyDemand { asked, memory: self.memory(), floor: self.floor(), walks: RefCell::default() })
    }

    /// The bytes in each rank's device memory at its fullest.
    fn memory(&self) -> Vec<MemoryBytes> {
        let mut walk: Option<(usize, RankWalk<'_>)> = None;
        let of_rank = |(rank, slots): (usize, &Vec<Slot>)| {
            let (_, walk) = match walk.take().filter(|(other, _)| self.alike(*other, rank)) {
                Some(same) => walk.insert(same),
                None => {
                    let given = self.given(rank);
                    let held = self.parts.policies.laws().map(|law| law.held(&given));
                    walk.insert((rank, RankWalk::new(given, held, self.host_ahead(rank))))
                }
            };
            walk.fullest(slots)
        };
        self.parts.order.ranks.iter().enumerate().map(of_rank).collect()
    }
    /// True if the host adds nothing to a rank's forward passes: it launches ahead of the device.
    pub(super) fn host_ahead(&self, rank: usize) -> bool {
        self.ranks[rank].chunks.iter().flatten().all(|passes| passes.time.forward.host == 0.0)
    }
    /// True if two ranks hold equal units, for which policies ask and hold the same.
    fn alike(&self, a: usize, b: usize) -> bool {
        let last = self.stages.len() - 1;
        let stages = self.ranks[a].stages.iter().zip(&self.ranks[b].stages);
        self.parts.policies.laws().iter().all(|law| !law.tells_layers_apart())
            && self.parts.classes[a] == self.parts.classes[b]
            && self.ranks[a].stages.len() == self.ranks[b].stages.len()
            && stages.into_iter().all(|(&a, &b)| {
                let (own, other) = (&self.stages[a], &self.stages[b]);
                (a == last) == (b == last)
                    && own.len() == other.len()
                    && own.iter().zip(other).all(|(own, other)| own.equals(other))
            })
    }
}

/// The demand of the policies on links and memory. Batches whose order goes on by turns from one order share it.
pub(super) struct ResidencyDemand {
    /// Of the links, by pipeline rank.
    pub asked: Vec<Arc<PolicyDemand>>,
    /// Device memory of each pipeline rank.
    pub memory: Vec<MemoryBytes>,
    /// The least time of the step.
    pub floor: Floor,
    /// Ends of walked passes, by micro-batches and by the kinds of work that are on.
    pub walks: RefCell<FxHashMap<(u32, SideWork), f64>>,
}

impl ResidencyDemand {
    /// True if the walk with copies has the kernels of the update.
    pub fn updates_between_copies(&self) -> bool {
        self.asked.iter().any(|asked| asked.updates_between_copies())
    }
}
