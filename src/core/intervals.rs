//! Sets of time as sorted disjoint intervals, in nanoseconds or in another unit.

use std::iter::Sum;
use std::ops::Sub;

/// A sorted list of intervals that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intervals<T = i64>(Vec<(T, T)>);

impl<T: Copy + Ord> Intervals<T> {
    /// The union of intervals in any order; empty ones are left out.
    pub fn union(intervals: impl IntoIterator<Item = (T, T)>) -> Intervals<T> {
        let mut all: Vec<_> = intervals.into_iter().filter(|(from, to)| from < to).collect();
        all.sort_unstable();
        let mut out: Vec<(T, T)> = Vec::new();
        for (from, to) in all {
            match out.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => out.push((from, to)),
            }
        }
        Intervals(out)
    }
    /// The intervals in order.
    pub fn iter(&self) -> impl Iterator<Item = (T, T)> {
        self.0.iter().copied()
    }
    /// Total length.
    pub fn length(&self) -> T
    where
        T: Sub<Output = T> + Sum,
    {
        self.iter().map(|(from, to)| to - from).sum()
    }
    /// Time in both.
    pub fn meet(&self, other: &Intervals<T>) -> Intervals<T> {
        let (mut i, mut j, mut out) = (0, 0, Vec::new());
        while let (Some(a), Some(b)) = (self.0.get(i), other.0.get(j)) {
            let (from, to) = (a.0.max(b.0), a.1.min(b.1));
            if from < to {
                out.push((from, to));
            }
            if a.1 < b.1 { i += 1 } else { j += 1 }
        }
        Intervals(out)
    }
    /// Time in neither, between the first start and the last end of `window`.
    pub fn gaps(&self, window: (T, T)) -> Intervals<T> {
        let (mut at, mut out) = (window.0, Vec::new());
        for (from, to) in self.iter() {
            if at < from.min(window.1) {
                out.push((at, from.min(window.1)));
            }
            at = at.max(to);
        }
        if at < window.1 {
            out.push((at, window.1));
        }
        Intervals(out)
    }
}
