use stepsim_core::program::StreamKind;
use stepsim_core::units::Time;
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::prefetch::*;
use stepsim_read::analysis::turns::Recurring;

use crate::random_world::Scenario;

/// A kernel of 4 at 0; a copy of 7 issued behind a kernel of 1: it needed 7, had 4, and the next kernel stalls 3.
#[test]
fn a_copy_issued_too_late() {
    let mut s = Scenario::new(1);
    let compute = s.stream(0, StreamKind::Compute);
    let copies = s.stream(0, StreamKind::CopyIn);
    s.kernel(0, compute, 1_000_000, 0);
    s.wait_for_last_kernel(0);
    s.comm(&[(0, copies)], 7_000_000, 0, 0);
    s.kernel(0, compute, 4_000_000, 0);
    s.wait_for_last_comm(0);
    s.kernel(0, compute, 2_000_000, 0);
    let s = s.finish();
    let report = prefetch(stepsim_read::analysis::prefetch::copies(
        &Causes::new(&s.world, &s.record),
        &Recurring::default(),
        |_| 1,
    ));
    assert_eq!(report.len(), 1);
    assert_eq!((report[0].had_s, report[0].needed_s, report[0].kernels), (4e-6, 7e-6, 1));
    let stall = s.record.spans[3].0 - s.record.spans[2].1;
    assert_eq!(stall, Time(3_000_000));
}
