use stepsim_price::documents::drawn;
use stepsim_spec::workload::DrawnLengths;

#[test]
fn drawn_lengths_have_the_median_and_spread_asked_for() {
    let spec = DrawnLengths { median: 1000.0, sigma: 1.0, shortest: 1, longest: None, seed: 3 };
    let mut logs: Vec<f64> = drawn(&spec, 20_000).iter().map(|length| (*length as f64).ln()).collect();
    logs.sort_unstable_by(f64::total_cmp);
    assert!((logs[10_000] - 1000_f64.ln()).abs() < 0.03);
    assert!((logs[16_827] - logs[10_000] - 1.0).abs() < 0.04, "one sigma above the median are 84.13 %");
}
