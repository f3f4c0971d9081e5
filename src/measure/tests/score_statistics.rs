use stepsim_measure::score::statistics::*;

#[test]
fn errors_in_numbers() {
    let s = Statistics::of(5, &[-0.2, 0.1, 0.0, -0.1]);
    assert_eq!((s.rows, s.simulated, s.max_abs_error), (5, 4, Some(0.2)));
    assert!((s.mean_abs_error.unwrap() - 0.1).abs() < 1e-12 && (s.bias.unwrap() + 0.05).abs() < 1e-12);
    assert!((s.median_abs_error.unwrap() - 0.1).abs() < 1e-12);
    assert!((s.p90_abs_error.unwrap() - 0.17).abs() < 1e-12);
    assert_eq!(Statistics::of(3, &[]).bias, None);
}

#[test]
fn simulation_beside_closed_form() {
    let apart = Disagreement::of([(0.0, 0.1), (-0.1, 0.0), (0.02, -0.2), (0.01, 0.03)]).unwrap();
    assert_eq!((apart.rows, apart.simulation_nearer), (3, 2));
    assert!((apart.simulation_error - 0.04).abs() < 1e-12 && (apart.closed_form_error - 0.1).abs() < 1e-12);
    assert_eq!(Disagreement::of([(0.1, 0.1)]), None);
}

#[test]
fn the_order_within_blocks() {
    let list = [("a", 1.0, 5.0), ("b", 1.0, 1.0), ("a", 2.0, 6.0), ("a", 3.0, 5.5), ("a", 3.001, 0.1)];
    // Three of the five pairs of block a that count: 1-2, 1-3 agree, 2-3 not; both pairs with the fourth disagree.
    assert_eq!(kendall(list), Some((2.0 - 3.0) / 5.0));
    assert_eq!(kendall([("a", 1.0, 1.0), ("b", 2.0, 2.0)]), None);
}
