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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn some() -> impl Strategy<Value = Vec<(i64, i64)>> {
        prop::collection::vec((0_i64..60, 0_i64..9).prop_map(|(from, length)| (from, from + length)), 0..12)
    }

    /// Every nanosecond on its own.
    fn points(list: &[(i64, i64)]) -> [bool; 80] {
        std::array::from_fn(|t| list.iter().any(|(from, to)| (*from..*to).contains(&(t as i64))))
    }

    proptest! {
        #[test]
        fn sets_of_time_are_those_of_their_points(a in some(), b in some()) {
            let (pa, pb) = (points(&a), points(&b));
            let (a, b) = (Intervals::union(a), Intervals::union(b));
            prop_assert_eq!(points(&a.0), pa);
            let both: [bool; 80] = std::array::from_fn(|t| pa[t] && pb[t]);
            prop_assert_eq!(points(&a.meet(&b).0), both);
            let none: [bool; 80] = std::array::from_fn(|t| !pa[t] && (5..70).contains(&t));
            prop_assert_eq!(points(&a.gaps((5, 70)).0), none);
            prop_assert_eq!(a.length(), pa.iter().filter(|p| **p).count() as i64);
        }
    }
}
