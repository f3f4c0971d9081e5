//! The command as a person uses it: what it prints, which files it writes, how it ends.

use std::path::Path;
use std::process::{Command as Process, Stdio};

use serde_json::Value;
use snapbox::cmd::{Command, OutputAssert};
use snapbox::str;

use crate::command::json;

const STEPSIM: &str = env!("CARGO_BIN_EXE_stepsim");
const SUBCOMMANDS: [&str; 9] =
    ["run", "inspect", "diff", "estimate", "schedule", "collective", "kernels", "list", "schema"];

fn stepsim(args: &[&str]) -> OutputAssert {
    Command::new(STEPSIM).args(args).assert()
}

fn stdout(args: &[&str]) -> String {
    let output = stepsim(args).success();
    String::from_utf8(output.get_output().stdout.clone()).expect("UTF-8")
}

#[test]
fn alone_it_says_what_it_can_do() {
    let help = stdout(&[]);
    for subcommand in SUBCOMMANDS {
        assert!(help.contains(&format!("\n  {subcommand} ")), "{subcommand}:\n{help}");
    }
    assert!(help.contains("Exit status: 0 done; 1 the run failed"), "{help}");
}

#[test]
fn a_wrong_argument_ends_with_status_2() {
    stepsim(&["run", "gpt2-8", "--tpology", "x"]).code(2).stderr_eq(str![[r#"
error: unexpected argument '--tpology' found

  tip: a similar argument exists: '--topology'

Usage: stepsim run --topology <TOPOLOGY> <WORKLOAD>

For more information, try '--help'.

"#]]);
    stepsim(&["simulate"]).code(2);
    stepsim(&["schema"]).code(2);
}

#[test]
fn the_first_command_shows_a_step() {
    let digest = stdout(&["run"]);
    assert!(digest.starts_with("gpt3-175b on h100-superpod-1024 (1,024 devices)\n  step "), "{digest}");
    for part in ["range ", " (−", "From peak to MFU", "Memory ", "Try ", "for more\nAll tables"] {
        assert!(digest.contains(part), "no `{part}` in\n{digest}");
    }
    let table = stdout(&["run", "tiny-4", "--set", "stack=megatron-te-2024", "--full"]);
    for part in
        ["Where the time went", "By pipeline stage", "Communication", "Memory at its peak", "note: mfu"]
    {
        assert!(table.contains(part), "no `{part}` in\n{table}");
    }
    assert!(table.contains("\n  range "), "{table}");
}

/// The fields that scripts rely on.
#[test]
fn a_report_has_its_fields() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.json");
    stepsim(&["run", "gpt2-8", "-q", "--report", path.to_str().expect("UTF-8")]).success().stdout_eq("");
    let report = json(&path);
    for field in ["step_time_s", "tokens_per_s", "mfu", "hfu", "model_tflops_per_device", "ops", "events"] {
        assert!(report[field].as_f64().is_some_and(|x| x > 0.0), "{field}: {}", report[field]);
    }
    assert!(report.get("simulation_wall_s").is_none(), "wall time only on request");
    assert_eq!(report["status"], "ok");
    assert_eq!(report["run"]["stepsim"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["run"]["workload"]["name"], "gpt2-8");
    let of = |field: &str| report[field].as_f64().expect("a number");
    assert!(of("mfu_causal") < of("mfu") && of("mfu") <= of("hfu") && of("mfu_causal") <= of("hfu_causal"));
}

/// Out of memory has an exit status of its own and still writes the report that was asked for.
#[test]
fn a_run_that_fails_says_so_in_its_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.json");
    let report = path.to_str().expect("UTF-8");
    let set = "topology.device.hbm.GB=1";
    stepsim(&["run", "gpt2-8", "-q", "--report", report, "--set", set]).code(3);
    let failed = json(&path);
    assert_eq!(failed["status"], "out_of_memory");
    assert_eq!(failed["run"]["settings"][0], set);
    assert!(failed["error"]["out_of_memory"]["holds_bytes"].is_object(), "{failed}");
    stepsim(&["run", "gpt2-8", "-q", "--report", report, "--set", "batch.global=-1"]).code(2);
    let wrong = json(&path);
    assert_eq!(wrong["status"], "invalid");
    assert!(wrong["error"]["path"].as_str().is_some_and(|p| p.contains("batch.global")), "{wrong}");
}

/// A workload may take away with `null` what its stack takes for granted; shown resolved and read again, it stays away.
#[test]
fn what_a_null_takes_away_stays_away_when_resolved() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let mut own: Value =
        serde_json::from_str(&stdout(&["show", "gpt2-8", "--resolved"])).expect("a workload");
    own["stack"] = "deepspeed-zero3".into();
    own["gradient_buckets"] = serde_json::json!({"reduce_every_micro_batch": null});
    std::fs::write(path("own.json"), own.to_string()).expect("written");
    let resolved = |name: &str| stdout(&["show", &path(name), "--resolved"]);
    let first = resolved("own.json");
    assert!(first.contains("500000000") && !first.contains("reduce_every_micro_batch"), "{first}");
    std::fs::write(path("resolved.json"), &first).expect("written");
    assert_eq!(resolved("resolved.json"), first);
    // The same over a base: what is taken away is the base's and the stack's.
    own["gradient_buckets"] = serde_json::json!({"reduce_every_micro_batch": true});
    std::fs::write(path("under.json"), own.to_string()).expect("written");
    let over = r#"{"base": "under.json", "gradient_buckets": {"reduce_every_micro_batch": null}}"#;
    std::fs::write(path("over.json"), over).expect("written");
    assert!(resolved("under.json").contains("reduce_every_micro_batch"));
    assert_eq!(resolved("over.json"), first);
}

/// Out of memory has a status of its own, and leaves a report and the timeline of what had happened.
#[test]
fn out_of_memory_leaves_what_had_happened() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let (report, trace) = (path("report.json"), path("trace.json"));
    let big = ["--set", "batch.micro_batch=64", "--set", "batch.global=512"];
    let args = [&["run", "gpt2-8", "--report", &report, "-o", &trace][..], &big].concat();
    let told = stepsim(&args).code(3);
    let told = String::from_utf8_lossy(&told.get_output().stderr).into_owned();
    assert!(told.starts_with("error: out of memory") && told.contains("timeline up to there"), "{told}");
    let fault = &json(Path::new(&report))["error"]["out_of_memory"];
    let at = fault["at_ps"].as_f64().expect("a time") / 1e6;
    let timeline = json(Path::new(&trace));
    let slices = timeline["traceEvents"].as_array().expect("events");
    let of_ops = slices.iter().filter(|e| e["cat"] == "compute" && e["ph"] == "X");
    let ends: Vec<f64> =
        of_ops.map(|e| e["ts"].as_f64().expect("a start") + e["dur"].as_f64().expect("a time")).collect();
    assert!(at > 0.0 && ends.len() > 3, "{at} {}", ends.len());
    let last = ends.iter().copied().fold(0.0, f64::max);
    assert!(last <= at + 1e-3 && last > 0.5 * at, "{last} {at}");
}

#[test]
fn reports_side_by_side() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let (a, b, changes) = (path("a.json"), path("b.json"), path("changes.json"));
    stepsim(&["run", "gpt2-8", "-q", "--report", &a]).success();
    stepsim(&["run", "gpt2-8", "-q", "--report", &b, "--set", "batch.global=128"]).success();
    let table = stdout(&["diff", &a, &b, "--report", &changes]);
    assert!(table.starts_with("A: gpt2-8 on dgx-a100-8\nB: gpt2-8 on dgx-a100-8\n"), "{table}");
    let lines = json(Path::new(&changes));
    let step = &lines.as_array().expect("lines")[0];
    assert_eq!(step["what"], "step time");
    assert_eq!(step["a"], json(Path::new(&a))["step_time_s"]);
    assert_eq!(step["b"], json(Path::new(&b))["step_time_s"]);
}

/// A reader that goes away is no failure, of any subcommand.
#[test]
fn a_closed_pipe_is_no_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("a.json").to_str().expect("UTF-8").to_string();
    stepsim(&["run", "gpt2-8", "-q", "--report", &report]).success();
    for args in [
        &["run", "gpt2-8"][..],
        &["inspect", "gpt2-8"],
        &["diff", &report, &report],
        &["schedule", "--all", "--stages", "4", "--micro-batches", "8"],
        &["collective", "--topology", "switch:4,100,2", "--op", "all-reduce", "--bytes", "1Mi"],
        &["list"],
        &["schema", "report"],
        &["--help"],
        &[],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut process = Process::new(STEPSIM);
        let output = process.args(args).stdout(writer).stderr(Stdio::piped()).output().expect("a run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.as_ref()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_full_standard_output_is_a_failure() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else {
        println!("skipped: no /dev/full here");
        return;
    };
    let status = Process::new(STEPSIM).arg("list").stdout(full).stderr(Stdio::null()).status();
    assert_eq!(status.expect("a run").code(), Some(1));
}

#[test]
fn a_machine_can_be_looked_at() {
    stepsim(&["inspect", "--topology", "nodes:2*4,400,1,50,3"]).success().stdout_eq(str![[r#"
machine nodes:2*4,400,1,50,3: nodes:2*4,400,1,50,3
  8 devices in 2 nodes; each a generic, bf16 1000 TFLOP/s, fp8 1000 TFLOP/s

   links           capacities  GB/s  latency
   dev – nvswitch          16   400     0 ps  each direction
   core – dev              16    50     0 ps  each direction

   memory     of one  in all  to the device  back  latency
   hbm     unbounded       8              ·     ·        ·

  route from device 0 to device 1: 400 GB/s, 1.000 us
    node0.dev0 -> nvswitch0
    nvswitch0 -> node0.dev1

  route from device 0 to device 7: 50 GB/s, 3.000 us
    node0.dev0 -> core0
    core0 -> node1.dev3

"#]]);
}

/// The schemas that lie beside the files are those of the types they are read into.
#[test]
fn the_schemas_in_the_repository_are_up_to_date() {
    let folder = tempfile::tempdir().expect("a folder");
    let written = stdout(&["schema", "--out", folder.path().to_str().expect("UTF-8")]);
    assert_eq!(written.lines().count(), 20);
    for path in written.lines() {
        let name = Path::new(path).strip_prefix(folder.path()).expect("a path in the folder");
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let same = std::fs::read(path).ok() == std::fs::read(&kept).ok();
        assert!(same, "{} is out of date: run `stepsim schema --out .`", name.display());
    }
}

/// A published folder of schemas says its address, and a file that names its schema is read as one that does not.
#[test]
fn schemas_have_addresses_for_editors() {
    let folder = tempfile::tempdir().expect("a folder");
    let written =
        stdout(&["schema", "-o", folder.path().to_str().expect("UTF-8"), "--at", "https://example.org/"]);
    assert_eq!(written.lines().count(), 21);
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(folder.path().join(name)).expect("a file")).expect("JSON")
    };
    let entries = read("catalog.json")["schemas"].as_array().expect("a list").clone();
    assert_eq!(entries.len(), 10);
    for entry in entries {
        let url = entry["url"].as_str().expect("an address");
        let schema = read(url.strip_prefix("https://example.org/").expect("an address of the folder"));
        assert_eq!(schema["$id"], url);
        assert!(schema["properties"]["$schema"].is_object(), "{url}");
    }
    let shipped = std::fs::read_to_string("workloads/tiny-4.json").expect("a shipped file");
    let file = folder.path().join("mine.json");
    std::fs::write(&file, shipped.replacen('{', r#"{"$schema": "./workload.schema.json","#, 1))
        .expect("written");
    let step_time = |name: &str| -> serde_json::Value {
        let report: serde_json::Value =
            serde_json::from_str(&stdout(&["run", name, "--report", "-"])).expect("JSON");
        report["step_time_s"].clone()
    };
    assert!(step_time("tiny-4").is_number());
    assert_eq!(step_time(file.to_str().expect("UTF-8")), step_time("tiny-4"));
}

/// Reports fit a screen, and the change that it proposes can be tried as it stands.
#[test]
fn reports_fit_a_screen() {
    for name in
        crate::slow::some(&["tiny-4", "gpt2-8", "llama3-8b-fsdp", "cxl-pool-8", "llama3-70b-offload"], 4)
    {
        let text = stdout(&["run", name]);
        assert!(text.lines().count() <= 25, "{name}: {}\n{text}", text.lines().count());
        let wide = text.lines().find(|line| line.chars().count() > 110 && !line.contains("stepsim whatif"));
        assert!(wide.is_none(), "{name}: {wide:?}");
    }
    let text = stdout(&["run", "tiny-4", "--set", "model.layers=8", "--color", "never"]);
    let command = text.lines().find(|line| line.contains("stepsim whatif")).expect("a change to try");
    stepsim(
        &command
            .split_whitespace()
            .skip_while(|word| *word != "whatif")
            .take_while(|word| !word.starts_with('('))
            .take(6)
            .collect::<Vec<_>>(),
    )
    .success();
    let coloured = stdout(&["run", "tiny-4", "--color", "always"]);
    assert!(coloured.contains("\x1b[1m"), "{coloured}");
}
