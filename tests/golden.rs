//! Whole timelines: golden files compared byte for byte, replay, and folding.
//!
//! `traces/tiny-4.json` is checked a second time against a recurrence written here, from the formulas alone. After a
//! change that is meant to change timelines, `STEPSIM_BLESS=1 cargo test --test all golden::` writes the files anew.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::command::Folder;

/// Runs `stepsim run … -o FILE --reproducible` and returns the file's bytes.
fn trace(extension: &str, args: &str) -> Vec<u8> {
    let folder = Folder::new();
    folder.stepsim(&format!("run {args} --quiet --reproducible -o trace.{extension}")).ok();
    std::fs::read(folder.path(&format!("trace.{extension}"))).expect("a trace")
}

fn golden_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("traces").join(name)
}

fn compare(name: &str, args: &str) {
    let (_, extension) = name.split_once('.').expect("an extension");
    let (path, new) = (golden_file(name), trace(extension, args));
    if std::env::var_os("STEPSIM_BLESS").is_some() {
        std::fs::write(&path, &new).expect("a golden file");
    }
    let kept = std::fs::read(&path).unwrap_or_default();
    if let Some(at) = (0..kept.len().max(new.len())).find(|i| kept.get(*i) != new.get(*i)) {
        let around = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes.get(at.saturating_sub(200)..).unwrap_or_default())
                .chars()
                .take(400)
                .collect::<String>()
        };
        panic!("traces/{name} differs at byte {at}\n--- kept\n{}\n--- new\n{}", around(&kept), around(&new));
    }
}

#[test]
fn a_pipeline_of_four() {
    compare("tiny-4.json", "tiny-4 --detail phase");
}

const TENSOR: &str = "tiny-4 --set=parallelism.tensor=2 --set=parallelism.pipeline.size=2 --set=batch.global=2 \
                      --trace-ranks=0";

#[test]
fn tensor_parallel_op_by_op() {
    compare("tiny-4-tensor-2.json", TENSOR);
    compare("tiny-4-tensor-2.pftrace", TENSOR);
}

/// Passes by (rank, name): start and duration in nanoseconds.
fn compute_slices(trace: &[u8]) -> BTreeMap<(u64, String), (f64, f64)> {
    let trace: Value = serde_json::from_slice(trace).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let slice = |e: &&Value| e["ph"] == "X" && e["cat"] == "pass" && e["name"] != "optimizer";
    let rows = events.iter().filter(|e| e["name"] == "thread_name");
    let name = |e: &Value| e["args"]["name"].as_str().expect("a name").to_string();
    let rows: BTreeMap<u64, String> = rows.map(|e| (e["tid"].as_u64().expect("a tid"), name(e))).collect();
    let ns = |e: &Value, field: &str| e[field].as_f64().expect("a number") * 1e3;
    let entry = |e: &Value| {
        let name = e["name"].as_str().expect("a name").to_string();
        let row = &rows[&e["tid"].as_u64().expect("a tid")];
        let rank = row.split(' ').next().and_then(|number| number.parse().ok()).expect("a rank");
        ((rank, name), (ns(e, "ts"), ns(e, "dur")))
    };
    events.iter().filter(slice).map(entry).collect()
}

/// Start and duration in nanoseconds of every pass of 1F1B on 4 stages with 6 micro-batches.
///
/// A layer with b s = 2¹⁰ tokens and h = 2¹⁰ does 24 b s h² = 24·2³⁰ FLOPs in its matrix products and, with a causal
/// mask, 2 b s² h = 2·2³⁰ in attention; backward twice the former, and two and a half times the latter because flash
/// attention computes the scores again. The head on the last stage does 2 b s h V = 2³⁰ forward, twice that backward.
/// Half of 1,000 TFLOP/s is sustained. A border tensor of 2 b s h = 2 MiB takes 2 us and its bytes over 100 GB/s.
fn one_f_one_b() -> BTreeMap<(u64, String), (f64, f64)> {
    const STAGES: usize = 4;
    const MICRO_BATCHES: usize = 6;
    let ns = |units: f64| units * (1_u64 << 30) as f64 / 500e12 * 1e9;
    let transfer = 2000.0 + (2_u64 << 20) as f64 / 100.0;
    let head = |stage: usize| if stage == STAGES - 1 { 1.0 } else { 0.0 };
    let duration = |stage: usize, backward: bool| {
        if backward { ns(53.0 + 2.0 * head(stage)) } else { ns(26.0 + head(stage)) }
    };
    // Each stage's passes in order: warm-up, one forward and one backward in turn, the rest.
    let order = |stage: usize| {
        let warm = (STAGES - 1 - stage).min(MICRO_BATCHES);
        let mut passes: Vec<(bool, usize)> = (0..warm).map(|m| (false, m)).collect();
        for m in 0..MICRO_BATCHES {
            if warm + m < MICRO_BATCHES {
                passes.push((false, warm + m));
            }
            passes.push((true, m));
        }
        passes
    };
    let mut end = BTreeMap::new();
    let mut slices = BTreeMap::new();
    let mut next = [0; STAGES];
    let mut free = [0.0_f64; STAGES];
    while (0..STAGES).any(|s| next[s] < order(s).len()) {
        for stage in 0..STAGES {
            let Some(&(backward, m)) = order(stage).get(next[stage]) else { continue };
            let input = match (backward, stage) {
                (false, 0) => Some(0.0),
                (false, s) => end.get(&(s - 1, false, m)).map(|t: &f64| t + transfer),
                (true, s) if s == STAGES - 1 => Some(0.0),
                (true, s) => end.get(&(s + 1, true, m)).map(|t: &f64| t + transfer),
            };
            let Some(input) = input else { continue };
            let (start, time) = (input.max(free[stage]), duration(stage, backward));
            let name = format!("m{m} {}", if backward { "bwd" } else { "fwd" });
            slices.insert((stage as u64, name), (start, time));
            end.insert((stage, backward, m), start + time);
            free[stage] = start + time;
            next[stage] += 1;
        }
    }
    slices
}

#[test]
fn the_golden_pipeline_is_that_of_the_formulas() {
    let kept = compute_slices(&std::fs::read(golden_file("tiny-4.json")).expect("a golden file"));
    let derived = one_f_one_b();
    assert_eq!(kept.keys().collect::<Vec<_>>(), derived.keys().collect::<Vec<_>>());
    for (pass, (start, time)) in &derived {
        let (kept_start, kept_time) = kept[pass];
        assert!((kept_start - start).abs() < 2.0, "{pass:?} starts at {kept_start} ns, not {start}");
        assert!((kept_time - time).abs() < 2.0, "{pass:?} takes {kept_time} ns, not {time}");
    }
}

/// Two layers and two micro-batches a rank: in each layer two all-reduces forward and two backward, of 2 MiB each.
#[test]
fn the_golden_collectives_are_those_of_megatron() {
    let bytes = std::fs::read(golden_file("tiny-4-tensor-2.json")).expect("a golden file");
    let trace: Value = serde_json::from_slice(&bytes).expect("JSON");
    let of_layers = |e: &&Value| {
        e["ph"] == "X" && e["cat"] == "tp" && e["args"]["layer"].is_u64() && e["args"]["bytes"] == 2 << 20
    };
    let events = trace["traceEvents"].as_array().expect("events");
    let seen: Vec<&str> = events.iter().filter(of_layers).filter_map(|e| e["name"].as_str()).collect();
    assert_eq!(seen.len(), 2 * 2 * 4, "{seen:?}");
}

/// Equal inputs and seeds give equal bytes; another seed does not.
#[test]
fn a_run_can_be_repeated() {
    for extension in ["json", "pftrace"] {
        let run = "tiny-4 --set=noise.compute_sigma=0.05 --trace-ranks=all --seed";
        let noisy = |seed: &str| trace(extension, &format!("{run} {seed}"));
        assert_eq!(noisy("7"), noisy("7"));
        assert_ne!(noisy("7"), noisy("8"));
    }
}

/// What a folded run shows of any rank is what the whole run shows.
#[test]
fn a_folded_run_has_the_timeline_of_the_whole() {
    let without_count = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).expect("UTF-8");
        let at = text.find("\"ranks simulated\":").expect("the count");
        assert_ne!(&text[at..at + 19], "\"ranks simulated\":0");
        let mut parts = text.split("\"ranks simulated\":");
        let head = parts.next().unwrap_or_default().to_string();
        parts.fold(head, |whole, part| whole + part.trim_start_matches(|c: char| c.is_ascii_digit()))
    };
    let runs = [
        "gpt2-8 --trace-ranks=0,3,7",
        "llama3-8b-fsdp --trace-ranks=all --detail=layer",
        "llama3-70b --set=batch.global=16 --trace-ranks=0,13,63 --window-ms=0:300",
        "llama3-70b --set=batch.global=16 --trace-ranks=5,40 --window-ms=100:200 \
         --set=fidelity.collectives=formula",
    ];
    for args in crate::slow::some(&runs, 2) {
        let whole = trace("json", &format!("{args} --no-fold"));
        let folded = trace("json", args);
        assert!(folded.len() > 10_000, "{args}: {} bytes", folded.len());
        assert!(without_count(folded) == without_count(whole), "{args}");
    }
}
