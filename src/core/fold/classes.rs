//! The parts of a folded world.

use crate::ids::RankId;
use crate::program::World;

/// A partition of the entries of one table of a world. Classes are numbered by their first entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    /// Class of each entry.
    pub of: Vec<u32>,
    /// First entry of each class.
    pub representative: Vec<u32>,
    /// Number of entries of each class.
    pub size: Vec<u32>,
}

impl Classes {
    /// Numbers the classes of a colouring (colours below `colours`) in order of their first entries.
    pub(super) fn of_colouring(colouring: &[u32], colours: usize) -> Classes {
        let mut number = vec![u32::MAX; colours];
        let mut classes = Classes { of: Vec::with_capacity(colouring.len()), ..Classes::default() };
        colouring.iter().for_each(|colour| classes.add(&mut number[*colour as usize]));
        classes
    }
    /// The class of the next entry, which is a new one where `class` has no number yet (`u32::MAX`).
    pub(super) fn add(&mut self, class: &mut u32) {
        if *class == u32::MAX {
            *class = self.len() as u32;
            self.representative.push(self.of.len() as u32);
            self.size.push(0);
        }
        self.size[*class as usize] += 1;
        self.of.push(*class);
    }
    /// Each of `n` entries in a class of its own.
    fn discrete(n: usize) -> Classes {
        let all: Vec<u32> = (0..n as u32).collect();
        Classes { of: all.clone(), representative: all, size: vec![1; n] }
    }
    /// Number of classes.
    pub fn len(&self) -> usize {
        self.representative.len()
    }
    /// True if there is no class: the table is empty.
    pub fn is_empty(&self) -> bool {
        self.representative.is_empty()
    }
}

/// A folded world, and where each entry of the full one went: class numbers are the folded world's ids.
#[derive(Clone, Debug)]
pub struct FoldedWorld {
    /// One rank, communicator, resource and tier per class.
    pub world: World,
    /// Classes of ranks.
    pub ranks: Classes,
    /// Classes of communicators.
    pub comms: Classes,
    /// Classes of resources.
    pub resources: Classes,
    /// Classes of tiers.
    pub tiers: Classes,
}

impl FoldedWorld {
    /// The world as it is, rounds of transfers written out, nothing merged: what `--no-fold` runs.
    pub fn unfolded(mut world: World) -> FoldedWorld {
        world.flatten();
        FoldedWorld {
            ranks: Classes::discrete(world.ranks.len()),
            comms: Classes::discrete(world.comms.len()),
            resources: Classes::discrete(world.resources.len()),
            tiers: Classes::discrete(world.tiers.len()),
            world,
        }
    }
    /// The rank of the folded world with the spans of `rank` of the full one.
    #[inline]
    pub fn source(&self, rank: RankId) -> RankId {
        RankId(self.ranks.of[rank.index()])
    }
    /// The rank of the full world that stands for a rank of the folded one: the first of its class.
    #[inline]
    pub fn representative(&self, folded: RankId) -> RankId {
        RankId(self.ranks.representative[folded.index()])
    }
    /// How many ranks of the full world behave as this rank of the folded one.
    #[inline]
    pub fn size(&self, folded: RankId) -> u32 {
        self.ranks.size[folded.index()]
    }
}
