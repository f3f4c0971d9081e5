use stepsim::step::spec::{Kind, catalog};

use stepsim::measure::score::ranges::accuracy::*;
use stepsim::measure::score::ranges::measured_steps::MeasuredSteps;
use stepsim::measure::score::ranges::open_facts::OpenFact;
use stepsim::measure::score::ranges::spread::DeviationSpread;
use stepsim::measure::score::ranges::traits::StepTraits;

/// Every measured step, asked about with and without its own source, has an estimate inside its range.
#[test]
fn no_range_excludes_its_estimate() {
    let measured = MeasuredSteps::shipped();
    for step in measured.steps.iter().step_by(7) {
        for without in [None, Some(step.source.as_str())] {
            let circumstances = Circumstances { assumed: step.assumed, without };
            let accuracy = measured.accuracy(&step.traits, 10.0, &circumstances);
            let range = accuracy.range().unwrap_or_else(|| panic!("{}", step.id));
            let [low, high] = range.range_s;
            assert!(low < range.estimate_s && range.estimate_s < high, "{}: {range:?}", step.id);
        }
    }
}

/// A device of a maker of whom nothing was measured has no range, and a step is the less known the less like it
/// was measured.
#[test]
fn what_is_far_from_all_that_was_measured_is_less_known() {
    let measured = MeasuredSteps::shipped();
    let near = measured.steps[0].traits.clone();
    let of = |traits: &StepTraits| measured.accuracy(traits, 1.0, &Circumstances::default());
    let unknown = StepTraits { device: "Abacus".into(), generation: "Abacus 2026".into(), ..near.clone() };
    let accuracy = of(&unknown);
    assert!(matches!(&accuracy, Accuracy::Unlike(nearest) if nearest.len() == NAMED), "{accuracy:?}");
    assert!(accuracy.words(1.0).starts_with("not known: nothing like it was measured; the nearest are "));
    let far = StepTraits { hidden: 64 * near.hidden, devices: 64 * near.devices, ..near.clone() };
    let nearest =
        |traits: &StepTraits| DeviationSpread::around(traits, &measured.steps, None).unwrap().nearest;
    assert!(nearest(&far) < nearest(&near), "{far:?}");
}

#[test]
fn facts_that_are_left_open_widen_the_range_and_are_told() {
    let measured = MeasuredSteps::shipped();
    let accuracy = measured.accuracy(&measured.steps[0].traits, 4.0, &Circumstances::default());
    let plain = accuracy.range().unwrap().clone();
    let values = vec![("none".to_string(), 1.0), ("layer".to_string(), 0.8)];
    let open = plain.clone().covering(vec![OpenFact { path: "stack.host.graphs.scope".to_owned(), values }]);
    assert_eq!(open.range_s, [0.8 * plain.range_s[0], plain.range_s[1]]);
    let words = open.words(4.0);
    assert!(words.ends_with("; tell `stack.host.graphs.scope`: none 4.00, layer 3.20 s"), "{words}");
}

#[test]
fn times_have_three_digits() {
    assert_eq!(
        [0.01234, 0.1234, 1.234, 12.34, 123.4].map(digits),
        ["0.0123", "0.123", "1.23", "12.3", "123"]
    );
}

/// A shipped workload has software, or says why it has none.
#[test]
fn workloads_have_software_or_say_why_not() {
    for name in catalog::names(Kind::Workload) {
        let text = catalog::text(Kind::Workload, name).unwrap();
        let file: serde_json::Value = serde_json::from_str(text).unwrap();
        let why = file["description"].as_str().unwrap_or_default().contains("On the stack `simple`");
        assert!(file.get("stack").is_some() || why, "{name}");
    }
}
