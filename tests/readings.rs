//! What reports and timelines say of one run: both the same, and the same whether the run was folded or not.

use std::ops::ControlFlow;

use serde_json::Value;
use stepsim::core::ids::{OpId, RankId};
use stepsim::read::analysis::diff::diff;
use stepsim::read::analysis::reading::{Measure, PageContents, Reading, Report, Run, Sheet};
use stepsim::read::analysis::table::table;
use stepsim::simulate::behaviour::drawn;
use stepsim::simulate::page::page;
use stepsim::simulate::{Inputs, Options, Simulation, jump};
use stepsim::study::{How, ReportColumns, Space, StudyBase, SweepOptions, SweepShard, sweep};

use crate::command::Folder;

/// Runs `stepsim run` and returns the report and the timeline of all ranks.
fn run(workload: &str, more: &str) -> (Value, String) {
    let folder = Folder::new();
    let shown = "-q --trace-ranks all --report report.json -o step.json";
    folder.stepsim(&format!("run {workload} {shown} {more}")).ok();
    (folder.json("report.json"), folder.text("step.json"))
}

/// Leaves out what says how much was simulated.
fn without_cost(mut report: Value) -> Value {
    for field in ["events", "classes", "run"] {
        report.as_object_mut().expect("an object").remove(field);
    }
    report
}

/// Where two texts first differ, for a message of bearable length.
fn first_difference<'a>(a: &'a str, b: &'a str) -> Option<(&'a str, &'a str)> {
    let lines = a.lines().zip(b.lines()).filter(|(a, _)| !a.contains("ranks simulated"));
    lines.into_iter().find(|(a, b)| a != b)
}

#[test]
fn folded_and_unfolded_runs_read_alike() {
    for (workload, level) in [
        ("tiny-4", "op"),
        ("gpt2-8", "op"),
        ("cxl-pool-8", "layer"),
        ("cxl-pool-8 --set topology.device.hbm.GBps=15", "layer"),
        ("llama3-8b-fsdp", "layer"),
        ("mixtral-8x7b", "phase"),
        ("straggler-64 --set batch.global=16", "phase"),
    ] {
        let detail = format!("--detail {level} --trace-links 8");
        let (folded, shown) = run(workload, &detail);
        let (full, shown_in_full) = run(workload, &format!("{detail} --no-fold"));
        assert!(folded["classes"] != full["classes"] || workload == "tiny-4", "{workload}: nothing folds");
        let (folded, full) = (without_cost(folded), without_cost(full));
        for (field, value) in full.as_object().expect("an object") {
            assert_eq!(&folded[field], value, "{workload}: {field} folded and unfolded");
        }
        assert_eq!(first_difference(&shown, &shown_in_full), None, "{workload}");
        assert_eq!(shown.lines().count(), shown_in_full.lines().count(), "{workload}");
    }
}

/// A collective in steps, whose own flows share links, is no contention where nobody else is on the machine.
#[test]
fn a_lone_group_does_not_contend_with_itself() {
    let lone = "--set parallelism.tensor=4 --set parallelism.pipeline={\"size\":1}";
    for fidelity in ["steps", "fluid"] {
        let (report, _) = run("tiny-4", &format!("{lone} --set fidelity.collectives={fidelity}"));
        let stalls = &report["mean"]["stalls_s"];
        assert!(stalls["tensor_parallel"].as_f64().is_some_and(|s| s > 0.0), "{stalls}");
        assert_eq!(stalls["contention"], Value::Null, "{fidelity}");
    }
}

/// Copies take of a slow device memory what kernels then lack; a memory that is slowed holds both up.
#[test]
fn copies_and_kernels_share_device_memory() {
    let busy = |settings: &str| {
        let (report, _) = run("cxl-pool-8", settings);
        let of = |field: &str| report["mean"][field].as_f64().unwrap_or(0.0);
        (of("busy_s"), of("slowed_by_memory_s"))
    };
    let (healthy, none) = busy("");
    assert_eq!(none, 0.0, "copies and kernels have room beside each other on a healthy device");
    let (_, shared) = busy("--set topology.device.hbm.GBps=15");
    // Kernels ask for the bandwidth that they are priced at, three quarters of a copy's in a long step.
    assert!(shared > 0.2, "{shared} s added");
    let (slow, added) = busy(r#"--set noise.slow_links=[{"link":"*hbm*","slowness":40}]"#);
    assert!(
        (slow - healthy - added).abs() < 1e-3 * slow && added > healthy,
        "{healthy} s, {slow} s, {added} s"
    );
}

/// Eight updates on one host are slow for its memory, and not for a link.
#[test]
fn updates_that_share_the_memory_of_a_host_say_so() {
    let (report, _) = run("llama3-70b-offload", "");
    let [memory, contention] = ["host_memory_shared", "contention"].map(|cause| {
        report["mean"]["stalls_s"][cause].as_f64().unwrap_or(0.0)
            / report["step_time_s"].as_f64().expect("a time")
    });
    assert!(memory > 0.25 && contention < 0.01, "{memory} {contention}");
}

/// A reading of a caller's own: how often ops ran, over all ranks, and for how long.
struct Counted;

impl Reading for Counted {
    fn counts_turns(&self) -> bool {
        true
    }
    fn read(&self, run: &mut Run<'_, '_>, report: &mut Report) {
        let (mut ops, mut op_s) = (0, 0.0);
        for (rank, weight) in (0..).map(RankId).zip(&run.weights) {
            let times = run.times(rank);
            for op in (0..run.world().program_of(rank).ops.len() as u32).map(OpId) {
                let (start, end) = run.causes.span(rank, op);
                ops += weight * times(op);
                op_s += (end - start).s() * (weight * times(op)) as f64;
            }
        }
        report.own.insert("counted".into(), serde_json::json!({"ops": ops, "op_s": op_s}));
    }
    fn table(&self, report: &Report, out: &mut String, _: u16) {
        *out += &format!("\nCounted: {}\n", report.own["counted"]["ops"]);
    }
    fn page(&self, _: &Report, shown: &PageContents, sheet: &mut Sheet) {
        sheet.section("Counted", "Its own.", |out| out.push_str(&shown.of_ranks.to_string()));
    }
}

/// It stands wherever those of the library stand, also where turns are counted and not played.
#[test]
fn a_reading_of_ones_own_stands_in_report_tables_page_columns_and_comparison() {
    let options = Options::default();
    let inputs = |sets: &[String]| Inputs::load("tiny-4", None, sets).expect("inputs").read_by(&Counted);
    let long = inputs(&["batch.global=256".into()]);
    let run = Simulation::run(&long, &options).expect("a run");
    let report = run.report(false);
    let said = &report.own["counted"];
    assert_eq!(said["ops"], report.ops);
    let by_turns = jump::reported(&long, &options).expect("a report");
    assert!(by_turns.jumped.is_some() && by_turns.own["counted"]["ops"] == report.ops);

    let json = serde_json::to_value(&report).expect("JSON");
    assert_eq!(json["own"]["counted"], *said);
    assert_eq!(serde_json::from_value::<Report>(json).expect("a report"), report);
    let line = format!("\nCounted: {}\n", report.ops);
    assert!(table(&report, &long.readings, 100).contains(&line));
    assert!(!table(&report, &[], 100).contains(&line));
    let html = page(&run, &drawn(&run), &report).expect("a page");
    assert!(html.contains("<h2>Counted</h2><p>Its own.</p>4"));

    let short = Simulation::run(&inputs(&[]), &options).expect("a run").report(false);
    let lines = diff(&short, &report);
    let own = lines.iter().find(|line| line.section == "counted" && line.what == "ops");
    assert_eq!(own.map(|line| (line.a, line.b)), Some((short.ops as f64, report.ops as f64)));
    assert!(lines.iter().any(|line| line.section == "counted" && line.unit == Measure::Seconds));

    let base = StudyBase::load("tiny-4", None, &[]).expect("a base").read_by(&Counted);
    let columns = ReportColumns::new(["own.counted.ops".to_string()]).expect("a path");
    let space = Space::new(Vec::new(), &base).expect("a point");
    let shard = SweepShard { number: 1, of: 1 };
    let how =
        SweepOptions { how: How::Simulated, columns, shard, threads: None, output: None, resume: false };
    let rows = sweep(&base, &space, &how, &mut |_| ControlFlow::Continue(())).expect("rows");
    assert_eq!(rows[0].outcome.columns["own.counted.ops"], short.ops);
}
