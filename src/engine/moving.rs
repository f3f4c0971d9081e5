//! Flows whose finish moves, the earliest first: a heap of four ways that knows where each flow stands.
//!
//! Order is by (time, number of the change), so the same changes give the same order whatever the heap looks like.

use super::code::NONE;
use crate::units::Time;

/// Children of a place.
const WAYS: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Time above, number of the change below.
    key: u128,
    transit: u32,
}

/// Transits in the order of their ends.
#[derive(Debug, Default)]
pub(super) struct Moving {
    heap: Vec<Entry>,
    /// By transit: its place in the heap, or `NONE`.
    place: Vec<u32>,
}

impl Moving {
    /// When the first one ends.
    #[inline]
    pub fn first(&self) -> Option<Time> {
        self.heap.first().map(|entry| Time((entry.key >> 64) as u64))
    }

    /// Takes the first one: its transit, and the number of the change that gave it its end.
    pub fn pop(&mut self) -> Option<(u32, u64)> {
        let first = *self.heap.first()?;
        let last = self.heap.pop()?;
        self.place[first.transit as usize] = NONE;
        if last.transit != first.transit {
            self.down(0, last);
        }
        Some((first.transit, first.key as u64))
    }

    /// Gives a transit an end, or another one.
    pub fn set(&mut self, transit: u32, end: Time, change: u64) {
        if self.place.len() <= transit as usize {
            self.place.resize(transit as usize + 1, NONE);
        }
        let entry = Entry { key: u128::from(end.0) << 64 | u128::from(change), transit };
        match self.place[transit as usize] {
            NONE => {
                self.heap.push(entry);
                self.up(self.heap.len() - 1, entry);
            }
            at if entry.key < self.heap[at as usize].key => self.up(at as usize, entry),
            at => self.down(at as usize, entry),
        }
    }

    #[inline]
    fn put(&mut self, at: usize, entry: Entry) {
        self.place[entry.transit as usize] = at as u32;
        self.heap[at] = entry;
    }

    fn up(&mut self, mut at: usize, entry: Entry) {
        while at > 0 {
            let above = (at - 1) / WAYS;
            if self.heap[above].key <= entry.key {
                break;
            }
            self.put(at, self.heap[above]);
            at = above;
        }
        self.put(at, entry);
    }

    fn down(&mut self, mut at: usize, entry: Entry) {
        loop {
            let (first, len) = (WAYS * at + 1, self.heap.len());
            let below = &self.heap[first.min(len)..(first + WAYS).min(len)];
            let Some((i, least)) = below.iter().copied().enumerate().min_by_key(|(_, e)| e.key) else {
                break;
            };
            if least.key >= entry.key {
                break;
            }
            self.put(at, least);
            at = first + i;
        }
        self.put(at, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Against a sorted list: set, set again, and take the first.
        #[test]
        fn the_first_comes_first(steps in prop::collection::vec((0u32..40, 0u64..50, any::<bool>()), 0..300)) {
            let (mut moving, mut list) = (Moving::default(), BTreeMap::new());
            for (change, (transit, end, takes)) in (1..).zip(steps) {
                if takes {
                    let first = list.iter().min_by_key(|(_, key)| **key).map(|(t, key)| (*t, *key));
                    prop_assert_eq!(moving.first(), first.map(|(_, (end, _))| Time(end)));
                    prop_assert_eq!(moving.pop(), first.map(|(transit, (_, change))| (transit, change)));
                    first.map(|(transit, _)| list.remove(&transit));
                } else {
                    moving.set(transit, Time(end), change);
                    list.insert(transit, (end, change));
                }
            }
        }
    }
}
