//! Communicators that share their tables: of the same ranks on the same paths, in one vertex.
//!
//! A pipeline with many chunks has a channel for each pair of virtual stages and direction, and all channels from one
//! rank to another are what the first is, but for the slots through which the two ranks use them. The n-th
//! communicator of a bundle is met through the same slots, and crosses the same resources, wherever bundles are alike:
//! so a partition in which bundles take the place of their communicators is stable if and only if the partition of the
//! communicators is, each told apart by the class of its bundle and its number in it.

use super::Classes;
use crate::program::World;

/// The bundles of a world's communicators: one for each that is written.
#[derive(Debug)]
pub struct Bundles<'w> {
    /// By communicator: its bundle.
    pub of: &'w [u32],
    /// By communicator: its number in the bundle.
    pub twin: Vec<u32>,
    /// By bundle: its first communicator.
    pub first: Vec<u32>,
    /// By bundle: how many there are.
    pub size: Vec<u32>,
}

impl<'w> Bundles<'w> {
    /// Those of a world. Communicators that play graphs of flows have paths of their own colours and stand alone.
    pub fn of(world: &'w World) -> Bundles<'w> {
        let of = world.comms.entry();
        let bundles = world.comms.entries().len();
        let (mut first, mut size) = (vec![0; bundles], vec![0; bundles]);
        let twins = (0..).zip(of).map(|(c, bundle)| {
            let size = &mut size[*bundle as usize];
            if *size == 0 {
                first[*bundle as usize] = c;
            }
            *size += 1;
            *size - 1
        });
        Bundles { twin: twins.collect(), of, first, size }
    }

    /// Number of bundles.
    pub fn count(&self) -> usize {
        self.first.len()
    }

    /// True if none has more than one communicator.
    pub fn alone(&self) -> bool {
        self.size.iter().all(|size| *size <= 1)
    }

    /// The classes of communicators, numbered by their first ones, from the classes of the bundles (`colours`: colours
    /// below which they are); and for each bundle the classes of its communicators.
    pub fn classes(&self, of_bundles: &[u32], colours: usize) -> (Classes, Twins) {
        let bundles = Classes::of_colouring(of_bundles, colours);
        let mut twins = Twins { first: vec![0], class: Vec::new(), of: bundles.of };
        for bundle in bundles.representative {
            twins.class.resize(twins.class.len() + self.size[bundle as usize] as usize, u32::MAX);
            twins.first.push(twins.class.len() as u32);
        }
        let mut classes = Classes { of: Vec::with_capacity(self.of.len()), ..Classes::default() };
        for (bundle, twin) in self.of.iter().zip(&self.twin) {
            let at = twins.range(*bundle).start + *twin as usize;
            classes.add(&mut twins.class[at]);
        }
        (classes, twins)
    }
}

/// The classes of the communicators of each bundle.
pub struct Twins {
    /// By bundle: its class.
    of: Vec<u32>,
    /// By class of bundles: where its communicators begin in `class`.
    first: Vec<u32>,
    class: Vec<u32>,
}

impl Twins {
    fn range(&self, bundle: u32) -> std::ops::Range<usize> {
        let class = self.of[bundle as usize] as usize;
        self.first[class] as usize..self.first[class + 1] as usize
    }
    /// The classes of the communicators of a bundle, in order.
    pub fn of(&self, bundle: u32) -> &[u32] {
        &self.class[self.range(bundle)]
    }
}
