use proptest::prelude::*;
use stepsim_core::engine::sharing::*;
use stepsim_core::ids::ResourceId;
use stepsim_core::units::Time;

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
