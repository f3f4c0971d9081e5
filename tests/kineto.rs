//! Kineto files: what is read back from them is what the report says.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn stepsim(args: &[&str]) {
    let done = Command::new(env!("CARGO_BIN_EXE_stepsim")).args(args).output().expect("a run");
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn json(path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON")
}

/// Files of a folder in order.
fn files(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path());
    let mut files: Vec<String> = entries.map(|path| path.to_str().expect("UTF-8").to_string()).collect();
    files.sort();
    files
}

/// The same step as one timeline and as a Kineto file a rank reads the same, and as the report says.
#[test]
fn a_kineto_file_a_rank_reads_back_to_the_report() {
    for settings in [
        &[
            "tiny-4",
            "--set=parallelism.tensor=2",
            "--set=parallelism.pipeline.size=2",
            "--set=batch.global=2",
        ][..],
        &["cxl-pool-8"],
        &["llama3-8b-fsdp"],
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
        let (kineto, timeline, report) = (path("kineto"), path("step.json"), path("report.json"));
        let all = ["--trace-ranks", "all", "-q"];
        let as_kineto = ["-o", &kineto, "--format", "kineto", "--report", &report];
        stepsim(&[&["run"], settings, &all, &as_kineto].concat());
        stepsim(&[&["run"], settings, &all, &["-o", &timeline]].concat());
        let files = files(&kineto);
        assert!(Path::new(&files[0]).file_name().is_some_and(|name| name == "rank0.json.gz"), "{files:?}");
        let (of_files, of_timeline) = (path("files.json"), path("timeline.json"));
        let names: Vec<&str> = files.iter().map(String::as_str).collect();
        stepsim(&[&["analyze", "--report", &of_files][..], &names].concat());
        stepsim(&["analyze", "--report", &of_timeline, &timeline]);
        let (of_files, of_timeline, report) = (json(&of_files), json(&of_timeline), json(&report));
        let ranks = of_files["ranks"].as_array().expect("ranks");
        assert_eq!(ranks.len(), report["devices"].as_u64().expect("devices") as usize);
        for (i, rank) in ranks.iter().enumerate() {
            assert_eq!(rank["rank"], i);
            let other = &of_timeline["ranks"][i];
            for field in ["compute_s", "copies_s", "communication_s", "exposed_communication_s"] {
                assert_eq!(rank[field], other[field], "{settings:?} rank {i}: {field}");
            }
            let busy = report["ranks"][i]["busy_s"].as_f64().expect("seconds");
            let compute = rank["compute_s"].as_f64().expect("seconds");
            // Each kernel is rounded to nanoseconds for itself.
            assert!((busy - compute).abs() < 1e-6, "{settings:?} rank {i}: busy {busy}, read back {compute}");
        }
    }
}

/// Whatever runs, the device's streams and the host's own work, stands on a thread that has a name.
#[test]
fn every_thread_has_a_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8").to_string() + "/kineto";
    stepsim(&["run", "llama3-70b-offload", "--trace-ranks", "0", "-q", "-o", &path, "--format", "kineto"]);
    let file = std::fs::File::open(&files(&path)[0]).expect("a file");
    let file: Value = serde_json::from_reader(flate2::read::GzDecoder::new(file)).expect("JSON");
    let events = file["traceEvents"].as_array().expect("events");
    let of = |phase: &str| -> std::collections::BTreeSet<(u64, u64)> {
        let named = |e: &&Value| phase == "X" || e["name"] == "thread_name";
        let thread = |e: &Value| e["pid"].as_u64().zip(e["tid"].as_u64());
        events.iter().filter(|e| e["ph"] == phase).filter(named).filter_map(thread).collect()
    };
    let (named, used) = (of("M"), of("X"));
    assert!(used.len() > 4, "{used:?}");
    assert_eq!(used.difference(&named).collect::<Vec<_>>(), [&(0, 0); 0]);
}
