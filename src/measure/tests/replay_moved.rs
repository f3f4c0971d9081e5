use stepsim_measure::profile::programs::{ProgramOp, RankProgram, StepPrograms, TracedCollective};
use stepsim_measure::replay::moved::*;

fn step(kind: &str, bytes: Option<u64>) -> StepPrograms {
    let collective =
        TracedCollective { kind: kind.into(), bytes, group_size: 4, ..TracedCollective::default() };
    let op = ProgramOp { ns: 1_000_000, collective: Some(collective), ..ProgramOp::default() };
    let rank = RankProgram { streams: vec!["host".into()], ops: vec![op], ..RankProgram::default() };
    StepPrograms { ranks: vec![rank], ..StepPrograms::default() }
}

/// (n − 1) / n of the buffer goes over each port: half the rate takes twice as long, and eight ranks instead of
/// four 7/8 : 3/4 as long. Latency is left out of the machines.
#[test]
fn times_go_by_the_models_of_both_machines() {
    let [slow, fast] = ["switch:16,50,0", "switch:16,100,0"].map(|name| MachineNetwork::load(name).unwrap());
    let ns = |to: &MachineNetwork, replicas| {
        let moved = moved(&step("all-gather", Some(1 << 30)), &fast, to, replicas).unwrap();
        moved.step.ranks[0].ops[0].ns
    };
    assert_eq!((ns(&fast, 1), ns(&slow, 1)), (1_000_000, 2_000_000));
    assert_eq!(ns(&fast, 2), 1_166_667);
}

#[test]
fn what_a_profile_does_not_tell_keeps_its_time() {
    let [slow, fast] = ["switch:4,50,0", "switch:4,100,0"].map(|name| MachineNetwork::load(name).unwrap());
    for (kind, bytes, why) in
        [("all-gather", None, "all-gather has no size"), ("dispatch", Some(4), "dispatch is no collective")]
    {
        let moved = moved(&step(kind, bytes), &fast, &slow, 1).unwrap();
        assert_eq!(moved.step, step(kind, bytes));
        assert!(moved.unknown[0].starts_with(why), "{:?}", moved.unknown);
    }
    let error = moved(&step("all-reduce", Some(8)), &fast, &slow, 2).unwrap_err().to_string();
    assert!(error.contains("has 4 devices, and a group has 8 ranks"), "{error}");
}
