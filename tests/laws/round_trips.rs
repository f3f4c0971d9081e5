//! What is written is read back: the step that comes out of an export is the one that went in.

use serde_json::json;

use super::steps::{Draws, Step, count, draw};
use crate::command::Folder;

/// Seconds of a step in a report of `run`, or as `analyze` plays it again.
fn seconds(folder: &Folder, report: &str) -> f64 {
    let report = folder.json(report);
    report["step_time_s"].as_f64().or(report["played_s"].as_f64()).expect("a time")
}

/// Names of the files of a folder within, as words of a line.
fn files(folder: &Folder, within: &str, ending: &str) -> String {
    let names = std::fs::read_dir(folder.path(within)).expect("a folder").flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| name.ends_with(ending)).map(|name| format!("{within}/{name}")).collect();
    names.sort();
    names.join(" ")
}

/// A random step without what a file of times does not carry: the machine's part in a run, its memory.
fn each(draws: &mut Draws, tries: u64, mut try_one: impl FnMut(&Folder, &Step, f64)) {
    let mut tried = 0;
    while tried < tries {
        let step = draw(draws);
        let folder = Folder::new();
        folder.write("w.json", &step.text);
        if folder.stepsim("run ./w.json -q --report r.json").status == Some(0) {
            try_one(&folder, &step, seconds(&folder, "r.json"));
            tried += 1;
        }
    }
}

fn few() -> u64 {
    (count() / 40).max(2)
}

#[test]
fn kineto_files_replay() {
    each(&mut Draws(0x5eed_0009), few(), |folder, step, ran| {
        folder.stepsim("run ./w.json -q -o k --format kineto --trace-ranks all").ok();
        let ranks = files(folder, "k", ".json.gz");
        folder.stepsim(&format!("analyze {ranks} --report again.json")).ok();
        let again = seconds(folder, "again.json");
        assert!((again / ran - 1.0).abs() < 0.02, "{ran} and {again}\n{}", step.text);
    });
}

/// A resolved workload is the workload; the order of its passes, written as a file, is its schedule.
#[test]
fn resolved_workloads_and_orders_are_the_step() {
    each(&mut Draws(0x5eed_000a), few(), |folder, step, ran| {
        folder.write("again.json", folder.stepsim("show ./w.json --resolved").ok());
        folder.stepsim("run ./again.json -q --report same.json").ok();
        assert_eq!(seconds(folder, "same.json"), ran, "{}", step.text);
    });
}

/// The best workload of a search is the step that the search found, with what was fixed of the machine, which a
/// workload does not hold.
#[test]
fn workloads_of_searches_run() {
    let folder = Folder::new();
    let mut workload = super::steps::plain();
    workload["parallelism"] = json!({});
    folder.write("w.json", workload.to_string());
    let said = folder.stepsim("search ./w.json --fix topology.nodes=1 -o best.json --report found.json");
    assert_eq!(said.status, Some(0), "{}", said.error);
    assert!(said.error.contains("run it with --set topology.nodes=1"), "{}", said.error);
    folder.stepsim("run ./best.json -q --set topology.nodes=1 --report r.json").ok();
    let found = folder.json("found.json")["ranking"][0]["step_time_s"].as_f64().expect("a time");
    assert!((found / seconds(&folder, "r.json") - 1.0).abs() < 1e-9);
}
