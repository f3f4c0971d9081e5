use proptest::prelude::*;
use stepsim_core::intervals::*;

fn some() -> impl Strategy<Value = Vec<(i64, i64)>> {
    prop::collection::vec((0_i64..60, 0_i64..9).prop_map(|(from, length)| (from, from + length)), 0..12)
}

/// Every nanosecond on its own.
fn points(list: impl Iterator<Item = (i64, i64)>) -> [bool; 80] {
    let list: Vec<_> = list.collect();
    std::array::from_fn(|t| list.iter().any(|(from, to)| (*from..*to).contains(&(t as i64))))
}

proptest! {
    #[test]
    fn sets_of_time_are_those_of_their_points(a in some(), b in some()) {
        let (pa, pb) = (points(a.iter().copied()), points(b.iter().copied()));
        let (a, b) = (Intervals::union(a), Intervals::union(b));
        prop_assert_eq!(points(a.iter()), pa);
        let both: [bool; 80] = std::array::from_fn(|t| pa[t] && pb[t]);
        prop_assert_eq!(points(a.meet(&b).iter()), both);
        let none: [bool; 80] = std::array::from_fn(|t| !pa[t] && (5..70).contains(&t));
        prop_assert_eq!(points(a.gaps((5, 70)).iter()), none);
        prop_assert_eq!(a.length(), pa.iter().filter(|p| **p).count() as i64);
    }
}
