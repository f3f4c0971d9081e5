//! Time and memory are conserved: busy and stalls are the step, what is taken is given back, and nothing runs faster
//! than the peak.

use super::read::Sums;
use super::steps::{BATCH, Draws, SEQUENCE, count, draw};
use stepsim::core::engine::EngineError;
use stepsim::simulate::{Options, Simulation, SimulationError};

#[test]
fn time_and_memory_are_accounted_for() {
    let mut draws = Draws(0x5eed_0003);
    let (mut played, mut refused) = (0, 0);
    for i in 0..count() {
        let step = draw(&mut draws);
        let run = match Simulation::run(&step.inputs, &Options::default()) {
            Ok(run) => run,
            Err(SimulationError::Engine(e @ EngineError::Deadlock { .. })) => panic!("{e}\n{}", step.text),
            Err(_) => {
                refused += 1;
                continue;
            }
        };
        played += 1;
        for (place, left) in Sums::of(&run.plan).left {
            assert_eq!(left, 0, "step {i}: {place:?} keeps bytes\n{}", step.text);
        }
        let report = run.report(false);
        assert_eq!(report.impossible(), None, "step {i}\n{}", step.text);
        assert_eq!(report.tokens_per_step, BATCH * SEQUENCE, "step {i}\n{}", step.text);
        assert!(report.hfu_causal >= report.mfu_causal * (1.0 - 1e-9), "step {i}\n{}", step.text);
    }
    println!("{played} played, {refused} refused");
    assert!(played > refused);
}
