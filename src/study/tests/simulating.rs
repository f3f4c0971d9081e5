use stepsim_study::objective::{Measures, Objective};
use stepsim_study::simulating::*;

#[test]
fn a_choice_by_the_closed_form_costs_what_its_layout_is_slower() {
    let step = |seconds: f64| Measures {
        seconds,
        memory_bytes: 1.0,
        tokens: 1.0,
        devices: 1.0,
        price_usd_per_h: 0.0,
        power_w: 0.0,
    };
    let both = [[10.0, 12.0], [11.0, 11.0], [20.0, 21.0]].map(|both| both.map(step));
    let found = Simulating::of(&both, Objective::Time).expect("three layouts");
    assert_eq!((found.longer[0], found.longer[2]), (0.0, 12.0 / 10.0 - 1.0));
    assert_eq!(found.choice_costs, 12.0 / 11.0 - 1.0);
    assert!(found.sentence().ends_with("a layout that is 9.09 % worse"), "{}", found.sentence());
    assert_eq!(Simulating::of(&[], Objective::Time), None);
}
