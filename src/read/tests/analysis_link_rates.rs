use proptest::prelude::*;
use stepsim_core::ids::ResourceId;
use stepsim_core::program::StreamKind;
use stepsim_core::units::Time;
use stepsim_read::analysis::link_rates::*;
use stepsim_read::analysis::links;

use crate::random_world;
use crate::random_world::Scenario;

fn busiest(s: &Scenario) -> Vec<ResourceId> {
    links::busiest(&s.world, &s.record).iter().map(|l| l.resource).collect()
}

/// Bytes under the curve of a resource.
fn integral(changes: &[RateChange], resource: ResourceId) -> f64 {
    let of: Vec<_> = changes.iter().filter(|c| c.resource == resource).collect();
    of.windows(2).map(|w| w[0].rate.0 * (w[1].time - w[0].time).s()).sum()
}

proptest! {
    #[test]
    fn the_area_is_the_bytes_and_the_end_is_silent(seed in any::<u64>()) {
        for s in random_world::both(seed) {
            let chosen = busiest(&s);
            let changes = rates(&s.world, &s.record, &chosen);
            prop_assert!(changes.is_sorted_by_key(|c| c.time));
            for used in links::busiest(&s.world, &s.record) {
                let area = integral(&changes, used.resource);
                // Rates are whole bytes per second: half a byte a second off for each change.
                let rounding = changes.len() as f64 * s.record.step_end.s();
                prop_assert!((area - used.bytes).abs() <= rounding + 1e-6 * used.bytes, "{area} {}", used.bytes);
                let last = changes.iter().rfind(|c| c.resource == used.resource);
                prop_assert!(last.is_none_or(|c| c.rate.0 == 0.0));
            }
        }
    }
}

/// A transfer of 3 µs that crosses a link of 10¹² B/s twice a byte, alone: the link is full for 3 µs, then idle.
#[test]
fn a_lone_transfer_fills_its_link() {
    let mut s = Scenario::new(2);
    let tensor: Vec<_> = (0..2).map(|r| s.stream(r, StreamKind::Tensor)).collect();
    s.comm(&[(0, tensor[0]), (1, tensor[1])], 3_000_000, 0, 0);
    let s = s.finish();
    let changes = rates(&s.world, &s.record, &busiest(&s));
    let seen: Vec<_> = changes.iter().map(|c| (c.time, c.rate.gbps())).collect();
    assert_eq!(seen, [(Time::ZERO, 1000.0), (Time(3_000_000), 0.0)]);
}
