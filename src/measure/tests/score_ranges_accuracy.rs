use stepsim_measure::score::ranges::accuracy::*;
use stepsim_measure::score::ranges::measured_steps::MeasuredSteps;
use stepsim_measure::score::ranges::open_facts::OpenFact;
use stepsim_measure::score::ranges::spread::DeviationSpread;
use stepsim_measure::score::ranges::traits::StepTraits;
use stepsim_simulate::Inputs;
use stepsim_spec::{Device, Kind, catalog, load};

/// A measured step has a range, and with or without its own source the estimate lies inside.
#[test]
fn no_range_excludes_its_estimate() {
    let measured = MeasuredSteps::shipped();
    for step in measured.steps.iter().step_by(7) {
        for without in [None, Some(step.source.as_str())] {
            let accuracy = measured.accuracy(&step.traits, 10.0, without);
            let Some(range) = accuracy.range() else {
                assert!(without.is_some(), "{}: {accuracy:?}", step.id);
                continue;
            };
            let [low, high] = range.range_s;
            assert!(low < range.estimate_s && range.estimate_s < high, "{}: {range:?}", step.id);
        }
    }
}

fn accuracy_of(workload: &str, sets: &[&str]) -> Accuracy {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_string()).collect();
    let inputs = Inputs::load(workload, None, &sets).expect("a workload");
    Accuracy::of(&inputs, 1.0)
}

/// A rate that no measured machine had ends the range, whatever the device is called.
#[test]
fn rates_beyond_all_that_was_measured_end_the_range() {
    assert!(accuracy_of("llama3-70b", &[]).range().is_some());
    for set in [
        "topology.device.peak_dense_TFLOPs.bf16=10000",
        "topology.device.peak_dense_TFLOPs.bf16=10",
        "topology.device.hbm.GBps=100",
        "topology.device.hbm.GBps=30000",
        "topology.node.scale_up.switch.link.bandwidth_GBps_per_direction=5",
        "stack.host.launch_us.gemm=5000",
    ] {
        let accuracy = accuracy_of("llama3-70b", &[set]);
        let words = accuracy.words(1.0);
        assert!(words.contains("beyond all that was measured"), "{set}: {words}");
    }
}

/// No step with an encoder was measured: of images or of a T5 there is no range.
#[test]
fn encoders_have_no_range() {
    let vision = accuracy_of("qwen-vl-7b", &["stack=megatron-bridge-2025"]).words(1.0);
    assert!(vision.starts_with("not known") && vision.contains("encoder models"), "{vision}");
    let text = accuracy_of("qwen-vl-7b", &["stack=megatron-bridge-2025", "modules={}"]).words(1.0);
    assert!(!text.contains("encoder models"), "{text}");
}

/// A device without a measured step, or steps on its generation and measured rates of its own, has no range.
#[test]
fn devices_without_evidence_have_no_range() {
    let measured = MeasuredSteps::shipped();
    for name in catalog::names(Kind::Device) {
        let device: Device = load(name, &[]).expect("a device").value;
        let behind = measured.behind(&device);
        let guessed = device.cost.as_ref().is_none_or(|cost| cost.estimated);
        assert!(!guessed || !behind.contains("but on others"), "{name}: {behind}");
        let set = format!("topology.device={name}");
        let Ok(inputs) = Inputs::load("llama3-8b-fsdp", None, &[set]) else { continue };
        let words = Accuracy::of(&inputs, 1.0).words(1.0);
        assert!(!behind.contains("no range") || words.starts_with("not known"), "{name}: {words}");
    }
    assert_eq!(measured.behind(&load("gaudi3", &[]).expect("a device").value), "no measured step: no range");
}

/// A device of a maker of whom nothing was measured has no range, and a step is the less known the less like it
/// was measured.
#[test]
fn what_is_far_from_all_that_was_measured_is_less_known() {
    let measured = MeasuredSteps::shipped();
    let near = measured.steps[0].traits.clone();
    let of = |traits: &StepTraits| measured.accuracy(traits, 1.0, None);
    let unknown = StepTraits { device: "Abacus".into(), generation: "Abacus 2026".into(), ..near.clone() };
    let words = of(&unknown).words(1.0);
    assert_eq!(
        words,
        "not known: no step on Abacus was measured; ten steps of any model on one of them would give a range"
    );
    let far = StepTraits { hidden: 64 * near.hidden, devices: 64 * near.devices, ..near.clone() };
    let all: Vec<_> = measured.steps.iter().collect();
    let nearest = |traits: &StepTraits| DeviationSpread::around(traits, &all).unwrap().nearest;
    assert!(nearest(&far) < nearest(&near), "{far:?}");
}

#[test]
fn facts_that_are_left_open_widen_the_range_and_are_told() {
    let measured = MeasuredSteps::shipped();
    let accuracy = measured.accuracy(&measured.steps[0].traits, 4.0, None);
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
        [0.01234, 0.1234, 1.234, 12.34, 123.4].map(stepsim_read::analysis::answer::digits),
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
