//! Schedules on a time of its own for each part: hand-made files against sums by hand, public timelines of real jobs
//! against their measured steps and their owners' what-if numbers (`tests/data/durations.json`).

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::command::{Folder, Said};

/// The report of a file of durations.
fn replay(content: &Value, more: &str) -> Result<Value, String> {
    let folder = Folder::new();
    folder.write("d.json", content.to_string());
    replay_file(&folder.path("d.json"), more)
}

fn replay_file(file: &Path, more: &str) -> Result<Value, String> {
    let folder = Folder::new();
    match folder.stepsim(&format!("schedule --durations {} --report r.json {more}", file.display())) {
        Said { status: Some(0), .. } => Ok(folder.json("r.json")),
        said => Err(said.refused()),
    }
}

fn step(report: &Value) -> f64 {
    report["steps"][0]["replayed"].as_f64().unwrap()
}

#[test]
fn equal_times_give_the_closed_form() {
    let content =
        json!({"stages": 4, "micro_batches": 8, "steps": [{"name": "1", "times": {"F": 1, "B": 2}}]});
    // (m + p − 1)(F + B), whatever the order of all forward passes.
    assert_eq!(step(&replay(&content, "--kind 1f1b").unwrap()), 33.0);
    assert_eq!(step(&replay(&content, "--kind gpipe").unwrap()), 33.0);
    // A chunked schedule has stages × chunks stages, each with its times.
    let content = json!({"stages": 2, "micro_batches": 4, "steps": [{"name": "1", "times": {"F": 0.5, "B": [1, 1, 1, 1]}}]});
    assert_eq!(step(&replay(&content, "--kind interleaved-1f1b").unwrap()), 12.0 + 1.5);
}

#[test]
fn each_part_has_its_own_time() {
    // Two stages, two micro-batches, 1F1B: F0 F1 | F0, B0, F1, B1 on the second stage.
    let content = json!({
        "stages": 2, "micro_batches": 2,
        "before": [{"name": "gather"}], "after": [{"name": "step", "group": "all"}],
        "steps": [{"name": "1", "measured": 23.5, "times": {
            "F": [[1, 2], [3, 4]], "B": [[5, 6], [7, 8]], "send F": 0.25, "send B": [0, 0.5],
            "gather": [0.5, 0.25], "step": [1, 2]
        }, "delays": {"B": [[0, 0], [0, 0.125]], "step": [0.0625, 0]}}]
    });
    let report = replay(&content, "--kind 1f1b").unwrap();
    // Stage 1: gathered 0.5, F0 of stage 0 ends 1.5, arrives 1.75, F0 4.75, B0 11.75, F1 15.75, B1 (delay) 23.875;
    // stage 0: B0 12.25 to 17.25, B1 from 24.375 to 30.375; all step from there.
    assert_eq!(step(&report), 32.375);
    assert_eq!(report["steps"][0]["without_delays"], 32.25);
    assert_eq!(report["steps"][0]["measured"], 23.5);
}

#[test]
fn ranks_that_begin_together_wait_for_the_last() {
    let of = |group: &str| {
        let content = json!({
            "stages": 2, "micro_batches": 1, "replicas": 2,
            "after": [{"name": "reduce", "group": group}],
            "steps": [{"name": "1", "times": {"F": [[[1], [1]], [[1], [4]]], "B": 0, "reduce": [[1, 1], [1, 3]]}}]
        });
        let report = replay(&content, "--kind 1f1b --what-if").unwrap();
        (step(&report), report)
    };
    // Replica 1 ends at 5 on both stages; its stage 1 then reduces for 3.
    for group in ["alone", "others", "replicas", "stages", "all"] {
        assert_eq!(of(group).0, 8.0, "{group}");
    }
    let (_, report) = of("replicas");
    // Even: F 1.75 on both stages, reduce at the median of 1.
    assert_eq!(report["even"], 4.5);
    let by = |what: &str| {
        report["what_ifs"].as_array().unwrap().iter().find(|w| w["what"] == what).unwrap().clone()
    };
    assert_eq!(by("replica 1")["slowdown"].as_f64().unwrap(), 8.0 / 4.5);
    assert_eq!(by("class reduce")["slowdown"].as_f64().unwrap(), 6.5 / 4.5);
}

/// Up to 65,536 micro-batches, and up to 10,000,000 units, were every pass of every stage done in turn.
#[test]
fn a_file_may_be_as_large_as_this_and_no_larger() {
    let refused = |micro_batches: u32, time: f64, twice: &str| {
        let content = json!({
            "stages": 2, "micro_batches": micro_batches, "after": [{"name": "a"}, {"name": twice}],
            "steps": [{"name": "1", "times": {"F": time}}],
        });
        replay(&content, "--kind 1f1b").err().unwrap_or_default()
    };
    // The numbers are read before the names.
    let (most, more) = (refused(65_536, 1.0, "a"), refused(65_537, 1.0, "a"));
    assert!(most.contains("`a` is taken") && more.contains("65537 is not allowed"), "{most} {more}");
    // Twice eight passes.
    let (most, more) = (refused(8, 625_000.0, "b"), refused(8, 625_001.0, "b"));
    assert!(most.is_empty() && more.contains("units may pass"), "{most} {more}");
}

fn timelines() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = root.ancestors().skip(1).map(|a| a.join("shared/real-traces")).find(|p| p.is_dir());
    if found.is_none() {
        eprintln!(
            "SKIPPED: the real timelines are not beside the repository; see `about` in tests/data/durations.json"
        );
    }
    found
}

#[test]
fn real_jobs_replay_as_measured_and_their_stragglers_cost_what_their_owners_say() {
    let Some(folder) = timelines() else { return };
    let answers: Value = serde_json::from_str(include_str!("data/durations.json")).unwrap();
    for answer in answers["runs"].as_array().unwrap() {
        let file = folder.join(answer["run"].as_str().unwrap()).join("timeline.json.gz");
        // The what-ifs of the larger job are the same code, and take minutes without optimization.
        let what_if = answer["run"].as_str().is_some_and(|run| run.ends_with("-st"));
        let options = if what_if { "--kind 1f1b --what-if" } else { "--kind 1f1b" };
        let report = replay_file(&file, options).unwrap();
        let near = |what: &str, ours: &Value, theirs: &Value, off: f64| {
            let (a, b) = (ours.as_f64().unwrap(), theirs.as_f64().unwrap());
            assert!((a / b - 1.0).abs() <= off, "{} {what}: {a}, theirs {b}", answer["run"]);
        };
        for known in answer["steps"].as_array().unwrap() {
            let step = report["steps"].as_array().unwrap().iter().find(|s| s["name"] == known[0]).unwrap();
            near("measured", &step["replayed"], &known[1], 0.02);
            near("without delays", &step["without_delays"], &known[2], 0.001);
        }
        near("even", &report["even"], &answer["even"], 0.001);
        near("slowdown", &report["slowdown"], &answer["slowdown"], 0.001);
        if !what_if {
            continue;
        }
        let of = |what: String| {
            let list = report["what_ifs"].as_array().unwrap();
            list.iter()
                .find(|w| w["what"] == what)
                .map(|w| w["slowdown"].clone())
                .unwrap_or_else(|| panic!("{what}"))
        };
        for (class, slowdown) in answer["classes"].as_object().unwrap() {
            near(class, &of(format!("class {class}")), slowdown, 0.002);
        }
        for (subject, list) in [("stage", &answer["stages"]), ("replica", &answer["replicas"])] {
            for (i, slowdown) in list.as_array().unwrap().iter().enumerate() {
                near(subject, &of(format!("{subject} {i}")), slowdown, 0.002);
            }
        }
    }
}
