use std::collections::BTreeMap;

use stepsim_core::kernel_class::KernelClass;
use stepsim_core::units::{Bandwidth, FlopRate, PS_PER_S, Time};
use stepsim_read::analysis::kernel_classes::*;

/// Two ranks with two kernels of each class in a step of 4 s: rates hold for the time that kernels ran, on both
/// ranks together; a class is bound by the resource that it uses more of.
#[test]
fn a_class_has_the_rates_of_the_time_that_it_ran() {
    let of =
        |flops: u128, bytes: u128, ran: u128| OfClass { count: 4, ran, alone: ran * 3 / 4, flops, bytes };
    let second = PS_PER_S as u128;
    let sums = BTreeMap::from([
        (KernelClass::Gemm, of(8_000_000_000_000, 2_000_000_000, 4 * second)),
        (KernelClass::Norm, of(0, 1_000_000_000_000, 2 * second)),
        (KernelClass::Copy, of(0, 1, second)),
    ]);
    let found = kernel_classes(sums, 2, Time::from_s(4.0), FlopRate(4e12), Bandwidth(1e12));
    let found_of = |class| found.iter().find(|report| report.class == class).expect("reported");
    assert_eq!(found.iter().map(|report| report.time_s).collect::<Vec<_>>(), [2.0, 1.0, 0.5]);
    let gemm = found_of(KernelClass::Gemm);
    assert_eq!((gemm.count, gemm.disturbed_s, gemm.share), (2.0, 0.5, 0.5));
    assert_eq!((gemm.tflops, gemm.gbps, gemm.bound), (2.0, 0.5, KernelBound::Matrix));
    let norm = found_of(KernelClass::Norm);
    assert_eq!((norm.tflops, norm.gbps, norm.bound), (0.0, 500.0, KernelBound::Memory));
    assert_eq!(found_of(KernelClass::Copy).bound, KernelBound::Neither);
}
