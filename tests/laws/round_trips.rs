//! What is written is read back: the step that comes out of an export is the one that went in.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::steps::{Draws, Step, count, draw};

/// Runs the program in a folder; what it says where it fails.
fn stepsim(at: &Path, args: &[&str]) -> Result<String, String> {
    let done =
        Command::new(env!("CARGO_BIN_EXE_stepsim")).args(args).current_dir(at).output().expect("a run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) }
}

fn read(at: &Path, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(at.join(name)).expect(name)).expect(name)
}

/// Seconds of a step in a report of `run` or `replay`.
fn seconds(at: &Path, report: &str) -> f64 {
    let report = read(at, report);
    report["step_time_s"].as_f64().or(report["replayed_s"].as_f64()).expect("a time")
}

fn files(at: &Path, ending: &str) -> Vec<String> {
    let names = fs::read_dir(at).expect("a folder").flatten().map(|entry| entry.path());
    let mut names: Vec<String> = names.filter_map(|path| Some(path.to_str()?.to_string())).collect();
    names.retain(|name| name.ends_with(ending));
    names.sort();
    names
}

/// A random step without what a file of times does not carry: the machine's part in a run, its memory.
fn each(draws: &mut Draws, tries: u64, mut try_one: impl FnMut(&Path, &Step, f64)) {
    let mut tried = 0;
    while tried < tries {
        let step = draw(draws);
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        fs::write(at.join("w.json"), &step.text).expect("a file");
        if stepsim(at, &["run", "./w.json", "-q", "--report", "r.json"]).is_ok() {
            try_one(at, &step, seconds(at, "r.json"));
            tried += 1;
        }
    }
}

fn few() -> u64 {
    (count() / 40).max(2)
}

/// Kernels take what they took, communication is played anew on the machine: whatever the exchanges between stages are. Alone, with the
/// times that the traces have, messages of one pair of ranks meet in the order in which they are queued: so a schedule whose stages turn
/// back (`zb-v`) needs the machine.
#[test]
fn chakra_traces_replay() {
    each(&mut Draws(0x5eed_0008), few(), |at, step, ran| {
        stepsim(at, &["run", "./w.json", "-q", "-o", "et", "--format", "chakra", "--trace-ranks", "all"])
            .expect("traces");
        let mut import = vec!["import", "chakra"];
        let traces = files(&at.join("et"), ".et");
        import.extend(traces.iter().map(String::as_str));
        import.extend(["--groups", "et/groups.json", "-o", "programs.json"]);
        stepsim(at, &import).expect("programs");
        let turns_back = step.text.contains("\"zb-v\"");
        for on in
            [&[][..], &["--on", step.inputs.topology.name.as_str()]].into_iter().skip(usize::from(turns_back))
        {
            stepsim(at, &[&["replay", "programs.json", "--report", "again.json"], on].concat())
                .expect("a replay");
            let again = seconds(at, "again.json");
            let within = if on.is_empty() { 0.02 } else { 0.03 };
            assert!((again / ran - 1.0).abs() < within, "{on:?}: {ran} and {again}\n{}", step.text);
        }
    });
}

#[test]
fn kineto_files_replay() {
    each(&mut Draws(0x5eed_0009), few(), |at, step, ran| {
        stepsim(at, &["run", "./w.json", "-q", "-o", "k", "--format", "kineto", "--trace-ranks", "all"])
            .expect("files");
        let mut import = vec!["import", "kineto"];
        let ranks = files(&at.join("k"), ".json.gz");
        import.extend(ranks.iter().map(String::as_str));
        import.extend(["-o", "programs.json"]);
        stepsim(at, &import).expect("programs");
        stepsim(at, &["replay", "programs.json", "--report", "again.json"]).expect("a replay");
        let again = seconds(at, "again.json");
        assert!((again / ran - 1.0).abs() < 0.02, "{ran} and {again}\n{}", step.text);
    });
}

/// A resolved workload is the workload; the order of its passes, written as a file, is its schedule.
#[test]
fn resolved_workloads_and_orders_are_the_step() {
    each(&mut Draws(0x5eed_000a), few(), |at, step, ran| {
        let resolved = stepsim(at, &["show", "./w.json", "--resolved"]).expect("a workload");
        fs::write(at.join("again.json"), resolved).expect("a file");
        stepsim(at, &["run", "./again.json", "-q", "--report", "same.json"]).expect("the same step");
        assert_eq!(seconds(at, "same.json"), ran, "{}", step.text);
    });
}

/// The best workload of a search is the step that the search found, with what was fixed of the machine, which a workload does not hold.
#[test]
fn workloads_of_searches_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let mut workload = super::steps::plain();
    workload["parallelism"] = json!({});
    fs::write(at.join("w.json"), workload.to_string()).expect("a file");
    let nodes = "topology.nodes=1";
    let search = ["search", "./w.json", "--fix", nodes, "-o", "best.json", "--report", "found.json"];
    let done =
        Command::new(env!("CARGO_BIN_EXE_stepsim")).args(search).current_dir(at).output().expect("a search");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success() && said.contains("run it with --set topology.nodes=1"), "{said}");
    stepsim(at, &["run", "./best.json", "-q", "--set", nodes, "--report", "r.json"]).expect("a step");
    let found = read(at, "found.json")["ranking"][0]["step_time_s"].as_f64().expect("a time");
    assert!((found / seconds(at, "r.json") - 1.0).abs() < 1e-9);
}
