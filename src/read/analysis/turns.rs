//! Readings of steps that go on by turns.
//!
//! Whatever is a sum over what happened grows by as much with each turn of a schedule. So the sums of two steps, one a turn
//! longer than the other, tell those of any longer one, to the last digit: they are whole numbers.

use std::collections::BTreeMap;

use crate::core::units::{Bytes, Time};

/// A sum over a step, or several.
pub(crate) trait Sums {
    /// Makes the sum that of a step longer by so many turns; `next` is that of the step longer by one.
    fn go_on(&mut self, next: &Self, turns: u64);
}

macro_rules! whole_numbers {
    ($($number:ty),*) => {$(
        impl Sums for $number {
            fn go_on(&mut self, next: &Self, turns: u64) {
                // Wrapped around, a sum that falls goes on as one that grows.
                *self = self.wrapping_add(next.wrapping_sub(*self).wrapping_mul(turns as $number));
            }
        }
    )*};
}
whole_numbers!(u64, u128, i128);

impl Sums for Time {
    fn go_on(&mut self, next: &Self, turns: u64) {
        self.0.go_on(&next.0, turns);
    }
}

impl Sums for Bytes {
    fn go_on(&mut self, next: &Self, turns: u64) {
        self.0.go_on(&next.0, turns);
    }
}

impl<T: Sums> Sums for [T] {
    fn go_on(&mut self, next: &Self, turns: u64) {
        self.iter_mut().zip(next).for_each(|(sum, next)| sum.go_on(next, turns));
    }
}

impl<T: Sums, const N: usize> Sums for [T; N] {
    fn go_on(&mut self, next: &Self, turns: u64) {
        self[..].go_on(&next[..], turns);
    }
}

impl<K: Ord + Clone, V: Sums + Default> Sums for BTreeMap<K, V> {
    fn go_on(&mut self, next: &Self, turns: u64) {
        next.iter().for_each(|(key, next)| self.entry(key.clone()).or_default().go_on(next, turns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 7 and 10 and 13 …: nine turns on it is 34. What there was not before comes with the first turn.
    #[test]
    fn sums_go_on_as_they_began() {
        let (mut sums, next) = (BTreeMap::from([('a', 7u64)]), BTreeMap::from([('a', 10), ('b', 2)]));
        sums.go_on(&next, 9);
        assert_eq!(sums, BTreeMap::from([('a', 34), ('b', 18)]));
        let (mut falling, next) = ([Time(5), Time(1)], [Time(4), Time(1)]);
        falling.go_on(&next, 3);
        assert_eq!(falling, [Time(2), Time(1)]);
    }
}
