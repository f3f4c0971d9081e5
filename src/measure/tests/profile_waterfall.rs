use std::collections::BTreeMap;

use stepsim_measure::profile::classes::Family;
use stepsim_measure::profile::report::{ClassProfile, RankProfile};
use stepsim_measure::profile::waterfall::*;

#[test]
fn bars_and_mfu_fill_the_window() {
    let class =
        |work: &str, total_s| ClassProfile { family: Family::Compute, work: work.into(), count: 1, total_s };
    let profile = RankProfile {
        window_s: 10.0,
        compute_s: 6.0,
        exposed_communication_s: 2.5,
        idle_s: BTreeMap::from([("host".into(), 1.0)]),
        kernels: BTreeMap::from([
            ("cuBLAS".into(), class("gemm", 4.0)),
            ("FlashAttention".into(), class("attention", 1.5)),
            ("Triton".into(), class("mixed", 1.0)),
        ]),
        steps: vec![Default::default(), Default::default()],
        ..RankProfile::default()
    };
    let w = waterfall(&profile, AtPeak { matrices_s: 1.2, mixing_s: 0.3 });
    assert!((w.mfu - 0.3).abs() < 1e-12);
    let sum: f64 = w.bars.iter().map(|b| b.share).sum();
    assert!((sum + w.mfu - 1.0).abs() < 1e-9, "{w:?}");
    let of = |what: &str| w.bars.iter().find(|b| b.what == what).map(|b| (b.time_s * 1e9).round() / 1e9);
    assert_eq!(of("gemm below the peak"), Some(1.6));
    assert_eq!(of("attention below the peak"), Some(0.9));
    assert_eq!(of("kernels side by side"), Some(-0.5));
    assert_eq!(of("copies and fills alone"), Some(0.5));
}
