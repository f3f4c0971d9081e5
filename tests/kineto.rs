//! Kineto files: what is read back from them is what the report says.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::command::Folder;
use crate::slow::{slow, tried, turn};

/// Files of a folder in order.
fn files(folder: &Folder, name: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path(name)).expect("a folder").map(|e| e.expect("an entry"));
    let files = entries.map(|entry| format!("{name}/{}", entry.file_name().to_str().expect("UTF-8")));
    let mut files: Vec<String> = files.collect();
    files.sort();
    files
}

/// The same step as one timeline and as a Kineto file a rank has the same kernels, those of the report; and the timeline
/// reads as the report: communication in its three parts, and kernels, exposed communication and waiting fill the step.
#[test]
fn what_is_written_reads_back_to_the_report() {
    for settings in turn([
        "tiny-4 --set=parallelism.tensor=2 --set=parallelism.pipeline.size=2 --set=batch.global=2",
        "cxl-pool-8",
        "llama3-8b-fsdp",
        "straggler-64 --set=batch.global=8 --set=model.layers=4 --set=topology.nodes=4 --set=parallelism.data=2",
    ]) {
        let folder = Folder::new();
        let run = format!("run {settings} --trace-ranks all -q");
        folder.stepsim(&format!("{run} -o kineto --format kineto --report report.json")).ok();
        folder.stepsim(&format!("{run} --detail op -o step.json")).ok();
        let files = files(&folder, "kineto");
        assert!(files[0].ends_with("0.json.gz"));
        folder.stepsim(&format!("analyze --report files.json {}", files.join(" "))).ok();
        folder.stepsim("analyze --report timeline.json step.json").ok();
        let [of_files, of_timeline, report] =
            ["files.json", "timeline.json", "report.json"].map(|name| folder.json(name));
        let ranks = of_files["ranks"].as_array().expect("ranks");
        assert_eq!(ranks.len(), report["devices"].as_u64().expect("devices") as usize);
        let seconds = |v: &Value| v.as_f64().expect("seconds");
        let close = |a: f64, b: f64, what: &str| {
            assert!((a - b).abs() < 1e-5 * b + 2e-6, "{settings}: {what}: {a} {b}")
        };
        for (i, rank) in ranks.iter().enumerate() {
            assert_eq!(rank["rank"], i);
            let other = &of_timeline["ranks"][i];
            for field in ["compute_s", "copies_s"] {
                assert_eq!(rank[field], other[field], "{settings} rank {i}: {field}");
            }
            for work in ["gemm", "attention", "optimizer"] {
                assert_eq!(ns_of(rank, work), ns_of(other, work), "{settings} rank {i}: {work}");
            }
            assert!(ns_of(rank, "gemm") > 0 && rank["kernels"]["other"].is_null(), "{settings} rank {i}");
            close(seconds(&rank["compute_s"]), seconds(&report["ranks"][i]["busy_s"]), "busy");
            let idle: f64 = other["idle_s"].as_object().expect("causes").values().map(seconds).sum();
            let exposed = seconds(&other["exposed_communication_s"]);
            let told = seconds(&other["compute_s"]) + exposed + idle;
            let step = seconds(&report["step_time_s"]);
            // What is exposed of copies is no communication of these.
            let copies: f64 = step - told;
            assert!(
                copies > -2e-6 && (settings.starts_with("cxl") || copies < 1e-5),
                "{settings}: {told} of {step}"
            );
        }
        let timeline = of_timeline["ranks"].as_array().expect("ranks");
        for (kind, said) in report["communication"].as_object().expect("kinds") {
            for (ours, field) in
                [("ran_s", "ran_s"), ("under_kernels_s", "under_kernels_s"), ("exposed_s", "exposed_s")]
            {
                if matches!(kind.as_str(), "h2d" | "d2h") {
                    continue;
                }
                let of_rank = |rank: &Value| rank["communication"][kind][ours].as_f64().unwrap_or(0.0);
                let mean = timeline.iter().map(of_rank).sum::<f64>() / timeline.len() as f64;
                close(mean, seconds(&said[field]), &format!("{kind} {field}"));
            }
        }
    }
}

/// A timeline of any detail reads as the report of its run, cause by cause, or is refused; one that is not merged is read.
#[test]
fn a_timeline_reads_as_its_report_or_is_refused() {
    let all = std::fs::read_dir("workloads").expect("workloads").map(|e| e.expect("an entry").file_name());
    let all = all.filter_map(|name| Some(name.to_str()?.strip_suffix(".json")?.to_owned()));
    let all = all.filter(|name| !name.contains(".schema") && tried(name));
    let all: Vec<String> = all.collect();
    assert!(all.len() > 3, "{all:?}");
    for (name, detail) in all.iter().flat_map(|name| ["", "op", "layer", "phase", "pass"].map(|d| (name, d)))
    {
        // Of the large ones single ops are too many.
        if detail == "op" && slow() {
            continue;
        }
        let folder = Folder::new();
        let asked = if detail.is_empty() { String::new() } else { format!("--detail {detail}") };
        folder.stepsim(&format!("run {name} -q -o step.json.gz --report report.json {asked}")).ok();
        let said = folder.stepsim("analyze step.json.gz --report read.json");
        if said.status == Some(2) {
            assert!(detail != "op" && said.error.contains("--detail op"), "{name} {asked}: {}", said.error);
            continue;
        }
        said.ok();
        let [read, report] = ["read.json", "report.json"].map(|file| folder.json(file));
        let step = report["step_time_s"].as_f64().expect("seconds");
        for rank in read["ranks"].as_array().expect("ranks") {
            let of_report =
                report["ranks"].as_array().expect("ranks").iter().find(|r| r["rank"] == rank["rank"]);
            let of_report = of_report.unwrap_or_else(|| panic!("{name}: no rank {}", rank["rank"]));
            let close = |a: &Value, b: &Value, what: &str| {
                let [a, b] = [a, b].map(|value| value.as_f64().unwrap_or(0.0));
                assert!((a - b).abs() < 1e-5 * step, "{name} {asked} rank {}: {what} {a} {b}", rank["rank"]);
            };
            close(&rank["compute_s"], &of_report["busy_s"], "busy");
            close(&rank["window_s"], &report["step_time_s"], "step");
            for (cause, seconds) in rank["idle_s"].as_object().expect("causes") {
                close(seconds, &of_report["stalls_s"][cause.replace([' ', '-'], "_")], cause);
            }
        }
    }
}

/// A cause that is planted in a step of few ranks, and the first words of what must be found.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Planting {
    cause: String,
    step: Value,
    /// Settings of both runs, of the one with the cause, and of the one without.
    always: Vec<String>,
    with: String,
    without: String,
    first: String,
}

/// Six causes are planted, exported and read: each stands first, and its gain is that of the two runs.
#[test]
fn planted_causes_are_found_in_exported_files() {
    let plantings: Vec<Planting> =
        serde_json::from_str(include_str!("data/exported-plantings.json")).expect("plantings");
    let mut missed = Vec::new();
    for Planting { cause, step, always, with, without, first } in turn(plantings) {
        let folder = Folder::new();
        folder.write("step.json", step.to_string());
        let run = |set: &String, rest: &str| {
            let sets = always.iter().chain([set]).map(|set| format!("--set '{set}'"));
            let sets = sets.collect::<Vec<_>>().join(" ");
            folder.stepsim(&format!("run step.json -q --trace-ranks all {sets} {rest}")).ok();
        };
        run(&without, "--report without.json");
        run(&with, "-o k --format kineto --report with.json");
        let traces = files(&folder, "k").join(" ");
        folder.stepsim(&format!("analyze {traces} --report read.json")).ok();
        let seconds = |file: &str, field: &str| folder.json(file)[field].as_f64().expect("seconds");
        let step_s = seconds("with.json", "step_time_s");
        let truth = step_s - seconds("without.json", "step_time_s");
        let read = folder.json("read.json");
        let found = &read["candidates"][0];
        let gain = seconds("read.json", "played_s") - found["step_s"].as_f64().unwrap_or(f64::NAN);
        let is_first = found["what"].as_str().is_some_and(|what| what.starts_with(&first));
        println!(
            "{cause}: {:.2} % of the step, found {gain} of {truth} s: {}",
            100.0 * truth / step_s,
            read["hangs_on"]
        );
        if !is_first || truth < 0.05 * step_s || (gain / truth - 1.0).abs() > 0.02 {
            missed.push(format!("{cause}: {gain} of {truth} s: {}", read["hangs_on"]));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// Nanoseconds of a rank's kernels of one kind of work.
fn ns_of(rank: &Value, work: &str) -> i64 {
    let kernels = rank["kernels"].as_object().expect("kernels by class");
    let of_work = kernels.values().filter(|class| class["work"] == work);
    of_work.map(|class| (class["total_s"].as_f64().expect("seconds") * 1e9).round() as i64).sum()
}

/// The events of a step with copies to and from the host.
fn events_of_offload() -> Vec<Value> {
    let folder = Folder::new();
    folder.stepsim("run llama3-70b-offload --trace-ranks 0 -q -o kineto --format kineto").ok();
    let file = std::fs::File::open(folder.path(&files(&folder, "kineto")[0])).expect("a file");
    let file: Value = serde_json::from_reader(flate2::read::GzDecoder::new(file)).expect("JSON");
    file["traceEvents"].as_array().expect("events").clone()
}

/// A stream waits for an event that was recorded, at the moment at which an op of the stream that the wait names ends.
#[test]
fn a_wait_ends_with_what_it_waits_for() {
    let events = events_of_offload();
    let ns = |e: &Value, field: &str| (e[field].as_f64().expect("a number") * 1e3).round() as u64;
    let recorded: BTreeSet<u64> = events
        .iter()
        .filter(|e| e["name"] == "cudaEventRecord")
        .map(|e| e["args"]["correlation"].as_u64().expect("a number"))
        .collect();
    let of_stream = |e: &&Value| e["args"]["stream"].is_u64() && e["dur"].as_f64() > Some(0.0);
    let end = |e: &Value| (ns(e, "ts") + ns(e, "dur"), e["args"]["stream"].as_u64().expect("a number"));
    let ends: BTreeSet<(u64, u64)> = events.iter().filter(of_stream).map(end).collect();
    let waits: Vec<&Value> = events.iter().filter(|e| e["name"] == "Stream Wait Event").collect();
    assert!(waits.len() > 10, "{}", waits.len());
    for wait in waits {
        let of = |field: &str| wait["args"][field].as_u64().expect("a number");
        assert!(recorded.contains(&of("wait_on_cuda_event_record_corr_id")), "{wait}");
        assert_ne!(of("wait_on_stream"), of("stream"), "{wait}");
        assert!(ends.contains(&(ns(wait, "ts"), of("wait_on_stream"))), "{wait}");
    }
}

/// An arrow leads from a call of the host, inside an operator of its name, to each kernel and copy that it launches.
#[test]
fn whatever_runs_on_the_device_is_launched_by_an_operator() {
    let events = events_of_offload();
    let of = |category: &'static str| events.iter().filter(move |e| e["cat"] == category);
    let place = |e: &Value| (e["pid"].as_u64(), e["tid"].as_u64(), e["ts"].to_string());
    let arrows = |phase: &'static str| -> BTreeMap<u64, _> {
        of("ac2g")
            .filter(|e| e["ph"] == phase)
            .map(|e| (e["id"].as_u64().expect("a number"), place(e)))
            .collect()
    };
    let (begin, end) = (arrows("s"), arrows("f"));
    let calls: BTreeMap<u64, &Value> =
        of("cuda_runtime").filter_map(|e| Some((e["args"]["correlation"].as_u64()?, e))).collect();
    let operators: BTreeMap<u64, &Value> =
        of("cpu_op").filter_map(|e| Some((e["args"]["External id"].as_u64()?, e))).collect();
    let until = |e: &Value| e["ts"].as_f64().zip(e["dur"].as_f64()).map(|(start, lasts)| start + lasts);
    let mut launched = 0;
    for e in of("kernel").chain(of("gpu_memcpy")) {
        let number = e["args"]["correlation"].as_u64().expect("a number");
        let (call, operator) = (calls[&number], operators[&number]);
        assert_eq!((&begin[&number], &end[&number]), (&place(call), &place(e)), "{e}");
        assert_eq!(operator["name"], e["name"]);
        assert!(
            operator["ts"].as_f64() < call["ts"].as_f64() && until(call) < until(operator),
            "{call} {operator}"
        );
        launched += 1;
    }
    assert!(launched > 100 && launched == begin.len() && launched == end.len(), "{launched}");
}

/// Whatever runs, the device's streams and the host's own work, stands on a thread that has a name.
#[test]
fn every_thread_has_a_name() {
    let events = events_of_offload();
    let of = |phase: &str| -> BTreeSet<(u64, u64)> {
        let named = |e: &&Value| phase == "X" || e["name"] == "thread_name";
        let thread = |e: &Value| e["pid"].as_u64().zip(e["tid"].as_u64());
        events.iter().filter(|e| e["ph"] == phase).filter(named).filter_map(thread).collect()
    };
    let (named, used) = (of("M"), of("X"));
    assert!(used.len() > 4, "{used:?}");
    assert_eq!(used.difference(&named).collect::<Vec<_>>(), [&(0, 0); 0]);
}
