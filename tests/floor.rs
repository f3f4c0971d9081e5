//! What a step takes at least, held to what it takes when it is simulated.

use stepsim::form::compare::workload::closed_form;
use stepsim::simulate::jump::figures;
use stepsim::simulate::{Inputs, Options};

fn floor_and_step(name: &str, sets: &[&str]) -> (f64, f64) {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    let inputs = Inputs::load(name, None, &sets).unwrap_or_else(|e| panic!("{name} {sets:?}: {e}"));
    let form = closed_form(&inputs).unwrap_or_else(|e| panic!("{name} {sets:?}: {e}"));
    let step =
        figures(&inputs, &Options::default(), false).unwrap_or_else(|e| panic!("{name} {sets:?}: {e}"));
    println!("{name} {sets:?}: floor {} of {}", form.floor, step.step_end.s());
    (form.floor, step.step_end.s())
}

/// The floor is worth something: tensor-parallel collectives, recomputation and the bubble are in it.
#[test]
fn the_floor_is_near_the_step_where_little_is_exposed() {
    for sets in [
        &["stack=simple", "parallelism.pipeline.schedule=1f1b", "parallelism.pipeline.chunks=1"][..],
        &["stack=simple", "recompute.granularity=full"],
    ] {
        let (floor, step) = floor_and_step("llama3-70b", sets);
        assert!(floor > 0.93 * step, "{sets:?}: {floor} of {step}");
    }
}

/// Kernels whose times are drawn may all be short.
#[test]
fn drawn_times_have_no_floor() {
    assert_eq!(floor_and_step("gpt2-8", &["noise.compute_sigma=0.02"]).0, 0.0);
}
