//! What a person reads who has made a mistake: every message whole. It names the file, the place in it, the value,
//! what is allowed, and what to do; the exit status is 2 for a wrong input and 1 for a run or a file that failed.

use std::path::Path;
use std::process::{Command as Process, Output};

use snapbox::IntoData;
use snapbox::cmd::Command;

const STEPSIM: &str = env!("CARGO_BIN_EXE_stepsim");

/// Runs in a folder of its own and compares all that is printed; nothing may be left in the folder but `kept`.
fn fails(folder: &Path, args: &[&str], status: i32, message: impl IntoData, kept: &[&str]) {
    Command::new(STEPSIM)
        .args(args)
        .current_dir(folder)
        .env_remove("RUST_BACKTRACE")
        .assert()
        .code(status)
        .stdout_eq("")
        .stderr_eq(message);
    left(folder, kept);
}

/// What is in the folder.
fn left(folder: &Path, kept: &[&str]) {
    let files = std::fs::read_dir(folder).expect("a folder").flatten();
    let names: Vec<_> = files.map(|f| f.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(names, kept, "what is left behind");
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Each command of the file prints what stands below it, and leaves nothing but the file that it read.
#[test]
fn messages_are_those_of_the_file() {
    let mut commands = 0;
    for paragraph in include_str!("data/bad-input.txt").split("\n\n") {
        let folder = folder();
        let (mut kept, mut args, mut status, mut message) = (Vec::new(), None, 2, String::new());
        for line in paragraph.lines().filter(|line| !line.starts_with('#')) {
            if let Some(words) = line.strip_prefix("$ stepsim ") {
                args = Some(words.split(' ').collect::<Vec<_>>());
            } else if let Some(code) = line.strip_prefix("? ") {
                status = code.parse().expect("an exit status");
            } else if args.is_some() {
                message += &format!("{line}\n");
            } else {
                let (name, content) = line.split_once(':').expect("a file");
                std::fs::write(folder.path().join(name), content.trim_start()).expect("a file");
                kept.push(name);
            }
        }
        let Some(args) = args else { continue };
        println!("{args:?}");
        fails(folder.path(), &args, status, message, &kept);
        commands += 1;
    }
    assert_eq!(commands, 74);
}

#[test]
fn a_file_that_is_no_text() {
    let folder = folder();
    std::fs::write(folder.path().join("mine.json"), b"\xff\xfe{}").expect("a file");
    let message = "error: mine.json: cannot be read: the file is not UTF-8 text\n  \
                   hint: check the path; a shipped file is named without folder and without .json\n";
    fails(folder.path(), &["run", "mine.json"], 2, message, &["mine.json"]);
}

/// A device that is always full, where the system has one.
#[test]
fn a_full_device() {
    if !Path::new("/dev/full").exists() {
        println!("skipped: no /dev/full here");
        return;
    }
    let message = "error: cannot write `/dev/full`: No space left on device (os error 28); free space there, choose another \
                   disk, or write less (fewer ranks, a window, .gz); nothing was left under that name\n";
    fails(folder().path(), &["run", "gpt2-8", "-q", "-o", "/dev/full"], 1, message, &[]);
}

/// Runs with files limited to 64 KiB, after `before`.
fn limited(folder: &Path, before: &str, args: &str) -> Output {
    let script = format!("{before} ulimit -f 128; exec \"$0\" {args}");
    Process::new("bash").args(["-c", &script, STEPSIM]).current_dir(folder).output().expect("bash")
}

/// The disk fills in mid-write: the error says so, nothing is left, and a file of that name from before is untouched.
#[test]
fn a_disk_that_fills_in_mid_write() {
    for file in ["step.json", "step.json.gz", "step.pftrace"] {
        let folder = folder();
        let args = format!("run llama3-70b --set stack=simple -q -o {file}");
        let output = limited(folder.path(), "trap '' XFSZ;", &args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_eq!(
            said,
            format!(
                "error: cannot write `{file}`: File too large (os error 27); choose another path; \
                 nothing was left under that name\n"
            )
        );
        left(folder.path(), &[]);
        std::fs::write(folder.path().join(file), "from before").expect("a file");
        limited(folder.path(), "trap '' XFSZ;", &args);
        left(folder.path(), &[file]);
        assert_eq!(std::fs::read(folder.path().join(file)).expect("a file"), b"from before");
    }
}

/// A step that took less than nothing is not read.
#[test]
fn a_report_of_less_than_nothing_is_refused() {
    let folder = folder();
    let run = |args: &[&str]| {
        let done = Process::new(STEPSIM).args(args).current_dir(folder.path()).output().expect("a run");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let path = folder.path().join("below.json");
    assert_eq!(run(&["run", "tiny-4", "-q", "--report", "below.json"]).0, Some(0));
    let text = std::fs::read_to_string(&path).expect("a report");
    let mut report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    report["step_time_s"] = (-1.0).into();
    std::fs::write(&path, report.to_string()).expect("a file");
    let (status, said) = run(&["diff", "below.json", "below.json"]);
    assert!(status == Some(2) && said.contains("step_time_s"), "{said}");
}
