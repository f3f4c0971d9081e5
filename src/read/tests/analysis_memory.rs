use proptest::prelude::*;
use stepsim_core::ids::{RankId, TierId};
use stepsim_core::program::{MemoryClass, MemoryWhen, StreamKind};
use stepsim_core::units::{Bytes, Time};
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::memory::*;

use crate::random_world;
use crate::random_world::Scenario;

fn ledger(s: &Scenario) -> TierLedger {
    TierLedger::replay(&Causes::new(&s.world, &s.record), TierId(0), &users(&s.world)[0])
}

proptest! {
    #[test]
    fn what_comes_and_stays_is_what_is_there_at_the_end(seed in any::<u64>()) {
        for s in random_world::both(seed) {
            let curve = ledger(&s).curve();
            let mut expected = [0i64; 5];
            for program in &s.world.programs {
                for e in &program.resident {
                    expected[e.class as usize] += e.bytes as i64;
                }
                for e in &program.memory {
                    let sign = if e.when == MemoryWhen::AllocAtStart { 1 } else { -1 };
                    expected[e.class as usize] += sign * e.bytes as i64;
                }
            }
            prop_assert_eq!(curve.last().map(|b| b as i64), expected);
            prop_assert!(curve.peak().bytes <= s.world.tiers[0].capacity);
            prop_assert!(curve.points.windows(2).all(|w| w[0].0 < w[1].0));
        }
    }
}

/// 100 resident; 0–2: +50 activations; 2–5: +30 workspace, freed at its end, and 50 activations freed then.
#[test]
fn a_peak_names_what_is_resident() {
    let mut s = Scenario::new(2);
    for r in 0..2 {
        let compute = s.stream(r, StreamKind::Compute);
        s.resident(r, MemoryClass::Weights, 100);
        s.kernel(r, compute, 2, 0);
        s.memory(r, MemoryWhen::AllocAtStart, MemoryClass::Activations, 50);
        s.kernel(r, compute, 3, 0);
        s.memory(r, MemoryWhen::AllocAtStart, MemoryClass::Workspace, 30);
        s.memory(r, MemoryWhen::FreeAtEnd, MemoryClass::Workspace, 30);
        s.memory(r, MemoryWhen::FreeAtEnd, MemoryClass::Activations, 50);
    }
    let mut s = s.finish();
    s.world.tier_uses[1].count = 3;
    let ledger = ledger(&s);
    assert_eq!(
        ledger.rank_curve(RankId(0)).points,
        [(Time(0), [100, 0, 0, 50, 0]), (Time(2), [100, 0, 0, 50, 30]), (Time(5), [100, 0, 0, 0, 0])]
    );
    let by_class = [400, 0, 0, 200, 120];
    assert_eq!(ledger.curve().peak(), Peak { bytes: Bytes(720), at: Time(2), by_class });
}

/// Rank 0 arrives at 1 and holds its buffer while it waits for rank 1, which arrives at 6.
#[test]
fn a_member_that_waits_holds_its_bytes() {
    let mut s = Scenario::of_two(StreamKind::Data, [1, 6], 3, 0);
    for r in 0..2 {
        s.memory(r, MemoryWhen::AllocAtStart, MemoryClass::Weights, 7);
        s.memory(r, MemoryWhen::FreeAtEnd, MemoryClass::Weights, 7);
    }
    let s = s.finish();
    let at = |weights: u64| [weights, 0, 0, 0, 0];
    assert_eq!(
        ledger(&s).rank_curve(RankId(0)).points,
        [(Time(0), at(0)), (Time(1), at(7)), (Time(9), at(0))]
    );
    assert_eq!(ledger(&s).curve().peak().at, Time(6));
}
