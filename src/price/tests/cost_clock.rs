use stepsim_price::cost::KernelMix;
use stepsim_spec::cost::CostSpec;

use super::cost::device;

const SIGMA: f64 = 0.84;
const BESIDE: f64 = 0.65;

fn at(products_s: f64, others_s: f64) -> f64 {
    let power_beside_products = Some(BESIDE);
    let spec = CostSpec { sustained: SIGMA, power_beside_products, ..CostSpec::default() };
    device(1000.0, 132, 3000.0, spec).in_mix(KernelMix { products_s, others_s }, 1).spec.sustained
}

/// From one device to two, and from two to four, a step that exchanges nothing grows by little; eight run as many.
#[test]
fn a_chassis_fills_by_and_by() {
    let power_beside_products = Some(BESIDE);
    let spec = CostSpec { sustained: SIGMA, power_beside_products, ..CostSpec::default() };
    let mix = KernelMix { products_s: 1.0, others_s: 4.0 };
    let rate = |n| device(1000.0, 132, 3000.0, spec.clone()).in_mix(mix, n).spec.sustained;
    assert!((rate(8) - SIGMA).abs() < 1e-12 && (rate(1024) - SIGMA).abs() < 1e-12);
    let slower = [1, 2, 4].map(|n| rate(n) / rate(2 * n));
    assert!((1.03..=1.06).contains(&slower[0]) && slower.is_sorted() && slower[2] < 1.08, "{slower:?}");
}

#[test]
fn products_alone_run_at_the_sustained_rate_and_few_of_them_at_the_full_one() {
    assert!((at(1.0, 0.0) - SIGMA).abs() < 1e-12);
    assert_eq!(at(1.0, 4.0), 1.0);
    assert_eq!(at(0.0, 1.0), 1.0);
    let rates: Vec<f64> = (0..20).map(|o| at(1.0, f64::from(o) * 0.1)).collect();
    assert!(rates.is_sorted(), "{rates:?}");
}

/// Mean power at the rate found is the limit: the sum that the formula solves.
#[test]
fn mean_power_is_the_limit() {
    for others in [0.05, 0.3, 0.7] {
        let r = at(1.0, others);
        assert!(r < 1.0);
        let power = (r / (SIGMA * SIGMA) + others * BESIDE) / (1.0 / r + others);
        assert!((power - 1.0).abs() < 1e-9, "{power}");
    }
}

/// Measured on one H200 (docs/developers/one-gpu.md): products alone 0.84 of a short run's rate, in an eager step
/// with 82 of 169 ms of products at the full rate 0.98, in a compiled one with 82 of 145 ms 0.96.
#[test]
fn measured_mixes() {
    assert!((at(82.0, 87.0) - 0.98).abs() < 0.025);
    assert!((at(82.0, 63.0) - 0.96).abs() < 0.025);
}

/// Means of the largest of n beyond the largest of a node of eight (Harter 1961, table 1; Tippett 1925 for 1,000).
#[test]
fn the_slowest_of_many_is_far_from_the_mean() {
    let slower = |devices: u64| {
        let spec = CostSpec { sustained: 1.0, spread: 1.0, ..CostSpec::default() };
        1.0 / device(1000.0, 132, 3000.0, spec).slowest_of(devices).spec.sustained - 1.0
    };
    for (n, mean) in [(8, 1.4236), (100, 2.5076), (1000, 3.2414)] {
        let found = slower(n);
        assert!((found - (mean - 1.4236)).abs() < 0.04, "{n}: {found} beyond a node's");
    }
    assert!(slower(1 << 20) > slower(1 << 14));
}
