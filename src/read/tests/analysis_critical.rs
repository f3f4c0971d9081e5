use proptest::prelude::*;
use stepsim_core::ids::RankId;
use stepsim_core::program::StreamKind;
use stepsim_core::units::Time;
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::critical::*;
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_read::analysis::kind::OpKind;

use crate::random_world;
use crate::random_world::Scenario;

fn path(s: &Scenario) -> CriticalPath {
    critical_path(&mut Causes::new(&s.world, &s.record), &mut IdleTimes::new(&s.world))
}

proptest! {
    #[test]
    fn the_path_fills_the_step(seed in any::<u64>()) {
        for s in random_world::both(seed) {
            let path = path(&s);
            prop_assert_eq!(path.total(), s.record.step_end);
            prop_assert_eq!(path.by_rank().iter().map(|r| r.1).sum::<Time>(), s.record.step_end);
            prop_assert!(path.links.windows(2).all(|w| w[0].end == w[1].ready));
        }
        let s = random_world::random(seed);
        let path = path(&s);
        // The path reports the sum that memory and contention added along it.
        let added = |l: &PathLink| s.added[l.rank.index()][l.op.index()];
        prop_assert_eq!(path.memory, path.links.iter().map(|l| added(l).0).sum());
        prop_assert_eq!(path.contention, path.links.iter().map(|l| added(l).1).sum());
    }
}

/// Rank 1's kernel of 4 is late for the collective of 2 that rank 0 needs: 4 on rank 1, then 2, then 3 on rank 0.
#[test]
fn the_path_crosses_to_the_late_peer() {
    let mut s = Scenario::of_two(StreamKind::Tensor, [1_000_000, 4_000_000], 2_000_000, 0);
    s.wait_for_last_comm(0);
    s.kernel(0, 0, 3_000_000, 0);
    let path = path(&s.finish());
    assert_eq!(path.by_kind[OpKind::Compute as usize], Time(7_000_000));
    assert_eq!(path.by_kind[OpKind::Tensor as usize], Time(2_000_000));
    let by_rank = path.by_rank();
    assert_eq!(by_rank, [(RankId(0), Time(3_000_000)), (RankId(1), Time(6_000_000))]);
}
