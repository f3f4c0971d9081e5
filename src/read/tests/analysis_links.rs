use stepsim_core::program::StreamKind;
use stepsim_read::analysis::links::*;

use crate::random_world::Scenario;

/// Two transfers of 3 µs and 1 µs at half the link's rate each byte crossing twice: 4 µs of a 10¹² B/s link, in a
/// step of 8 µs.
#[test]
fn bytes_and_utilisation_follow_from_the_actions() {
    let mut s = Scenario::new(2);
    let tensor: Vec<_> = (0..2).map(|r| s.stream(r, StreamKind::Tensor)).collect();
    let compute = s.stream(0, StreamKind::Compute);
    s.comm(&[(0, tensor[0]), (1, tensor[1])], 3_000_000, 0, 0);
    s.comm(&[(1, tensor[1])], 1_000_000, 0, 0);
    s.kernel(0, compute, 8_000_000, 0);
    let s = s.finish();
    let used = busiest(&s.world, &s.record);
    assert_eq!(used.len(), 1);
    assert_eq!(used[0].bytes, 4e6);
    assert!((used[0].utilisation - 0.5).abs() < 1e-12);
}
