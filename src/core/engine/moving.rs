//! Flows whose finish moves, the earliest first.
//!
//! Order is by (time, number of the change), so the same changes give the same order whatever the queue looks like
//! inside.

use std::cmp::Reverse;

use priority_queue::PriorityQueue;
use rustc_hash::FxBuildHasher;

use crate::units::Time;

/// Transits in the order of their ends.
#[derive(Default)]
pub struct Moving {
    /// By transit: its end, and the number of the change that gave it that end.
    queue: PriorityQueue<u32, Reverse<(Time, u64)>, FxBuildHasher>,
}

impl Moving {
    /// When the first one ends.
    #[inline]
    pub fn first(&self) -> Option<Time> {
        self.queue.peek().map(|(_, Reverse((end, _)))| *end)
    }

    /// Takes the first one: its transit, and the number of the change that gave it its end.
    pub fn pop(&mut self) -> Option<(u32, u64)> {
        self.queue.pop().map(|(transit, Reverse((_, change)))| (transit, change))
    }

    /// The end of a transit, and the number of the change that gave it that end.
    pub fn end(&self, transit: u32) -> Option<(Time, u64)> {
        self.queue.get_priority(&transit).map(|Reverse(end)| *end)
    }

    /// Gives a transit an end, or another one.
    pub fn set(&mut self, transit: u32, end: Time, change: u64) {
        self.queue.push(transit, Reverse((end, change)));
    }
}
