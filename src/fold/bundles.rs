//! Communicators that share their tables: of the same ranks on the same paths, in one vertex.
//!
//! A pipeline with many chunks has a channel for each pair of virtual stages and direction, and all those from one rank to
//! another are what the first is, but for the slots through which the two ranks use them. The n-th communicator of a bundle
//! is met through the same slots, and crosses the same resources, wherever bundles are alike: so a partition in which
//! bundles take the place of their communicators is stable if and only if that of the communicators is, each told apart by the
//! class of its bundle and its number in it.

use rustc_hash::FxHashMap;

use super::Classes;
use super::ways::graphs;
use crate::program::World;

/// The bundles of a world's communicators.
#[derive(Debug, Default)]
pub(super) struct Bundles {
    /// By communicator: its bundle, and its number in it.
    pub of: Vec<u32>,
    pub twin: Vec<u32>,
    /// By bundle: its first communicator, and how many there are.
    pub first: Vec<u32>,
    pub size: Vec<u32>,
}

impl Bundles {
    /// Those of a world. Communicators that play graphs of flows have paths of their own colours and stand alone.
    pub fn of(world: &World) -> Bundles {
        const NONE: u32 = u32::MAX;
        let graphs = graphs(world);
        let mut bundles = Bundles::default();
        // By place in the table of members, where lists of their own begin at places of their own.
        let mut at = vec![NONE; world.members.len()];
        for (c, comm) in (0..).zip(&world.comms) {
            let alone =
                comm.members.len == 0 || graphs.get(comm.profile as usize).is_some_and(|graph| *graph);
            let known = at.get(comm.members.start as usize).copied().filter(|_| !alone).unwrap_or(NONE);
            let same = |bundle: &u32| world.comms[bundles.first[*bundle as usize] as usize] == *comm;
            match Some(known).filter(|known| *known != NONE).filter(same) {
                Some(bundle) => {
                    bundles.of.push(bundle);
                    bundles.twin.push(bundles.size[bundle as usize]);
                    bundles.size[bundle as usize] += 1;
                }
                None => {
                    let bundle = bundles.first.len() as u32;
                    if let Some(at) = at.get_mut(comm.members.start as usize).filter(|_| !alone) {
                        *at = bundle;
                    }
                    bundles.of.push(bundle);
                    bundles.twin.push(0);
                    bundles.first.push(c);
                    bundles.size.push(1);
                }
            }
        }
        bundles
    }

    /// The classes of communicators, numbered by their first ones, those of the bundles being known; and for each class
    /// of bundles those of its communicators.
    pub fn classes(&self, of_bundles: &[u32]) -> (Classes, FxHashMap<u32, Vec<u32>>) {
        let mut own: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        let mut classes = Classes { of: Vec::with_capacity(self.of.len()), ..Classes::default() };
        for (c, (bundle, twin)) in (0..).zip(self.of.iter().zip(&self.twin)) {
            let own = own.entry(of_bundles[*bundle as usize]).or_default();
            // The communicators of a bundle come in the order of their numbers in it.
            if own.len() == *twin as usize {
                own.push(classes.len() as u32);
                classes.representative.push(c);
                classes.size.push(0);
            }
            let class = own[*twin as usize];
            classes.size[class as usize] += 1;
            classes.of.push(class);
        }
        (classes, own)
    }
}
