//! Kineto files: what is read back from them is what the report says.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::command::Folder;

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
    for settings in [
        "tiny-4 --set=parallelism.tensor=2 --set=parallelism.pipeline.size=2 --set=batch.global=2",
        "cxl-pool-8",
        "llama3-8b-fsdp",
    ] {
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

/// A timeline whose slices of communication are merged is refused: how long it ran is not in it.
#[test]
fn a_merged_timeline_is_no_profile() {
    let folder = Folder::new();
    folder.stepsim("run llama3-8b-fsdp -q --detail phase -o step.json").ok();
    let said = folder.stepsim("analyze step.json").refused();
    assert!(said.contains("--detail op"), "{said}");
}

/// Planted causes are found in what is exported, first and with what they cost.
#[test]
fn planted_causes_are_found_in_exported_files() {
    for (plain, planted, cause) in [
        ("gpt2-8", "noise.stragglers=[{\"rank\":3,\"slowness\":1.4}]", "rank 3 (×"),
        ("tiny-4", "stack=fsdp2-eager", "host"),
    ] {
        let folder = Folder::new();
        let run = format!("run {plain} -q --trace-ranks all");
        folder.stepsim(&format!("{run} --report plain.json")).ok();
        let kineto = "-o k --format kineto --report planted.json";
        folder.stepsim(&format!("{run} --set '{planted}' {kineto}")).ok();
        folder.stepsim(&format!("analyze {} --report read.json", files(&folder, "k").join(" "))).ok();
        let read = folder.json("read.json");
        let first = &read["candidates"][0];
        assert!(
            first["what"].as_str().expect("a cause").starts_with(cause),
            "{planted}: {}",
            read["candidates"]
        );
        if cause.starts_with("rank") {
            let [plain, planted] =
                ["plain.json", "planted.json"].map(|f| folder.json(f)["step_time_s"].as_f64().expect("s"));
            let found =
                first["step_s"].as_f64().expect("seconds") / read["played_s"].as_f64().expect("seconds");
            assert!((found - plain / planted).abs() < 0.02, "{found} for {}", plain / planted);
        }
    }
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
