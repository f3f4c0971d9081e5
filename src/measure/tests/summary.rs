use std::collections::BTreeMap;

use stepsim_measure::profile::classes::Family;
use stepsim_measure::profile::report::{ClassProfile, RankProfile};
use stepsim_measure::summary::*;
use stepsim_read::analysis::report::Report;
use stepsim_simulate::{Inputs, Options, Simulation};

fn simulated() -> Report {
    let inputs = Inputs::load("tiny-4", None, &[]).unwrap();
    Simulation::run(&inputs, &Options::default()).unwrap().report(false)
}

/// Two measured steps of a GEMM and a copy kernel each, beside a simulated one.
#[test]
fn measured_and_simulated_have_the_same_lines() {
    let class =
        |family, work: &str, count, total_s| ClassProfile { family, work: work.into(), count, total_s };
    let profile = RankProfile {
        step_s: 0.5,
        window_s: 1.0,
        compute_s: 0.8,
        exposed_communication_s: 0.1,
        communication_s: 0.3,
        idle_s: BTreeMap::from([("host".into(), 0.1)]),
        kernels: BTreeMap::from([
            ("cuBLAS".into(), class(Family::Compute, "gemm", 4, 0.6)),
            ("NCCL".into(), class(Family::Communication, "", 2, 0.3)),
            ("norm".into(), class(Family::Compute, "memory-bound", 2, 0.2)),
        ]),
        steps: vec![Default::default(), Default::default()],
        ..RankProfile::default()
    };
    let measured = RankSummary::from(&profile);
    assert_eq!(measured.kernels["gemm"], (2.0, 0.3));
    let expected = [0.15, 0.1, 0.05];
    assert!(measured.communication_s.iter().zip(expected).all(|(s, e)| (s - e).abs() < 1e-12));
    let lines = beside(&measured, &RankSummary::from(&simulated()));
    assert_eq!((lines[0].what.as_str(), lines[0].a), ("step time", 0.5));
    assert!(lines.iter().any(|l| l.section == "kernels" && l.what == "memory-bound" && l.a == 0.1));
}

/// Work and waits of a simulated rank sum to its step.
#[test]
fn parts_of_a_simulated_step_fill_it() {
    let r = simulated();
    let s = RankSummary::from(&r);
    let whole = s.compute_s + s.idle_s + s.communication_s[2];
    assert!((whole - s.step_s).abs() < 1e-12 * s.step_s.max(1.0));
}
