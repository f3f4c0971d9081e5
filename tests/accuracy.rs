//! Simulated against measured steps: one description per device, one rule per source, no row tuned.
//!
//! The bands are wide enough for what is known to be missing (see `examples/accuracy.md`) and narrow enough that a
//! lost mechanism (recomputation, a pipeline's bubble, tensor-parallel communication) leaves them.

// The example prints more than the bands need.
#![allow(dead_code)]

#[path = "../examples/measured/blocks.rs"]
mod blocks;
#[path = "../examples/measured/describe.rs"]
mod describe;
#[path = "../examples/measured/rows.rs"]
mod rows;
#[path = "../examples/measured/table.rs"]
mod table;

use rows::Row;
use table::{Outcome, outcome};

/// Outcomes of the rows of a source that a test picks; `None` where the measurements are not at hand.
fn outcomes(source: &str, picked: impl Fn(&Row) -> bool) -> Option<Vec<(Row, Outcome)>> {
    let Some(folder) = rows::folder() else {
        println!("skipped: no measurements (STEPSIM_SHARED)");
        return None;
    };
    let rows = Row::read(&folder.join("steps.jsonl")).expect("readable rows");
    let mine = rows.into_iter().filter(|r| r.source() == source && r.is_step() && picked(r));
    Some(mine.map(|row| (row.clone(), outcome(&row))).collect())
}

/// Every row runs, and each ratio of simulated to measured lies in a band.
fn each_within(source: &str, low: f64, high: f64, picked: impl Fn(&Row) -> bool) {
    let Some(outcomes) = outcomes(source, picked) else { return };
    assert!(!outcomes.is_empty());
    for (row, outcome) in &outcomes {
        let ratio = outcome.ratio().unwrap_or_else(|| panic!("{}", table::line(row, outcome)));
        assert!((low..high).contains(&ratio), "{}", table::line(row, outcome));
    }
}

#[test]
fn tensor_and_pipeline_parallel_steps_of_megatron() {
    each_within("megatron-sc21", 0.85, 1.10, |r| {
        r.text("sharding").is_empty() && r.count("mbs_seqs").is_some()
    });
}

#[test]
fn selective_and_full_recomputation_of_megatron() {
    each_within("korthikanti2022", 0.85, 1.10, |_| true);
}

#[test]
fn large_models_over_many_nodes() {
    each_within("vtrain-multinode", 0.85, 1.15, |r| r.text("model") == "GPT 175B" && r.degree("tp") == 8);
}

#[test]
fn zero_bubble_schedules_keep_their_order() {
    let Some(outcomes) = outcomes("zero-bubble", |r| r.text("model") == "GPT 6.2B") else { return };
    for (block, entries) in blocks::blocks(&outcomes) {
        let time = |name: &str| entries.iter().find(|e| e.0 == name).map(|e| e.2);
        let (Some(plain), Some(one)) = (time("1F1B"), time("ZB-1p")) else { continue };
        assert!(one < plain, "{block}: ZB-1p {one} s, 1F1B {plain} s");
        if let Some(two) = time("ZB-2p") {
            assert!(two < one, "{block}: ZB-2p {two} s, ZB-1p {one} s");
        }
        if let Some(v) = time("ZB-V") {
            assert!(v < one, "{block}: ZB-V {v} s, ZB-1p {one} s");
        }
    }
}
