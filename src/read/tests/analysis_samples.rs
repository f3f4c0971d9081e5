use stepsim_core::units::Time;
use stepsim_read::analysis::samples::*;

fn sample(step: u64, on_path: &[(u32, u64)]) -> Sample {
    let on_path = on_path.iter().map(|(r, t)| (*r, Time(*t * 1_000_000_000_000))).collect();
    Sample { step: Time(step * 1_000_000_000_000), on_path }
}

/// Steps of 1 to 100 s: by nearest rank the p-th percentile is p, the mean 50.5, and the variance n(n + 1)/12.
#[test]
fn percentiles_and_spread_of_one_to_a_hundred() {
    let samples: Vec<Sample> = (1..=100).rev().map(|s| sample(s, &[(0, s)])).collect();
    let r = SamplesReport::of(&samples, 7, |_| 0, |rank| format!("rank {rank}"));
    assert_eq!([r.min_s, r.p5_s, r.p50_s, r.p95_s, r.p99_s, r.max_s], [1.0, 5.0, 50.0, 95.0, 99.0, 100.0]);
    assert_eq!((r.count, r.seed, r.mean_s), (100, 7, 50.5));
    assert!((r.cv - (100.0f64 * 101.0 / 12.0).sqrt() / 50.5).abs() < 1e-12);
    assert_eq!(r.histogram.len(), 10);
    assert!(r.histogram.iter().all(|bar| bar.samples == 10));
}

#[test]
fn who_was_on_the_path_and_for_how_long() {
    let samples = [sample(10, &[(0, 4), (5, 6)]), sample(20, &[(4, 5), (5, 15)])];
    let r = SamplesReport::of(&samples, 0, |rank| rank / 4, |rank| format!("rank {rank}"));
    let stages: Vec<(f64, f64)> = r.critical_stages.iter().map(|s| (s.samples, s.share)).collect();
    assert_eq!(stages, [(0.5, 0.2), (1.0, 0.8)]);
    assert_eq!(r.critical_ranks[0].name, "rank 5");
    assert!((r.critical_ranks[0].share - 0.675).abs() < 1e-12);
    assert_eq!(r.critical_ranks[2].samples, 0.5);
}

#[test]
fn equal_steps_have_one_bar() {
    let r = SamplesReport::of(&[sample(3, &[]), sample(3, &[])], 0, |_| 0, |_| String::new());
    assert_eq!((r.cv, r.histogram.len(), r.histogram[0].samples), (0.0, 1, 2));
}
