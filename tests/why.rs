//! Why a step takes as long as it does: waterfalls, critical paths and slack of shipped workloads.

use stepsim::core::ids::{OpId, RankId};
use stepsim::core::units::Time;
use stepsim::read::analysis::cause::Causes;
use stepsim::read::analysis::critical::critical_path;
use stepsim::read::analysis::diff::Line;
use stepsim::read::analysis::idle::IdleTimes;
use stepsim::read::analysis::report::Report;
use stepsim::read::analysis::slack::slack;
use stepsim::simulate::jump::glanced;
use stepsim::simulate::whatif::{Change, Subject, WhatIfBase};
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::spec::{Kind, catalog};

use crate::command::Folder;
use crate::slow::{slow, tried};

/// Op executions up to which a workload is run.
const SMALL: u64 = 30_000_000;

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs().max(1e-9)
}

/// The runs of all shipped workloads that are small enough and fit.
fn shipped() -> impl Iterator<Item = (String, Simulation)> {
    catalog::names(Kind::Workload).filter(|name| tried(name)).filter_map(|name| {
        let inputs = Inputs::load(name, None, &[]).unwrap_or_else(|e| panic!("{name}: {e}"));
        let small = inputs.plan().is_ok_and(|plan| plan.world.op_instances() <= SMALL);
        let run = small.then(|| Simulation::run(&inputs, &Options::default()).ok()).flatten();
        if run.is_none() {
            println!("skipped: {name}");
        }
        Some((name.to_string(), run?))
    })
}

fn holds(name: &str, report: &Report) {
    let waterfall = report.waterfall.as_ref().unwrap_or_else(|| panic!("{name} has no waterfall"));
    assert!(close(waterfall.mean.mfu, report.mfu), "{name}: {} {}", waterfall.mean.mfu, report.mfu);
    assert_eq!(waterfall.stages.len(), report.stages.len(), "{name}");
    for bars in std::iter::once(&waterfall.mean).chain(&waterfall.stages) {
        let sum: f64 = bars.bars.iter().map(|b| b.share).sum();
        assert!(close(sum + bars.mfu, 1.0), "{name}: {}", sum + bars.mfu);
        let seconds: f64 = bars.bars.iter().map(|b| b.time_s).sum();
        assert!(close(seconds, report.step_time_s * (1.0 - bars.mfu)), "{name}: {seconds}");
    }
    let of_kernels: f64 = report.kernels.iter().map(|k| k.time_s).sum();
    assert!(of_kernels <= report.mean.busy_s * (1.0 + 1e-9), "{name}: {of_kernels}");
    let path = &report.critical_path;
    let stretches = &path.stretches;
    assert_eq!(stretches.first().map(|s| s.start_s), Some(0.0), "{name}");
    assert_eq!(stretches.last().map(|s| s.end_s), Some(report.step_time_s), "{name}");
    assert!(stretches.windows(2).all(|w| w[0].end_s == w[1].start_s), "{name}");
    let length: f64 = stretches.iter().flat_map(|s| s.by_kind_s.values()).sum();
    assert!(close(length, report.step_time_s), "{name}: {length}");
}

/// The chain of binding waits is as long as the step, without a gap, to the picosecond, and nothing on it could end
/// later.
fn path_is_the_step(name: &str, run: &Simulation) {
    let world = &run.folded.world;
    let mut idle = IdleTimes::unfolded(&run.plan.world, &run.folded.comms.representative);
    let path = critical_path(&mut Causes::new(world, &run.record), &mut idle);
    let (first, last) = (path.links.first().expect(name), path.links.last().expect(name));
    assert_eq!((first.start, last.end), (Time::ZERO, run.record.step_end), "{name}");
    // Between two of them lie at most the launch of the second and its wait for memory.
    assert!(path.links.windows(2).all(|w| w[0].end <= w[1].ready && w[1].ready <= w[1].start), "{name}");
    assert_eq!(path.total(), run.record.step_end, "{name}");
    let slack = slack(&Causes::new(world, &run.record));
    for link in &path.links {
        assert_eq!(slack.get(link.rank, link.op), Time::ZERO, "{name}: {link:?}");
    }
    // No op may end later than the step does.
    for rank in (0..run.record.ranks()).map(RankId) {
        for op in (0..world.program_of(rank).ops.len() as u32).map(OpId) {
            let end = run.record.span(rank, op).1;
            assert!(end + slack.get(rank, op) <= run.record.step_end, "{name}: {rank:?} {op:?}");
        }
    }
}

#[test]
fn waterfalls_and_paths_of_shipped_workloads_fill_the_step() {
    let mut seen = 0;
    for (name, run) in shipped() {
        holds(&name, &run.report(false));
        path_is_the_step(&name, &run);
        seen += 1;
    }
    assert!(seen >= if slow() { 10 } else { 5 }, "{seen} workloads are small enough");
}

fn loaded(name: &str, sets: &[&str]) -> Inputs {
    let sets: Vec<String> = sets.iter().map(|s| (*s).to_string()).collect();
    Inputs::load(name, None, &sets).unwrap_or_else(|e| panic!("{name} {sets:?}: {e}"))
}

/// A what-if is a run of the changed machine, to the picosecond, and the steps are not all alike.
#[test]
fn a_what_if_equals_a_run_with_the_changed_machine() {
    let device = "topology.device.peak_dense_TFLOPs";
    let plain = loaded("gpt2-8", &[]);
    let peaks = plain.topology.value.device.peak_dense_tflops;
    let peak = |name: &str, value: Option<f64>| value.map(|v| format!("{device}.{name}={:?}", v * 1.1));
    let peaks: Vec<String> =
        [("fp32", peaks.fp32), ("tf32", peaks.tf32), ("bf16", peaks.bf16), ("fp16", peaks.fp16)]
            .into_iter()
            .chain([("fp8", peaks.fp8), ("int8", peaks.int8)])
            .filter_map(|(name, value)| peak(name, value))
            .collect();
    let peaks: Vec<&str> = peaks.iter().map(String::as_str).collect();
    let memory = plain.topology.value.device.hbm.as_ref().expect("a memory").gbps * 1.25;
    let memory = format!("topology.device.hbm.GBps={memory:?}");
    let link = "topology.node.scale_up.switch.link.bandwidth_GBps_per_direction";
    let faster = plain.topology.value.clone().link_rate("scale-up").expect("a link") * 0.5;
    let link = format!("{link}={faster:?}");
    let straggler = r#"noise.stragglers=[{"rank":3,"slowness":2}]"#;
    let topology = &plain.topology.value;
    let cases: [(&str, f64, Vec<&str>, Vec<&str>); 5] = [
        ("matrix", 1.1, vec![], peaks),
        ("memory", 1.25, vec![], vec![&memory]),
        ("scale-up", 0.5, vec![], vec![&link]),
        ("rank.3", 0.5, vec![], vec![straggler]),
        ("host", 2.0, vec!["stack=fsdp2-eager"], vec!["stack=fsdp2-eager", "stack.host.slowness=0.5"]),
    ];
    for (what, factor, before, after) in cases {
        let subject = Subject::rate(what, topology).expect(what);
        let base = WhatIfBase::new(&loaded("gpt2-8", &before), Options::default()).expect("a run");
        let changed = base.with(&[Change { subject, factor }]).expect("a changed run");
        let run = Simulation::run(&loaded("gpt2-8", &after), &Options::default()).expect("a run");
        assert_eq!(changed.step_time_s, run.record.step_end.s(), "{what}");
        assert_ne!(changed.step_time_s, base.run().record.step_end.s(), "{what} changes nothing");
    }
}

/// Several changes at once are one run, at least as fast as each of them.
#[test]
fn several_changes_are_made_at_once() {
    let base = WhatIfBase::new(&loaded("gpt2-8", &[]), Options::default()).expect("a run");
    let topology = &base.run().inputs.topology.value;
    let rate = |name: &str| Subject::rate(name, topology).expect("a resource");
    let rates = ["matrix", "memory", "scale-up"].map(|name| Change { subject: rate(name), factor: 1.5 });
    let all = base.with(&rates).expect("a run");
    let each = base.each(&rates).expect("runs");
    assert!(each.changes.iter().all(|w| w.step_time_s >= all.step_time_s), "{each:?}");
    assert!(each.changes.is_sorted_by_key(|w| w.step_time_s));
    let costs = ["dp", "exposed", "interference", "tail"].map(|name| Subject::without(name, topology));
    let costs: Vec<Change> = costs.into_iter().map(|change| change.expect("a cost")).collect();
    assert!(base.each(&costs).expect("runs").changes.iter().all(|w| w.change <= 0.0));
}

/// What has a field is taken away in the workload: `whatif --without` equals the run with the field set.
#[test]
fn what_has_a_field_is_read_again_without_it() {
    let other_node = r#"topology.other_nodes=[{"first":0,"count":1,"device":"a100-sxm-80"}]"#;
    let uneven = ["expert_load.balance=factor", "expert_load.max_over_mean=1.6"];
    let documents = [r#"documents={"drawn":{"median":1024,"sigma":1.5}}"#];
    let cases: [(&str, &str, &[&str], &str); 5] = [
        ("recomputation", "llama3-8b-fsdp", &[], "recompute.granularity=none"),
        ("experts", "mixtral-8x7b", &uneven, "expert_load.balance=even"),
        ("device-classes", "llama3-70b", &[other_node], "topology.other_nodes=[]"),
        ("documents", "llama3-70b", &documents, "documents.order=balanced"),
        ("stragglers", "straggler-64", &[], "noise.stragglers=[]"),
    ];
    for (name, workload, before, set) in cases {
        let base = WhatIfBase::new(&loaded(workload, before), Options::default()).expect("a run");
        let change = Subject::without(name, &base.run().inputs.topology.value).expect(name);
        let without = base.with(&[change]).expect("a changed run");
        let run = Simulation::run(&loaded(workload, &[before, &[set]].concat()), &Options::default())
            .expect("a run");
        assert_eq!(without.step_time_s, run.record.step_end.s(), "{name}");
        assert_ne!(without.step_time_s, base.run().record.step_end.s(), "{name} changes nothing");
    }
}

/// A latency that hides in NCCL's measured steps is said to have no effect, and has none; a longer one shows.
#[test]
fn latencies_that_measured_steps_hide_are_told() {
    let set = |us: u32| format!("topology.node.nics.link.latency_us={us}");
    let played = |sets: &[&str]| {
        let inputs = loaded("llama3-70b", sets);
        (glanced(&inputs, &Options::default()).expect("a run").step_time_s, inputs.without_effect())
    };
    let (plain, shorter, longer) = (played(&[]), played(&[&set(0)]), played(&[&set(50)]));
    assert_eq!(plain.0, shorter.0);
    assert!(
        shorter.1.iter().any(|inert| inert.field == set(0) && inert.why.contains("NCCL")),
        "{:?}",
        shorter.1
    );
    assert!(longer.0 > plain.0 && plain.1.is_empty() && longer.1.is_empty());
}

/// Two variants of a workload: the field that differs comes first, then what it did. A timeline of ours stands beside a
/// report as a profile does.
#[test]
fn sides_may_be_workloads_reports_and_profiles() {
    let folder = Folder::new();
    let text = folder.stepsim("diff gpt2-8 gpt2-8 --set-b batch.micro_batch=2").ok();
    assert!(text.contains("workload.batch.micro_batch: ") && text.contains("from peak to MFU"), "{text}");
    // A file that names a base and nothing else of a workload is one.
    folder.write("short.json", r#"{"base": "gpt2-8", "batch": {"micro_batch": 2}}"#);
    let same = folder.stepsim("diff gpt2-8 ./short.json").ok();
    assert_eq!(
        same.split_once("from peak to MFU").expect("a section").1,
        text.split_once("from peak to MFU").unwrap().1
    );
    folder.stepsim("run gpt2-8 -q --report r.json -o t.json.gz").ok();
    let text = folder.stepsim("diff t.json.gz r.json --report lines.json").ok();
    assert!(text.contains("profile of rank 0") && text.contains("gemm"), "{text}");
    let lines: Vec<Line> = serde_json::from_value(folder.json("lines.json")).expect("lines");
    // One and the same step, read from the timeline of rank 0 and from the report of all.
    for what in ["step time", "compute", "gemm", "attention", "memory-bound"] {
        let line = lines.iter().find(|l| l.what == what && l.section != "number of kernels").expect(what);
        assert!((line.b / line.a - 1.0).abs() < 1e-3, "{line:?}");
    }
}
