use proptest::prelude::*;
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::program::{StreamKind, Work};
use stepsim_core::units::Time;
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::critical::critical_path;
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_read::analysis::kind::OpKind;
use stepsim_read::analysis::slack::*;
use stepsim_read::analysis::turns::Recurring;

use crate::random_world;
use crate::random_world::Scenario;

fn of(s: &Scenario) -> Slack {
    slack(&Causes::new(&s.world, &s.record))
}

/// The end of the step if one kernel takes `later` longer and all else as long as it did: a forward sweep in the
/// order of the starts, which that delay does not change.
fn delayed(s: &Scenario, rank: usize, op: usize, later: Time) -> Time {
    let causes = Causes::new(&s.world, &s.record);
    let mut order: Vec<(RankId, OpId)> = (0..s.record.ranks())
        .flat_map(|r| (0..s.world.program_of(RankId(r)).ops.len() as u32).map(move |o| (RankId(r), OpId(o))))
        .collect();
    order.sort_by_key(|&(r, o)| (s.record.span(r, o), o));
    let mut ends = s.record.spans.clone();
    let at = |r: RankId, o: OpId| s.record.first[r.index()] as usize + o.index();
    // Until nothing moves: ties may stand in any order.
    loop {
        let before = ends.clone();
        for &(r, o) in &order {
            let ready = |ends: &[(Time, Time)], r: RankId, o: OpId| {
                let program = s.world.program_of(r);
                let waits = &program.waits[program.ops[o.index()].waits.range()];
                waits
                    .iter()
                    .chain(&causes.predecessor(r, o))
                    .map(|w| ends[at(r, *w)].1)
                    .max()
                    .unwrap_or_default()
            };
            let members = match s.world.program_of(r).ops[o.index()].work {
                Work::Comm { .. } => causes.members(r, o),
                Work::Compute { .. } => vec![(r, o)],
            };
            let was = members.iter().map(|&(r, o)| ready(&s.record.spans, r, o)).max().unwrap_or_default();
            let is = members.iter().map(|&(r, o)| ready(&ends, r, o)).max().unwrap_or_default();
            let more = if (r.index(), o.index()) == (rank, op) { later } else { Time::ZERO };
            ends[at(r, o)].1 = is + (s.record.span(r, o).1 - was) + more;
        }
        if ends == before {
            return ends.iter().map(|e| e.1).max().unwrap_or_default();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_path_has_no_slack(seed in any::<u64>()) {
        for s in random_world::both(seed) {
            let slack = of(&s);
            let path = critical_path(&mut Causes::new(&s.world, &s.record), &mut IdleTimes::new(&s.world));
            for link in &path.links {
                prop_assert_eq!(slack.get(link.rank, link.op), Time::ZERO);
            }
        }
    }

    /// A kernel that ends later by its slack moves nothing; by more, the step by the difference.
    #[test]
    fn slack_is_how_late_a_kernel_may_end(seed in any::<u64>(), pick in any::<prop::sample::Index>()) {
        let s = random_world::random(seed);
        let kernels: Vec<(usize, usize)> = (0..s.record.ranks() as usize)
            .flat_map(|r| {
                let ops = &s.world.program_of(RankId(r as u32)).ops;
                let is_kernel = |o: &usize| matches!(ops[*o].work, Work::Compute { .. });
                (0..ops.len()).filter(is_kernel).map(move |o| (r, o)).collect::<Vec<_>>()
            })
            .collect();
        if !kernels.is_empty() {
            let (rank, op) = kernels[pick.index(kernels.len())];
            let slack = of(&s).get(RankId(rank as u32), OpId(op as u32));
            prop_assert_eq!(delayed(&s, rank, op, slack), s.record.step_end);
            let more = Time(12_345);
            prop_assert_eq!(delayed(&s, rank, op, slack + more), s.record.step_end + more);
        }
    }
}

/// Kernels of 2 and 5 on two ranks meet in a collective: the first may be 3 late.
#[test]
fn who_waits_has_slack() {
    let s = Scenario::of_two(StreamKind::Tensor, [2_000_000, 5_000_000], 1_000_000, 0).finish();
    let slack = of(&s);
    assert_eq!(slack.get(RankId(0), OpId(0)), Time(3_000_000));
    assert_eq!(slack.get(RankId(1), OpId(0)), Time::ZERO);
    let kinds = by_kind(sums(&Causes::new(&s.world, &s.record), &slack, &[1, 1], &Recurring::default()), 2);
    let compute = &kinds[&OpKind::Compute];
    assert_eq!((compute.time_s, compute.binding_s, compute.least_s), (3.5e-6, 2.5e-6, 0.0));
}
