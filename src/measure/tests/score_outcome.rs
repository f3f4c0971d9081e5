use stepsim_measure::score::outcome::*;
use stepsim_simulate::{Inputs, Options, Simulation};

/// The longest rank lasts at least as long as the kernels of one rank, and at most as long as the step.
#[test]
fn the_longest_rank_lies_between_its_kernels_and_the_step() {
    let sets = ["data=4", "pipeline.size=2", "pipeline.schedule=zb-h1"];
    let sets = sets.map(|set| format!("parallelism.{set}"));
    let run = Simulation::run(&Inputs::load("gpt2-8", None, &sets).unwrap(), &Options::default()).unwrap();
    let (span, step) = (longest_span(&run), run.record.step_end.s());
    assert!(span >= kernels(&run).values().sum() && span <= step, "{span} {step}");
}
