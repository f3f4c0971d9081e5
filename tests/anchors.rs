//! A measured step becomes the prices of the next run: what is anchored, how near, and what is refused.

use serde_json::json;
use stepsim::bring::describe::RuleBook;
use stepsim::core::ids::DeviceId;
use stepsim::measure::score::anchor::Reach;
use stepsim::measure::score::learned_rows::kernels_of;
use stepsim::measure::score::{AnchoredErrors, PublishedRow, outcomes, read};
use stepsim::price::cost::measured::MeasuredRow as KernelRow;
use stepsim::price::cost::{DeviceCost, TileWave};
use stepsim::simulate::Inputs;

use crate::command::{Folder, Said};

fn step_s(folder: &Folder, more: &str) -> f64 {
    let run = format!("run tiny-4 -q --report - --set stack=megatron-te-2024 {more}");
    folder.stepsim(&run).json()["step_time_s"].as_f64().unwrap()
}

/// Rows of one model on 8, 16 and 64 devices, and of another on 8, at these measured seconds.
fn rows(folder: &Folder, measured_s: &[f64]) -> Vec<PublishedRow> {
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
    folder.write("own.jsonl", lines.join("\n"));
    read(&folder.path("own.jsonl")).unwrap()
}

/// Rows that all take a fifth longer than simulated are predicted better from the smallest of them, by more on more
/// devices than in another layout or of another model, and rows that are right stay right.
#[test]
fn larger_rows_are_predicted_from_the_smallest() {
    let folder = Folder::new();
    let book = RuleBook::load(&[]).unwrap();
    let score = |measured_s: &[f64]| outcomes(&rows(&folder, measured_s), &book, &[], &|_| {});
    let simulated: Vec<f64> = score(&[1.0; 5]).iter().map(|o| o.predicted_s.unwrap()).collect();
    for factor in [1.0, 1.2] {
        let measured: Vec<f64> = simulated.iter().map(|s| s * factor).collect();
        let anchored = AnchoredErrors::of(&score(&measured));
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
            let kept = if row.reach < Reach::Layout { 0.7 } else { 0.95 };
            let left = if factor == 1.0 { 1e-9 } else { kept * row.before.abs() };
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

/// `learn` by one measured time; what it writes is `mine.json`.
fn by_time(folder: &Folder, measured: &str) -> Said {
    let step = "learn --of tiny-4 --set stack=megatron-te-2024";
    folder.stepsim(&format!("{step} --measured {measured} -o mine.json"))
}

/// What `learn` writes makes a run take the measured time, and says what each part did.
#[test]
fn a_measured_step_becomes_prices() {
    let folder = Folder::new();
    let plain = step_s(&folder, "");
    for factor in [0.9, 1.15] {
        let measured = format!("{}ms", 1e3 * factor * plain);
        let text = by_time(&folder, &measured).ok();
        assert!(text.contains("| products |") && text.contains("| exposed exchange |"), "{text}");
        let priced = step_s(&folder, "--prices mine.json");
        assert!((priced / plain / factor - 1.0).abs() < 0.03, "{priced} of {plain}, {factor}: {text}");
        assert_eq!(priced, step_s(&folder, "--set prices=mine.json"));
    }
    let other = folder.stepsim("run gpt2-8 --prices mine.json").refused();
    assert!(other.contains("fitted_on.model.hidden") && other.contains("leave it out"), "{other}");
    let deeper = "run tiny-4 --set stack=megatron-te-2024 --set model.layers=8 --prices mine.json";
    folder.stepsim(deeper).ok();
    let search = "search tiny-4 --set stack=megatron-te-2024 --set prices=mine.json --top 1 --report -";
    let found = folder.stepsim(search).json();
    let sets = &found["ranking"][0]["sets"].as_array().unwrap();
    assert!(sets.contains(&"prices=mine.json".into()), "{found}");
    assert!(sets.iter().all(|set| !set.as_str().unwrap().contains("slowness")), "{found}");
    let best: String = sets.iter().map(|set| format!(" --set '{}'", set.as_str().unwrap())).collect();
    let again = folder.stepsim(&format!("run tiny-4 -q --report -{best}")).json();
    let (found, again) = (found["ranking"][0]["step_time_s"].as_f64(), again["step_time_s"].as_f64());
    assert!(found.is_some() && found == again, "{found:?} {again:?}");
}

/// A time that no likely prices give is refused, with the command that says what would explain it.
#[test]
fn an_impossible_time_is_refused() {
    let folder = Folder::new();
    let plain = step_s(&folder, "");
    for factor in [4.0, 1000.0, 1e-4] {
        let error = by_time(&folder, &(factor * plain).to_string()).refused();
        assert!(error.contains("stepsim normal ") && error.contains("allowed:"), "{factor}: {error}");
        assert!(!folder.path("mine.json").exists());
    }
    assert!(folder.stepsim("run tiny-4 --prices lost.json").refused().contains("lost.json"));
}

/// Slower kernels and collectives take as many times as long.
#[test]
fn slowness_multiplies_times() {
    let folder = Folder::new();
    // Without a stack launches are free: nothing hides what kernels take.
    let gemm = "topology.device.cost.slowness.gemm";
    let time = |class: &str, op: &str| {
        let slower = format!("--set {gemm}={class} --set topology.collectives.slowness.all-reduce={op}");
        step_s(&folder, &format!("--set stack=simple {slower}"))
    };
    let once = time("1", "1");
    assert_eq!(once, step_s(&folder, "--set stack=simple"));
    assert!(time("2", "1") > once && time("1", "2") >= once);
    assert!(folder.stepsim(&format!("run tiny-4 --set {gemm}=0")).error.contains("slowness.gemm"));
}

/// Prices learned from a timeline of a slower device make a run take what it took, work by work.
#[test]
fn a_profile_becomes_prices() {
    let folder = Folder::new();
    folder
        .stepsim(
            "run gpt2-8 -q -o profile.json.gz --trace-ranks 0 --report measured.json \
             --set stack=megatron-te-2024 --set topology.device.cost.matrix_fraction=0.6 \
             --set topology.device.cost.memory_fraction=0.5 --set topology.device.cost.host_slowness=1.3",
        )
        .ok();
    let learn = "learn profile.json.gz -w gpt2-8 --set stack=megatron-te-2024 -o prices.json";
    let text = folder.stepsim(learn).ok();
    let file = folder.json("prices.json");
    let again = "run gpt2-8 -q --set stack=megatron-te-2024 --prices prices.json --report priced.json";
    folder.stepsim(again).ok();
    let [measured, priced] =
        ["measured.json", "priced.json"].map(|name| folder.json(name)["step_time_s"].as_f64().unwrap());
    assert!((priced / measured - 1.0).abs() < 0.02, "{priced} of {measured}: {text}");
    for line in file["lines"].as_array().unwrap() {
        let [profile, after] = ["profile_s", "after_s"].map(|field| line[field].as_f64().unwrap());
        let works = ["gemm", "attention", "memory-bound", "optimizer", "collectives"];
        let known = line["what"].as_str().is_some_and(|what| works.contains(&what));
        assert!(!known || (after / profile - 1.0).abs() < 0.05, "{line}: {text}");
    }
    let wrong = folder.stepsim("learn profile.json.gz -w llama3-8b-fsdp -o no.json").refused();
    assert!(wrong.contains("was measured"));
}

/// Of a profile that holds a pair of passes alone: the same window as simulated tells the prices.
#[test]
fn a_part_of_a_step_becomes_prices() {
    let folder = Folder::new();
    let window = |out: &str, window: &str, sets: &str| {
        let run = "run gpt2-8 --set stack=simple -q --trace-ranks 0";
        folder.stepsim(&format!("{run} -o {out} --window-ms {window} {sets}")).ok();
    };
    // The forward pass of the first micro-batch; on the slower device the same kernels take longer.
    window("cell.json", "0:5", "");
    let slowness = "topology.device.cost.slowness";
    window("profile.json", "0:6.25", &format!("--set {slowness}.gemm=1.25 --set {slowness}.norm=1.25"));
    let learn = "learn profile.json --part cell.json -w gpt2-8 --set stack=simple -o p.json";
    let text = folder.stepsim(learn).ok();
    let file = folder.json("p.json");
    let lines = file["lines"].as_array().unwrap();
    let times =
        |what: &str| lines.iter().find(|line| line["what"] == what).unwrap()["times"].as_f64().unwrap();
    assert!((times("gemm") / 1.25 - 1.0).abs() < 0.03, "{text}");
    assert!(lines.iter().all(|line| line["what"] != "step"), "a part has no step: {text}");
    // Of collectives one rank alone tells nothing: that is said where there are some.
    let doubt = "so collectives keep the prices of the network";
    assert!(!text.contains(doubt), "{text}");
    let cut = "--set parallelism.sharding.kind=zero3";
    window("cell.json", "0:5", cut);
    window("profile.json", "0:5", cut);
    let text = folder.stepsim(&format!("{learn} {cut}")).ok();
    assert!(text.contains(doubt), "{text}");
    // What the plan has not is no price of its own.
    window("cell.json", "0:5", "");
    let text = folder.stepsim(learn).ok();
    assert!(text.contains("only in the profile, priced as waiting: collectives"), "{text}");
}

/// Kernels of a step, written, timed on a device where products take a quarter longer and all else a tenth, and read:
/// those are the prices, and the step has them. What rows have no words for goes with its work.
#[test]
fn times_of_the_kernels_of_a_step_become_prices() {
    let folder = Folder::new();
    folder.stepsim("inspect gpt2-8 --kernels kernels.jsonl").ok();
    let inputs = Inputs::load("gpt2-8", None, &[]).unwrap();
    let text = folder.text("kernels.jsonl");
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
    folder.write("times.jsonl", lines.join("\n"));
    folder.stepsim("learn times.jsonl -w gpt2-8 -o prices.json").ok();
    let busy = |more: &str| {
        let report = folder.stepsim(&format!("run gpt2-8 -q --report - {more}")).json();
        let kernels = report["kernels"].as_array().unwrap().clone();
        move |class: &str| kernels.iter().find(|k| k["class"] == class).unwrap()["time_s"].as_f64().unwrap()
    };
    let (before, after) = (busy(""), busy("--prices prices.json"));
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
    let slow = r#"--set topology.collectives.slowness={"all-reduce":2}"#;
    folder.stepsim(&format!("learn times.jsonl -w gpt2-8 -o slow.json {slow}")).ok();
    let of = |name: &str, sets: &str| {
        let run = format!("run gpt2-8 -q --report - --prices {name} {sets}");
        folder.stepsim(&run).json()["step_time_s"].as_f64().unwrap()
    };
    assert_eq!(of("slow.json", ""), of("prices.json", slow));
    assert_ne!(of("slow.json", ""), of("prices.json", ""));
    // What is no kernel of ours is listed with its time, none where the row has none.
    let odd = [r#"{"op": "quibble", "time_ms": 3}"#, r#"{"op": "quibble"}"#].join("\n");
    folder.write("odd.jsonl", format!("{}\n{odd}", lines.join("\n")));
    let text = folder.stepsim("learn odd.jsonl -w gpt2-8").ok();
    assert!(text.contains("  3.000 ms quibble: "), "{text}");
    // A launch sets the host's pace, and what has no effect says so.
    let launch = json!({"op": "launch", "time_ms": 0.008, "software": "PyTorch eager"}).to_string();
    folder.write("launch.jsonl", format!("{}\n{launch}", lines.join("\n")));
    let learn = |more: &str| {
        let said = folder.stepsim(&format!("learn launch.jsonl -w gpt2-8 {more}"));
        said.out + &said.error
    };
    let text = learn("--set stack=megatron-te-2024");
    assert!(text.contains("launch of a small kernel (host)"), "{text}");
    let text = learn("--set stack=simple");
    assert!(text.contains("has no effect"), "{text}");
    assert!(learn("--linked").contains("--linked is for profiles"));
    let said = folder.stepsim("learn times.jsonl -w gpt2-8 -t 8xh100");
    let text = said.out + &said.error;
    assert!(text.contains("the rows were measured on") || said.status == Some(2), "{text}");
}

/// Whatever a step multiplies and in which formats: a row that is written can be read, once it has a time.
#[test]
fn rows_of_kernels_can_be_read() {
    let steps = "tiny-4 gpt2-8 llama3-8b-fsdp mixtral-8x7b qwen3-30b-a3b-gb200 deepseek-v3 qwen-vl-7b";
    for name in steps.split(' ') {
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
