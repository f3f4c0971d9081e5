use stepsim_price::documents::expected::{of_sums, of_values};

const VALUES: [f64; 4] = [1.0, 2.0, 5.0, 9.0];

/// The mean of the largest of `n` sums of `each` values over the mean sum, over all draws.
fn enumerated(n: u32, each: u32) -> f64 {
    let draws = (n * each) as usize;
    let all = 4_usize.pow(n * each);
    let largest = |draw: usize| {
        let values: Vec<f64> = (0..draws).map(|i| VALUES[draw / 4_usize.pow(i as u32) % 4]).collect();
        values.chunks(each as usize).map(|sum| sum.iter().sum()).fold(0.0, f64::max)
    };
    let mean = VALUES.iter().sum::<f64>() / 4.0 * f64::from(each);
    (0..all).map(largest).sum::<f64>() / all as f64 / mean
}

#[test]
fn the_expected_largest_is_the_mean_of_all_draws() {
    for n in 1..=5 {
        let (of, all) = (of_values(&VALUES, n.into()), enumerated(n, 1));
        assert!((of / all - 1.0).abs() < 1e-12, "{n} values: {of}, all draws {all}");
    }
    for (n, each) in [(1, 3), (2, 2), (2, 4), (4, 2)] {
        let (of, all) = (of_sums(&VALUES, n.into(), each.into()), enumerated(n, each));
        assert!((of / all - 1.0).abs() < 0.06, "{n} sums of {each}: {of}, all draws {all}");
    }
}
