//! Limits of what a run records.

use stepsim_simulate::jump::figures;
use stepsim_simulate::{Inputs, Options, Simulation};

#[test]
fn a_record_that_is_too_large_is_refused_with_what_helps() {
    let inputs = Inputs::load("gpt2-8", None, &[]).expect("a workload");
    let few = Options { record_bytes: 1000, ..Options::default() };
    let error = Simulation::run(&inputs, &few).expect_err("1,000 bytes are too few").to_string();
    assert!(error.contains("more than the limit of 1000") && error.contains("--record-gib"), "{error}");
    let need = error.split(' ').find_map(|word| word.parse::<u64>().ok()).expect("the bytes needed");
    assert!(Simulation::run(&inputs, &Options { record_bytes: need, ..few }).is_ok());
}

/// `run -q --no-jump`: where nothing is read of single ops nothing is recorded, so no limit of the record stands in
/// the way.
#[test]
fn a_step_of_which_nothing_is_read_knows_no_limit_of_the_record() {
    let inputs = Inputs::load("gpt2-8", None, &[]).expect("a workload");
    for fold in [true, false] {
        let few = Options { record_bytes: 1000, jump: false, fold, ..Options::default() };
        let run = Simulation::run(&inputs, &Options { fold, ..Options::default() }).expect("a run");
        let figures = figures(&inputs, &few, false).expect("nothing is recorded");
        assert_eq!(figures.step_end, run.record.step_end);
        assert_eq!(figures.memory_peak_bytes, run.memory_peak_bytes());
        assert!(Simulation::run(&inputs, &few).is_err());
    }
}
