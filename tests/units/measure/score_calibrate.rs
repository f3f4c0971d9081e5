use stepsim::measure::score::*;
use stepsim::simulate::Inputs;

fn constant(name: &str) -> FittedConstant {
    let (path, about) = (name.to_string(), String::new());
    FittedConstant { name: name.to_string(), path, usual: 1.0, low: 0.1, high: 10.0, about }
}

/// Rows whose time is a·x + b·y: both constants are found again, also without each group.
#[test]
fn two_constants_are_found_again() {
    // Each group has a row of either kind, else it cannot tell the constants apart.
    let rows = [(1.0, 0.1), (0.5, 1.0), (0.1, 2.0), (2.0, 0.3)];
    let groups: Vec<String> = ["p", "q", "p", "q"].map(String::from).into();
    let mut play = |v: &[f64]| -> Vec<Option<f64>> {
        rows.iter().map(|(x, y)| Some((v[0] * x + v[1] * y) / (2.0 * x + 0.5 * y))).collect()
    };
    let fit = calibrate(&[constant("a"), constant("b")], &[1.0, 1.0], &groups, &mut play);
    assert!((fit.constants[0].1 / 2.0 - 1.0).abs() < 0.05, "{fit:?}");
    assert!((fit.constants[1].1 / 0.5 - 1.0).abs() < 0.1, "{fit:?}");
    assert!(fit.in_sample < 0.03 && fit.before > 0.3 && fit.leave_one_out.unwrap() < 0.1, "{fit:?}");
}

/// A law of powers is met exactly from one play for each constant.
#[test]
fn rows_respond_to_first_order() {
    let law = |v: &[f64]| vec![Some(v[0].powf(-0.5) * v[1]), None];
    let mut plays = 0;
    let list = [constant("a"), constant("b")];
    let response = Response::measure(&list, &[1.0, 2.0], &mut |v| {
        plays += 1;
        law(v)
    });
    assert_eq!(plays, 3);
    let (there, exact) = (response.at(&[4.0, 3.0]), law(&[4.0, 3.0]));
    assert!((there[0].unwrap() / exact[0].unwrap() - 1.0).abs() < 1e-9 && there[1].is_none());
    assert_eq!(mean_abs_error(&there), None);
    let (mut played, mut names) = (response, vec!["first", "second"]);
    played.keep_played(&mut names);
    assert_eq!((names, played.at(&[4.0, 3.0]).len()), (vec!["first"], 1));
}

#[test]
fn bounds_hold_and_one_group_has_nothing_to_leave_out() {
    let mut play = |v: &[f64]| vec![Some(v[0] / 100.0)];
    let fit = calibrate(&[constant("a")], &[1.0], &["p".to_string()], &mut play);
    assert_eq!((fit.constants[0].1, fit.leave_one_out), (10.0, None));
}

#[test]
fn the_shipped_constants_can_be_set() {
    let list = constants();
    assert!(list.len() >= 4);
    let inputs = Inputs::load("llama3-70b", None, &["stack=megatron-te-2024".to_string()]).unwrap();
    let sets: Vec<String> = list.iter().map(|c| c.setting(c.value_in(&inputs))).collect();
    let stack = std::iter::once("stack=megatron-te-2024".to_string());
    let all: Vec<String> = stack.chain(sets).collect();
    Inputs::load("llama3-70b", None, &all).unwrap_or_else(|e| panic!("{e}"));
}
