use stepsim_core::units::{PS_PER_S, Time};
use stepsim_form::compare::differences::*;

/// Three classes add up to the gap; what is left over is the rest.
#[test]
fn classes_add_up() {
    let second = PS_PER_S as i64;
    let mut all = Differences::new(Time::from_s(100.0));
    all.add(true, ("prefetch", ""), -80 * second);
    all.add(true, ("depth", ""), 65 * second);
    all.add(true, ("tails", ""), 8 * second);
    all.add(false, ("contention", ""), 4 * second);
    let found = all.finish(String::new(), String::new(), Time::from_s(98.0), Vec::new());
    assert_eq!((found.own_error.fraction, found.own_error.gross_fraction), (-0.07, 1.53));
    assert_eq!((found.rest.seconds, found.rest.fraction, found.sum_s), (1.0, 0.01, -2.0));
}
