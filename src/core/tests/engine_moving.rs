use std::collections::BTreeMap;

use proptest::prelude::*;
use stepsim_core::engine::moving::*;
use stepsim_core::units::Time;

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
