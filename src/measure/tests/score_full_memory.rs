use stepsim_measure::score::{FilledStep, FullMemory};

/// From some part of the memory on each slot takes a second longer; below, one step has another trouble.
#[test]
fn the_price_of_a_full_device_is_found_from_the_fullest_down() {
    let step = |share: f64, slots: u64, extra_s: f64| FilledStep {
        share,
        slots,
        simulated_s: 2.0,
        measured_s: 2.0 + extra_s,
    };
    let mut steps: Vec<FilledStep> = (0..8).map(|i| step(0.9 + 0.01 * f64::from(i), 8, 8.0)).collect();
    steps.extend((0..8).map(|i| step(0.6 + 0.03 * f64::from(i), 8, 0.1)));
    steps.push(step(0.61, 8, 9.0));
    let full = FullMemory::of(&steps).expect("full steps");
    assert_eq!((full.share, full.slot_s, full.steps), (0.9, 1.0, 8));
    assert_eq!([full.seconds(0.89, 4), full.seconds(0.91, 4)], [0.0, 4.0]);
    assert_eq!(FullMemory::of(&steps[8..16]), None, "no step is slow");
    assert_eq!(FullMemory::default().seconds(1.0, 4), 0.0, "no price is known");
}
