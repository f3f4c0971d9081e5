//! What stands under an output's name when something goes wrong on the way there: the whole file, or what was there
//! before.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn stepsim(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepsim"));
    command.args(args).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn partial(folder: &Path) -> bool {
    let names = fs::read_dir(folder).expect("a folder").flatten();
    names.into_iter().any(|entry| entry.file_name().to_string_lossy().ends_with(".partial"))
}

/// A run that is writing: it has begun its file.
fn writing(folder: &Path, output: &Path) -> Child {
    let output = output.to_str().expect("UTF-8");
    let mut child =
        stepsim(&["run", "gpt3-175b", "--trace-ranks", "all", "-o", output]).spawn().expect("a run");
    let begun = Instant::now();
    while !partial(folder) {
        assert!(child.try_wait().expect("a state").is_none(), "it ended before it wrote");
        assert!(begun.elapsed() < Duration::from_secs(120), "it never wrote");
        std::thread::sleep(Duration::from_millis(1));
    }
    child
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
}

/// Told to stop, a run takes its half file with it; killed outright it leaves that under another name. What stood under
/// the output's name before stands there still.
#[test]
fn a_run_that_is_stopped_leaves_what_was_there() {
    for (name, leaves) in [("-INT", false), ("-TERM", false), ("-KILL", true)] {
        let folder = tempfile::tempdir().expect("a folder");
        let output = folder.path().join("step.json");
        fs::write(&output, "before").expect("written");
        let mut child = writing(folder.path(), &output);
        signal(&child, name);
        assert!(!child.wait().expect("an end").success(), "{name}");
        assert_eq!(fs::read_to_string(&output).expect("still there"), "before", "{name}");
        assert_eq!(partial(folder.path()), leaves, "{name}");
    }
}

/// Two runs that write one file: whichever ends last, the file is whole.
#[test]
fn two_writers_leave_a_whole_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("step.json");
    let name = output.to_str().expect("UTF-8");
    let mut runs: Vec<Child> =
        (0..4).map(|_| stepsim(&["run", "tiny-4", "-o", name]).spawn().expect("a run")).collect();
    assert!(runs.iter_mut().all(|run| run.wait().expect("an end").success()));
    let trace: Value = serde_json::from_slice(&fs::read(&output).expect("a file")).expect("a whole trace");
    assert!(trace["traceEvents"].as_array().is_some_and(|events| events.len() > 10));
    assert!(!partial(folder.path()));
}

/// `SOURCE_DATE_EPOCH` stands for the time of writing.
#[test]
fn the_time_of_writing_can_be_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("step.json");
    let name = output.to_str().expect("UTF-8");
    let run = |epoch: &str| {
        let mut command = stepsim(&["run", "tiny-4", "--wall-time", "-o", name]);
        assert!(command.env("SOURCE_DATE_EPOCH", epoch).status().expect("a run").success());
        let trace: Value = serde_json::from_slice(&fs::read(&output).expect("a file")).expect("a trace");
        trace["metadata"]["written"].clone()
    };
    assert_eq!(run("86400"), "1970-01-02T00:00:00Z");
}

/// One JSON document on standard output where one is asked for there, and nothing else; `sweep` has a line a point.
#[test]
fn a_document_stands_alone_on_standard_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let study = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/study.json");
    let rows = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/kernels.jsonl");
    let commands: [&[&str]; 16] = [
        &["plan", "tiny-4"],
        &["run", "tiny-4"],
        &["inspect", "tiny-4"],
        &["diff", "tiny-4", "tiny-4", "--set-b", "batch.global=8"],
        &["sweep", "tiny-4", "--vary", "batch.global=4"],
        &["fill", "tiny-4"],
        &["kernels"],
        &["estimate", "tiny-4"],
        &["compare", "tiny-4"],
        &["whatif", "tiny-4"],
        &["schedule", "--kind", "1f1b", "--stages", "2", "--micro-batches", "4"],
        &["schedule", "--all", "--stages", "2", "--micro-batches", "4"],
        &["collective", "--topology", "switch:4,100,2", "--op", "all-reduce", "--bytes", "1Mi"],
        &["search", study, "--fix", "parallelism.tensor=1", "--fix", "batch.micro_batch=1"],
        &["kernels", "--score", rows],
        &["goodput", "gpt2-8"],
    ];
    for command in commands {
        let done =
            stepsim(&[command, &["--json"]].concat()).current_dir(&folder).stdout(Stdio::piped()).output();
        let done = done.expect("a process");
        assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
        let said = String::from_utf8(done.stdout).expect("UTF-8");
        assert!(said.len() > 40, "{command:?}: {said}");
        let document: Result<Value, _> = serde_json::from_str(&said);
        assert!(document.is_ok(), "{command:?}: {:?} in {said:.300}", document.err());
    }
}

/// What the page in a browser answers is what the program writes, byte by byte: reports and both kinds of timelines.
#[test]
fn the_page_answers_what_the_program_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    for (workload, file) in
        [("tiny-4", "step.pftrace"), ("gpt2-8", "step.json"), ("straggler-64", "step.pftrace")]
    {
        let words = ["run", workload, "-q", "-o", file, "--report", "report.json"];
        assert!(stepsim(&words).current_dir(&folder).status().expect("a run").success());
        let command: Vec<&str> = std::iter::once("stepsim").chain(words).collect();
        for (ask, written) in [("report", "report.json"), ("timeline", file)] {
            let question =
                serde_json::json!({ "ask": ask, "workload": workload, "command": command, "file": file });
            let answer = stepsim_web::answer(question.to_string().as_bytes()).expect("an answer");
            let written = fs::read(folder.path().join(written)).expect("a file");
            assert!(
                answer == written,
                "{workload}: the {ask} is {} bytes, not {}",
                answer.len(),
                written.len()
            );
        }
    }
}

/// A tier that ranks share is named after them, so shortly that a viewer shows it whole, and stands beside its
/// capacity.
#[test]
fn a_shared_tier_names_its_ranks() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("pool.json");
    let args = ["run", "cxl-pool-8", "-q", "--detail", "phase", "-o", output.to_str().expect("UTF-8")];
    assert!(stepsim(&args).status().expect("a run").success());
    let text = fs::read_to_string(&output).expect("a timeline");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let events = json["traceEvents"].as_array().expect("events").iter();
    let mut series: Vec<&str> = events
        .filter(|event| event["name"] == "cxl of ranks 0-7 bytes")
        .flat_map(|event| event["args"].as_object().expect("series").keys().map(String::as_str))
        .collect();
    series.dedup();
    assert_eq!(series[..4], ["total", "capacity", "activations", "rank 0"], "{series:?}");
    assert_eq!(series.len(), 11);
}
