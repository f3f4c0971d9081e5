use stepsim_core::power::usd;
use stepsim_spec::device::Device;
use stepsim_spec::power::*;
use stepsim_spec::{SpecError, load};

fn capped(name: &str, watts: f64) -> Result<Device, SpecError> {
    load::<Device>(name, &[format!("power_cap_W={watts}")]).map(|loaded| loaded.value)
}

/// Rates of products at two power limits of one chip. SimuMax's sustained rates of A100 PCIe at 300 W over the
/// short-run rate of A100 SXM at 400 W, both 108 units at 1,410 MHz; torch.mm on H100 PCIe (114 units, 350 W;
/// 0.57 of 756 TFLOP/s) over H100 SXM's in long runs (132 units, 700 W; 0.81 · 0.84 of 989), by unit.
#[test]
fn a_cap_is_held_to_published_rates() {
    let h100 = (0.57 * 756.0 / 114.0) / (0.81 * 0.84 * 989.4 / 132.0);
    for (name, watts, measured) in [("a100-sxm-80", 300.0, 0.76 / 0.83), ("h100-sxm", 350.0, h100)] {
        let law = 1.0 / slower(1.0, capped(name, watts).unwrap().dynamic_power_left());
        assert!(law < measured && law > 0.95 * measured, "{name}: {law} of {measured}");
    }
}

#[test]
fn a_cap_slows_what_draws_more() {
    let left = capped("h100-sxm", 500.0).unwrap().dynamic_power_left();
    assert!((left - (500.0 / 700.0 - 0.22) / 0.78).abs() < 1e-12);
    assert!((slower(1.0, left) - left.powf(-1.0 / 3.0)).abs() < 1e-12);
    assert_eq!(slower(0.9 * left, left), 1.0, "a kernel that draws less keeps its time");
    assert_eq!(capped("h100-sxm", 700.0).unwrap().dynamic_power_left(), 1.0);
}

#[test]
fn rates_are_means() {
    let (a, b) = (capped("h100-sxm", 600.0).unwrap(), capped("a100-sxm-80", 400.0).unwrap());
    let rates = mean([(&a, 1.0), (&b, 3.0)].into_iter());
    let [products, memory, idle] = rates.watts.unwrap();
    assert_eq!(products, 0.25 * 600.0 + 0.75 * 400.0);
    assert!((memory - 0.43 * (0.25 * 700.0 + 0.75 * 400.0)).abs() < 1e-9);
    assert!((idle - 0.22 * (0.25 * 700.0 + 0.75 * 400.0)).abs() < 1e-9);
    assert_eq!(rates.usd_per_h, None);
    assert_eq!(usd(7200.0, 2.5), 5.0);
}
