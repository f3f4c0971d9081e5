//! What is printed of a candidate is the run with its settings, to the digit: on shipped workloads and on random steps, in the
//! report, in its sentence and by `whatif`.

use super::steps::{Draws, draw};
use crate::slow::{slow, tried};
use stepsim::core::units::Time;
use stepsim::read::analysis::candidates::Candidate;
use stepsim::simulate::jump::{figures, glanced};
use stepsim::simulate::whatif::{Subject, WhatIfBase};
use stepsim::simulate::{Inputs, Options};
use stepsim::spec::{Disk, Kind, SpecError, catalog};
use stepsim::study::otherwise::{Depth, with_candidates};

/// Holds each candidate of a step to the run that `again` reads with its settings; returns how many there were.
fn held(
    name: &str,
    inputs: &Inputs,
    depth: Depth,
    again: impl Fn(&[String]) -> Result<Inputs, SpecError>,
) -> usize {
    let options = Options::default();
    let Ok(report) = glanced(inputs, &options) else { return 0 };
    let report = with_candidates(inputs, &options, report, depth).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(report.candidates.is_sorted_by_key(|c| c.step_s), "{name}");
    let run_s = |c: &Candidate| match &c.without {
        None => {
            let inputs = again(&c.sets).unwrap_or_else(|e| panic!("{name} {c:?}: {e}"));
            figures(&inputs, &options, false).expect("a run").step_end.s()
        }
        Some(without) => {
            let base = WhatIfBase::new(inputs, options).expect("a run");
            let change = Subject::without(without, &inputs.topology.value).expect("a cost");
            base.with(&[change]).expect("a run").step_time_s
        }
    };
    for c in &report.candidates {
        assert_ne!(c.sets.is_empty(), c.without.is_none(), "{name}: {c:?}");
        assert_eq!(run_s(c), c.step_s, "{name}: {c:?}");
        assert!(c.step_s < report.step_time_s, "{name}: {c:?}");
        assert!((c.own_s + c.induced_s - (report.step_time_s - c.step_s)).abs() < 1e-12, "{name}: {c:?}");
    }
    // The sentence says the steps of both halves.
    for half in report.answer.halves() {
        assert!(report.candidates.contains(half), "{name}: {half:?}");
        let step = Time::from_s(half.step_s).to_string();
        assert!(report.hangs_on.contains(&step), "{name}: {}", report.hangs_on);
    }
    report.candidates.len()
}

/// A choice is left out, or not played at all, only where its run would be no gain.
#[test]
fn no_schedule_that_gains_is_left_out() {
    let (options, schedule) = (Options::default(), "parallelism.pipeline.schedule=");
    let any = "stack=simple".to_owned();
    let inputs = Inputs::load("gpt3-175b", None, std::slice::from_ref(&any)).expect("a workload");
    let report = glanced(&inputs, &options).expect("a run");
    let report = with_candidates(&inputs, &options, report, Depth::All).expect("runs");
    let (mut gains, mut others) = (0, 0);
    for name in ["gpipe", "1f1b", "dualpipe", "dualpipe-v", "interleaved-torch", "looped-bfs"] {
        let sets = [format!("{schedule}{name}"), any.clone()];
        let run = Inputs::load("gpt3-175b", None, &sets).map(|inputs| figures(&inputs, &options, false));
        let gain = matches!(run, Ok(Ok(run)) if run.step_end.s() < 0.9995 * report.step_time_s);
        assert_eq!(report.candidates.iter().any(|c| c.sets.first() == sets.first()), gain, "{name}");
        (gains, others) = (gains + u32::from(gain), others + u32::from(!gain));
    }
    assert!(gains > 1 && others > 1, "{gains} of them gain, {others} do not");
}

#[test]
fn a_printed_gain_is_that_of_the_run_with_the_change() {
    let depth = if slow() { Depth::All } else { Depth::Tables };
    let of_shipped = catalog::names(Kind::Workload).filter(|name| tried(name)).map(|name| {
        let again = |sets: &[String]| Inputs::load(name, None, sets);
        let inputs = again(&[]).unwrap_or_else(|e| panic!("{name}: {e}"));
        held(name, &inputs, depth, again)
    });
    let shipped: usize = of_shipped.sum();
    assert!(shipped >= 20, "{shipped} candidates");
}

#[test]
fn so_it_is_on_random_steps() {
    let mut draws = Draws(0x5eed_9a17);
    let count = if slow() { 200 } else { 12 };
    let of_steps = (0..count).map(|_| {
        let step = draw(&mut draws);
        held(&step.text, &step.inputs, Depth::All, |sets| Inputs::from_json(&step.text, None, sets, &Disk))
    });
    let random: usize = of_steps.sum();
    assert!(random >= 3 * count, "{random} candidates of {count} steps");
}
