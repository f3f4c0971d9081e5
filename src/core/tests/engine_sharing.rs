use proptest::prelude::*;

use stepsim_core::engine::sharing::*;
use stepsim_core::ids::ResourceId;
use stepsim_core::units::Time;

/// Rates of flows that all start at once, each path given as resources used once.
fn rates(capacity: &[f64], paths: &[&[u32]]) -> Vec<f64> {
    let mut uses = Vec::new();
    let mut spans = Vec::new();
    for path in paths {
        let start = uses.len() as u32;
        uses.extend(path.iter().map(|&r| (ResourceId(r), 1)));
        spans.push(start..uses.len() as u32);
    }
    let mut sharing = Sharing::new(capacity.to_vec(), &uses);
    let ids: Vec<_> =
        spans.into_iter().map(|p| sharing.insert(Time::ZERO, 1.0, f64::INFINITY, p).0).collect();
    sharing.solve(Time::ZERO, |_, _| {});
    ids.into_iter().map(|id| sharing.rate(id)).collect()
}

#[test]
fn two_flows_halve_a_link() {
    assert_eq!(rates(&[10.0], &[&[0], &[0]]), [5.0, 5.0]);
}

#[test]
fn what_a_bottlenecked_flow_leaves_goes_to_the_other() {
    // Flow 0 crosses both links, flow 1 the wide one, flow 2 the narrow one.
    assert_eq!(rates(&[10.0, 4.0], &[&[0, 1], &[0], &[1]]), [2.0, 8.0, 2.0]);
}

#[test]
fn parking_lot() {
    // A long flow over n equal links, each with one short flow: everybody gets half.
    assert_eq!(rates(&[1.0, 1.0, 1.0], &[&[0, 1, 2], &[0], &[1], &[2]]), [0.5; 4]);
}

#[test]
fn a_limit_frees_the_rest_for_others() {
    let uses = [(ResourceId(0), 1)];
    let mut sharing = Sharing::new(vec![10.0], &uses);
    let (slow, _) = sharing.insert(Time::ZERO, 1.0, 2.0, 0..1);
    let (fast, _) = sharing.insert(Time::ZERO, 1.0, f64::INFINITY, 0..1);
    sharing.solve(Time::ZERO, |_, _| {});
    assert_eq!((sharing.rate(slow), sharing.rate(fast)), (2.0, 8.0));
}

/// Two ports of 10 behind an uplink: of 30, which they cannot fill, and of 15, which they fill until one flow
/// leaves.
#[test]
fn a_link_that_cannot_fill_joins_nobody() {
    let uses = [(ResourceId(0), 1), (ResourceId(2), 1), (ResourceId(1), 1), (ResourceId(2), 1)];
    for (uplink, first, joins) in [(30.0, 10.0, false), (15.0, 7.5, true)] {
        let mut sharing = Sharing::new(vec![10.0, 10.0, uplink], &uses);
        let a = sharing.insert(Time::ZERO, 1.0, f64::INFINITY, 0..2).0;
        let b = sharing.insert(Time::ZERO, 1.0, f64::INFINITY, 2..4).0;
        sharing.solve(Time::ZERO, |_, _| {});
        assert_eq!((sharing.rate(a), sharing.rate(b)), (first, first));
        sharing.remove(a);
        assert_eq!(sharing.is_dirty(), joins);
        sharing.solve(Time::ZERO, |_, _| {});
        assert_eq!(sharing.rate(b), 10.0);
    }
}

/// One flow over three links of 10 that two others hold down to 5: what comes and goes there is solved without
/// it, until nothing holds it down any more.
#[test]
fn a_flow_that_keeps_its_rate_is_left_alone() {
    let uses = [0, 1, 2, 0, 1, 2].map(|r| (ResourceId(r), 1));
    let mut sharing = Sharing::new(vec![10.0; 3], &uses);
    let long = sharing.insert(Time::ZERO, 1.0, f64::INFINITY, 0..3).0;
    let mut short = Vec::new();
    for (link, free) in [(3, 2), (4, 1), (5, 1)] {
        short.push(sharing.insert(Time::ZERO, 1.0, f64::INFINITY, link..link + 1).0);
        sharing.solve(Time::ZERO, |_, _| {});
        assert_eq!((sharing.rate(long), sharing.solved()), (5.0, free));
    }
    for (flow, rate, free) in [(short[0], 5.0, 0), (short[2], 5.0, 0), (short[1], 10.0, 1)] {
        sharing.remove(flow);
        sharing.solve(Time::ZERO, |_, _| {});
        assert_eq!((sharing.rate(long), sharing.solved()), (rate, free));
    }
}

#[test]
fn a_coefficient_counts_as_that_many_crossings() {
    let uses = [(ResourceId(0), 3), (ResourceId(0), 1)];
    let mut sharing = Sharing::new(vec![8.0], &uses);
    let a = sharing.insert(Time::ZERO, 1.0, f64::INFINITY, 0..1).0;
    let b = sharing.insert(Time::ZERO, 1.0, f64::INFINITY, 1..2).0;
    sharing.solve(Time::ZERO, |_, _| {});
    assert_eq!((sharing.rate(a), sharing.rate(b)), (2.0, 2.0));
    sharing.remove(a);
    sharing.solve(Time::ZERO, |_, _| {});
    assert_eq!(sharing.rate(b), 8.0);
}

/// Eight links, of round capacities so that levels meet, and ways over some of them.
fn links_and_ways() -> impl Strategy<Value = (Vec<f64>, Vec<Vec<(u32, u32)>>)> {
    let capacity = prop_oneof![Just(50e9), Just(100e9), Just(50e9 / 3.0), (1..100u32).prop_map(f64::from)];
    let way = prop::collection::btree_map(0..8u32, prop_oneof![3 => Just(1u32), 1 => 2..4u32], 0..8);
    let ways = prop::collection::vec(way.prop_map(|way| way.into_iter().collect()), 12);
    (prop::collection::vec(capacity, 8), ways)
}

proptest! {
    /// Rates found part by part, as flows come, go and get other limits, equal to the last bit the rates of all
    /// flows computed at once.
    #[test]
    fn parts_have_the_rates_of_the_whole(
        (capacity, ways) in links_and_ways(),
        steps in prop::collection::vec((0..12usize, 0..4u32, 1..60u32, any::<bool>()), 1..80),
    ) {
        let (mut uses, mut spans) = (Vec::new(), Vec::new());
        for way in &ways {
            let start = uses.len() as u32;
            uses.extend(way.iter().map(|&(r, a)| (ResourceId(r), a)));
            spans.push(start..uses.len() as u32);
        }
        let mut sharing = Sharing::new(capacity.clone(), &uses);
        let mut live: Vec<(FlowId, f64, usize)> = Vec::new();
        for (which, what, limit, solves) in steps {
            let limit = if limit % 2 == 0 { f64::INFINITY } else { f64::from(limit) * 1e9 };
            let at = which % live.len().max(1);
            match what {
                0 if !live.is_empty() => sharing.remove(live.swap_remove(at).0),
                1 if !live.is_empty() => {
                    live[at].1 = limit;
                    sharing.set_limit(live[at].0, limit);
                }
                _ => {
                    let flow = sharing.insert(Time::ZERO, 1.0, limit, spans[which].clone()).0;
                    live.push((flow, limit, which));
                }
            }
            if !solves {
                continue;
            }
            sharing.solve(Time::ZERO, |_, _| {});
            let mut whole = Sharing::new(capacity.clone(), &uses);
            let flows: Vec<_> = live
                .iter()
                .map(|(_, limit, way)| whole.insert(Time::ZERO, 1.0, *limit, spans[*way].clone()).0)
                .collect();
            whole.solve(Time::ZERO, |_, _| {});
            for (flow, same) in live.iter().zip(flows) {
                prop_assert_eq!(sharing.rate(flow.0).to_bits(), whole.rate(same).to_bits());
            }
        }
    }
}
