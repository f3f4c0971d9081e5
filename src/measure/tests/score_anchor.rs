use stepsim_measure::score::anchor::*;

fn row(parts: PartSeconds, factors: [f64; 4]) -> AnchorRow {
    AnchorRow { parts, measured_s: parts.iter().zip(factors).map(|(s, f)| s * f).sum() }
}

#[test]
fn nothing_measured_and_nothing_wrong_change_nothing() {
    let right = row([0.5, 0.2, 0.1, 0.2], [1.0; 4]);
    for given in [vec![], vec![right], vec![right; 9]] {
        let anchor = Anchor::fit(&given, 0.03);
        assert!(anchor.factors.iter().all(|f| (f - 1.0).abs() < 1e-9), "{anchor:?}");
    }
}

/// One row tells of what the step consists; a part that it does not have stays as it is.
#[test]
fn one_row_moves_the_parts_that_it_shows() {
    let anchor = Anchor::fit(&[row([0.9, 0.1, 0.0, 0.0], [1.2, 1.2, 1.0, 1.0])], 0.03);
    let [products, memory, host, exchange] = anchor.factors;
    assert!(products > 1.1 && memory > 1.0 && (host, exchange) == (1.0, 1.0), "{anchor:?}");
    assert!((anchor.seconds(&[0.9, 0.1, 0.0, 0.0]) / 1.2 - 1.0).abs() < 0.03, "{anchor:?}");
}

/// Steps of different parts tell the factors apart.
#[test]
fn several_rows_find_the_factors_again() {
    let factors = [1.1, 0.9, 1.8, 0.7];
    let shares = [[0.8, 0.1, 0.05, 0.05], [0.3, 0.5, 0.1, 0.1], [0.4, 0.1, 0.4, 0.1], [0.3, 0.1, 0.1, 0.5]];
    let given: Vec<AnchorRow> = (0..40).map(|i| row(shares[i % 4], factors)).collect();
    let anchor = Anchor::fit(&given, 0.0);
    for (found, is) in anchor.factors.iter().zip(factors) {
        assert!((found / is - 1.0).abs() < 0.03, "{anchor:?}");
    }
}

/// The rows' own errors are not carried over, however many they are.
#[test]
fn the_farther_the_less_is_carried_over() {
    let given = vec![row([0.9, 0.1, 0.0, 0.0], [1.2; 4]); 50];
    let found = |own| Anchor::fit(&given, own).seconds(&given[0].parts);
    let moved = [0.0, 0.03, 0.07, 0.11, 1.0].map(found);
    assert!(moved.windows(2).all(|pair| pair[0] > pair[1]), "{moved:?}");
    assert!(moved[0] > 1.19 && moved[4] < 1.01, "{moved:?}");
}

#[test]
fn a_row_that_stands_apart_counts_less() {
    let mut given = vec![row([0.9, 0.1, 0.0, 0.0], [1.0; 4]); 9];
    given[3].measured_s *= 3.0;
    assert!((Anchor::fit(&given, 0.0).factors[0] - 1.0).abs() < 0.02);
}

#[test]
fn impossible_times_are_seen_and_bounded() {
    let parts = [0.9, 0.1, 0.0, 0.0];
    let [least, most] = Anchor::plausible(&parts);
    let z = |measured_s| Anchor::fit(&[AnchorRow { parts, measured_s }], 0.0).z;
    assert!(z(0.99 * most) < Anchor::IMPLAUSIBLE && z(1.01 * most) > Anchor::IMPLAUSIBLE);
    assert!(z(1.01 * least) > -Anchor::IMPLAUSIBLE && z(0.99 * least) < -Anchor::IMPLAUSIBLE);
    let mad = Anchor::fit(&[AnchorRow { parts, measured_s: 1e9 }], 0.0);
    assert!(mad.factors.iter().all(|f| *f <= BOUND + 1e-9 && *f >= 1.0), "{mad:?}");
}
