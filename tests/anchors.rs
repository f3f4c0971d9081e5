//! A measured step becomes the prices of the next run: what is anchored, how near, and what is refused.

use std::process::{Command, Output};

use serde_json::{Value, json};
use stepsim::core::ids::DeviceId;
use stepsim::lab::describe::RuleBook;
use stepsim::lab::score::learned_rows::kernels_of;
use stepsim::lab::score::{Anchored, Row, outcomes, read};
use stepsim::lab::simulate::Inputs;
use stepsim::step::cost::measured::Row as KernelRow;
use stepsim::step::cost::{DeviceCost, TileWave};
use tempfile::TempDir;

fn stepsim(folder: &TempDir, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stepsim")).current_dir(folder.path()).args(args).output().expect("a run")
}

fn said(folder: &TempDir, args: &[&str]) -> Value {
    let output = stepsim(folder, args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}"))
}

fn step_s(folder: &TempDir, more: &[&str]) -> f64 {
    let args = [&["run", "tiny-4", "-q", "--report", "-", "--set", "stack=megatron-te-2024"], more].concat();
    said(folder, &args)["step_time_s"].as_f64().unwrap()
}

/// Rows of one model on 8, 16 and 64 devices, and of another on 8, at these measured seconds.
fn rows(folder: &TempDir, measured_s: &[f64]) -> Vec<Row> {
    let sizes = [("small", 8, 16), ("small", 8, 24), ("small", 16, 16), ("small", 64, 16), ("wide", 8, 16)];
    let line = |(i, ((model, devices, layers), s)): (usize, (&(&str, u32, u32), &f64))| {
        let hidden = if *model == "wide" { 4096 } else { 2048 };
        json!({"id": format!("own/{i}"), "kind": "step", "source": "own", "software": "Megatron-Core 0.9",
            "device": "H100-SXM5-80GB", "n_devices": devices, "devices_per_node": 8, "model": model, "layers": 16,
            "hidden": hidden, "heads": 16, "vocab": 32000, "seq": 2048, "gbs_seqs": devices * layers / 4, "mbs_seqs": 1,
            "tp": 1, "pp": 1, "dp": devices, "precision": "bf16", "recompute": "none", "step_time_s": s})
        .to_string()
    };
    let lines: Vec<String> = sizes.iter().zip(measured_s).enumerate().map(line).collect();
    let path = folder.path().join("own.jsonl");
    std::fs::write(&path, lines.join("\n")).unwrap();
    read(&path).unwrap()
}

/// Rows that all take a fifth longer than simulated are predicted better from the smallest of them, the nearer the better,
/// and rows that are right stay right.
#[test]
fn larger_rows_are_predicted_from_the_smallest() {
    let folder = tempfile::tempdir().unwrap();
    let book = RuleBook::load(&[]).unwrap();
    let score = |measured_s: &[f64]| outcomes(&rows(&folder, measured_s), &book, &[], &|_| {});
    let simulated: Vec<f64> = score(&[1.0; 5]).iter().map(|o| o.predicted_s.unwrap()).collect();
    for factor in [1.0, 1.2] {
        let measured: Vec<f64> = simulated.iter().map(|s| s * factor).collect();
        let anchored = Anchored::of(&score(&measured));
        let found: Vec<(&str, &str, usize)> =
            anchored.rows.iter().map(|r| (r.id.as_str(), r.reach.name(), r.given.len())).collect();
        assert_eq!(
            found,
            [
                ("own/2", "more devices, up to 2 times", 2),
                ("own/3", "2 to 8 times", 2),
                ("own/1", "as many devices, another layout", 1),
                ("own/4", "another model", 2),
            ]
        );
        for row in &anchored.rows {
            assert!((row.before - (1.0 / factor - 1.0)).abs() < 1e-9, "{row:?}");
            let left = if factor == 1.0 { 1e-9 } else { 0.7 * row.before.abs() };
            assert!(row.after.abs() <= left, "{row:?}");
        }
        let text = anchored.text();
        for (_, reach, _) in &found {
            assert!(text.contains(&format!("| dense | {reach} | 1 |")), "{reach}: {text}");
        }
        assert!(
            text.contains("| dense | more devices, up to 8 times | 2 |") && text.contains("| own | 2 |"),
            "{text}"
        );
    }
}

/// `calibrate` by one measured step; what it writes is `mine.json`.
fn calibrated(folder: &TempDir, measured: &str) -> Output {
    let step = ["calibrate", "tiny-4", "--set", "stack=megatron-te-2024"];
    stepsim(folder, &[step.as_slice(), &["--measured", measured, "-o", "mine.json"]].concat())
}

/// What `calibrate` writes makes a run take the measured time, and says what each part did.
#[test]
fn a_measured_step_becomes_prices() {
    let folder = tempfile::tempdir().unwrap();
    let plain = step_s(&folder, &[]);
    for factor in [0.9, 1.15] {
        let measured = format!("{}ms", 1e3 * factor * plain);
        let output = calibrated(&folder, &measured);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("| products |") && text.contains("| exposed exchange |"), "{text}");
        let priced = step_s(&folder, &["--prices", "mine.json"]);
        assert!((priced / plain / factor - 1.0).abs() < 0.03, "{priced} of {plain}, {factor}: {text}");
        assert_eq!(priced, step_s(&folder, &["--set", "prices=mine.json"]));
    }
    let search = [
        "search",
        "tiny-4",
        "--set",
        "stack=megatron-te-2024",
        "--set",
        "prices=mine.json",
        "--top",
        "1",
        "--report",
        "-",
    ];
    let found = said(&folder, &search);
    let sets = &found["ranking"][0]["sets"].as_array().unwrap();
    assert!(sets.contains(&"prices=mine.json".into()), "{found}");
    assert!(sets.iter().all(|set| !set.as_str().unwrap().contains("slowness")), "{found}");
    let best: Vec<&str> = sets.iter().flat_map(|set| ["--set", set.as_str().unwrap()]).collect();
    let again = said(&folder, &[&["run", "tiny-4", "-q", "--report", "-"], best.as_slice()].concat());
    let (found, again) = (found["ranking"][0]["step_time_s"].as_f64(), again["step_time_s"].as_f64());
    assert!(found.is_some() && found == again, "{found:?} {again:?}");
}

/// A time that no likely prices give is refused, with what would explain it.
#[test]
fn an_impossible_time_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let plain = step_s(&folder, &[]);
    for (factor, word) in [(4.0, "--set batch.global="), (1000.0, "no other stack"), (1e-4, "no other stack")]
    {
        let measured = (factor * plain).to_string();
        let output = calibrated(&folder, &measured);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(word) && error.contains("allowed:"), "{factor}: {error}");
        assert!(!folder.path().join("mine.json").exists());
    }
    let output = stepsim(&folder, &["run", "tiny-4", "--prices", "lost.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("lost.json"));
}

/// Slower kernels and collectives take as many times as long.
#[test]
fn slowness_multiplies_times() {
    let folder = tempfile::tempdir().unwrap();
    // Without a stack launches are free: nothing hides what kernels take.
    let sets = |class: &str, op: &str| {
        [
            "--set".into(),
            "stack=simple".into(),
            "--set".into(),
            format!("topology.device.cost.slowness.gemm={class}"),
            "--set".into(),
            format!("topology.collectives.slowness.all-reduce={op}"),
        ]
    };
    let time = |sets: [String; 6]| step_s(&folder, &sets.each_ref().map(String::as_str));
    let once = time(sets("1", "1"));
    assert_eq!(once, step_s(&folder, &["--set", "stack=simple"]));
    assert!(time(sets("2", "1")) > once && time(sets("1", "2")) >= once);
    let output = stepsim(&folder, &["run", "tiny-4", "--set", "topology.device.cost.slowness.gemm=0"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("slowness.gemm"));
}

/// Prices learned from a timeline of a slower device make a run take what it took, work by work.
#[test]
fn a_profile_becomes_prices() {
    let folder = tempfile::tempdir().unwrap();
    let slower = [
        "run",
        "gpt2-8",
        "-q",
        "-o",
        "profile.json.gz",
        "--trace-ranks",
        "0",
        "--report",
        "measured.json",
        "--set",
        "stack=megatron-te-2024",
        "--set",
        "topology.device.cost.matrix_fraction=0.6",
        "--set",
        "topology.device.cost.memory_fraction=0.5",
        "--set",
        "topology.device.cost.host_slowness=1.3",
    ];
    assert!(stepsim(&folder, &slower).status.success());
    let learn =
        ["learn", "profile.json.gz", "-w", "gpt2-8", "--set", "stack=megatron-te-2024", "-o", "prices.json"];
    let output = stepsim(&folder, &learn);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("prices.json")).unwrap()).unwrap();
    let report = |path: &str| -> Value {
        serde_json::from_slice(&std::fs::read(folder.path().join(path)).unwrap()).unwrap()
    };
    let args = [
        "run",
        "gpt2-8",
        "-q",
        "--set",
        "stack=megatron-te-2024",
        "--prices",
        "prices.json",
        "--report",
        "priced.json",
    ];
    assert!(stepsim(&folder, &args).status.success());
    let [measured, priced] =
        ["measured.json", "priced.json"].map(|path| report(path)["step_time_s"].as_f64().unwrap());
    assert!((priced / measured - 1.0).abs() < 0.02, "{priced} of {measured}: {text}");
    for line in file["lines"].as_array().unwrap() {
        let [profile, after] = ["profile_s", "after_s"].map(|field| line[field].as_f64().unwrap());
        let works = ["gemm", "attention", "memory-bound", "optimizer", "collectives"];
        let known = line["what"].as_str().is_some_and(|what| works.contains(&what));
        assert!(!known || (after / profile - 1.0).abs() < 0.05, "{line}: {text}");
    }
    let wrong = ["learn", "profile.json.gz", "-w", "llama3-8b-fsdp", "-o", "no.json"];
    let output = stepsim(&folder, &wrong);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("was measured"));
}

/// Of a profile that holds a pair of passes alone: the same window as simulated tells the prices.
#[test]
fn a_part_of_a_step_becomes_prices() {
    let folder = tempfile::tempdir().unwrap();
    let window = |out: &str, window: &str, sets: &[&str]| {
        let mut args = vec![
            "run",
            "gpt2-8",
            "--set",
            "stack=simple",
            "-q",
            "--trace-ranks",
            "0",
            "-o",
            out,
            "--window-ms",
            window,
        ];
        sets.iter().for_each(|set| args.extend(["--set", set]));
        let output = stepsim(&folder, &args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    // The forward pass of the first micro-batch; on the slower device the same kernels take longer.
    window("cell.json", "0:5", &[]);
    window(
        "profile.json",
        "0:6.25",
        &["topology.device.cost.slowness.gemm=1.25", "topology.device.cost.slowness.norm=1.25"],
    );
    let args = [
        "learn",
        "profile.json",
        "--part",
        "cell.json",
        "-w",
        "gpt2-8",
        "--set",
        "stack=simple",
        "-o",
        "p.json",
    ];
    let output = stepsim(&folder, &args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let file: Value = serde_json::from_slice(&std::fs::read(folder.path().join("p.json")).unwrap()).unwrap();
    let lines = file["lines"].as_array().unwrap();
    let times =
        |what: &str| lines.iter().find(|line| line["what"] == what).unwrap()["times"].as_f64().unwrap();
    assert!((times("gemm") / 1.25 - 1.0).abs() < 0.03, "{text}");
    assert!(lines.iter().all(|line| line["what"] != "step"), "a part has no step: {text}");
    // Of collectives one rank alone tells nothing: that is said where there are some.
    let doubt = "so collectives keep the prices of the network";
    assert!(!text.contains(doubt), "{text}");
    let cut = ["parallelism.sharding.kind=zero3"];
    window("cell.json", "0:5", &cut);
    window("profile.json", "0:5", &cut);
    let output = stepsim(&folder, &[&args[..], &["--set", cut[0]]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains(doubt),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // What the plan has not is no price of its own.
    window("cell.json", "0:5", &[]);
    let output = stepsim(&folder, &args);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("only in the profile, priced as waiting: collectives"), "{text}");
}

/// Kernels of a step, written, timed on a device where products take a quarter longer and all else a tenth, and read: those are
/// the prices, and the step has them. What rows have no words for goes with its work.
#[test]
fn times_of_the_kernels_of_a_step_become_prices() {
    let folder = tempfile::tempdir().unwrap();
    let output = stepsim(&folder, &["inspect", "gpt2-8", "--kernels", "kernels.jsonl"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let inputs = Inputs::load("gpt2-8", None, &[]).unwrap();
    let text = std::fs::read_to_string(folder.path().join("kernels.jsonl")).unwrap();
    let rows: Vec<KernelRow> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows, kernels_of(&inputs).unwrap().0, "what is written is what there is");
    let device = DeviceCost::new(inputs.machine.device(DeviceId(0)));
    let timed = |row: &KernelRow| {
        let row = KernelRow { sustained: Some(true), time_ms: Some(1.0), ..row.clone() };
        let slower = if row.op == "gemm" { 1.25 } else { 1.1 };
        let priced_s = row.read().unwrap().priced(&device, &TileWave);
        serde_json::to_string(&KernelRow { time_ms: Some(1e3 * slower * priced_s), ..row }).unwrap()
    };
    let lines: Vec<String> = rows.iter().map(timed).collect();
    std::fs::write(folder.path().join("times.jsonl"), lines.join("\n")).unwrap();
    let output = stepsim(&folder, &["learn", "times.jsonl", "-w", "gpt2-8", "-o", "prices.json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let busy = |more: &[&str]| {
        let report = said(&folder, &[&["run", "gpt2-8", "-q", "--report", "-"], more].concat());
        let kernels = report["kernels"].as_array().unwrap().clone();
        move |class: &str| kernels.iter().find(|k| k["class"] == class).unwrap()["time_s"].as_f64().unwrap()
    };
    let (before, after) = (busy(&[]), busy(&["--prices", "prices.json"]));
    for (class, times) in [
        ("gemm", 1.25),
        ("gemm-weight-grad", 1.25),
        ("attention-forward", 1.1),
        ("residual", 1.1),
        ("loss", 1.1),
    ] {
        let [before, after] = [before(class), after(class)];
        // Beside communication a kernel is stretched by what that takes of the memory, whatever its price.
        assert!((after / before / times - 1.0).abs() < 0.01, "{class}: {before} s, {after} s, {times} times");
    }
    // What the machine says of its collectives stays.
    let slow = [r#"topology.collectives.slowness={"all-reduce":2}"#];
    let learn = ["learn", "times.jsonl", "-w", "gpt2-8", "-o", "slow.json", "--set", slow[0]];
    let output = stepsim(&folder, &learn);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let of = |name: &str, sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", *set]);
        let run: Vec<&str> =
            ["run", "gpt2-8", "-q", "--report", "-", "--prices", name].into_iter().chain(sets).collect();
        said(&folder, &run)["step_time_s"].as_f64().unwrap()
    };
    assert_eq!(of("slow.json", &[]), of("prices.json", &slow));
    assert_ne!(of("slow.json", &[]), of("prices.json", &[]));
    // A launch sets the host's pace, and what has no effect says so.
    let launch = json!({"op": "launch", "time_ms": 0.008, "software": "PyTorch eager"}).to_string();
    std::fs::write(folder.path().join("launch.jsonl"), format!("{}\n{launch}", lines.join("\n"))).unwrap();
    let learn = |more: &[&str]| {
        let output = stepsim(&folder, &[&["learn", "launch.jsonl", "-w", "gpt2-8"], more].concat());
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let text = learn(&["--set", "stack=megatron-te-2024"]);
    assert!(text.contains("launch of a small kernel (host)"), "{text}");
    let text = learn(&["--set", "stack=simple"]);
    assert!(text.contains("has no effect"), "{text}");
    assert!(learn(&["--linked"]).contains("--linked is for profiles"));
    let output = stepsim(&folder, &["learn", "times.jsonl", "-w", "gpt2-8", "-t", "8xh100"]);
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("the rows were measured on") || output.status.code() == Some(2), "{text}");
}

/// Whatever a step multiplies and in which formats: a row that is written can be read, once it has a time.
#[test]
fn rows_of_kernels_can_be_read() {
    let steps = [
        "tiny-4",
        "gpt2-8",
        "llama3-8b-fsdp",
        "mixtral-8x7b",
        "qwen3-30b-a3b-gb200",
        "deepseek-v3",
        "qwen-vl-7b",
    ];
    for name in steps {
        let inputs = Inputs::load(name, None, &[]).unwrap();
        let (rows, _) = kernels_of(&inputs).unwrap();
        let device = DeviceCost::new(inputs.machine.device(DeviceId(0)));
        for row in &rows {
            let timed = KernelRow { time_ms: Some(1.0), ..row.clone() };
            let read = timed.read().unwrap_or_else(|why| panic!("{name}: {why}: {row:?}"));
            assert!(read.priced(&device, &TileWave) > 0.0, "{name}: {row:?}");
        }
        assert!(
            rows.iter().any(|row| row.op == "gemm" && row.direction.as_deref() == Some("bwd (weight grad)")),
            "{name}"
        );
    }
}
