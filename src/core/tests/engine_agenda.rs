use std::collections::BTreeSet;

use proptest::prelude::*;
use stepsim_core::engine::agenda::*;

proptest! {
    /// Against a sorted set: any events that are not before now, and now moves on with the first one or before it.
    #[test]
    fn the_first_comes_first(
        steps in prop::collection::vec((0u32..5, 0u64..1 << 62, 0u32..63, 1usize..80), 0..200),
    ) {
        let (mut agenda, mut sorted, mut now, mut number) = (Agenda::default(), BTreeSet::new(), 0u64, 0u64);
        for (what, time, bits, times) in steps {
            for i in 0..times as u64 {
                prop_assert_eq!(agenda.first(), sorted.first().copied());
                let first = agenda.first();
                match (what, first) {
                    (0 | 1, _) => {
                        // Spread over many times, or all at one.
                        let after = (time >> bits).wrapping_mul(1 + i * u64::from(what)) % (1 << 62);
                        number += 1;
                        let event = u128::from(now.saturating_add(after)) << 64 | u128::from(number);
                        agenda.push(event);
                        sorted.insert(event);
                    }
                    (2 | 3, Some(event)) => {
                        agenda.pop();
                        sorted.pop_first();
                        now = time_of(event);
                    }
                    (_, Some(event)) => now += (time_of(event) - now) / 2,
                    _ => {}
                }
            }
            prop_assert_eq!(agenda.iter().collect::<BTreeSet<_>>(), sorted.clone());
        }
    }
}
