//! Shipped workloads that name a published run have its layout, and come near what was published of it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use stepsim::bring::describe::RuleBook;
use stepsim::measure::score::{case, read};
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::step::spec::{Kind, catalog};

#[test]
fn workloads_of_published_runs_come_near_them() {
    let file: Value = serde_json::from_str(include_str!("data/published.json")).expect("JSON");
    let runs = file["runs"].as_array().expect("runs");
    println!("| workload | published | simulated | off | source |\n|---|---|---|---|---|");
    for run in runs {
        let text = |key: &str| run[key].as_str().expect("a text");
        let number = |key: &str| run[key].as_f64().expect("a number");
        let name = text("workload");
        assert!(catalog::text(Kind::Workload, name).is_some(), "{name}");
        let inputs = Inputs::load(name, None, &[]).expect("inputs");
        let report = Simulation::run(&inputs, &Options::default()).expect("a run").report(false);
        let (published, simulated) = match text("figure") {
            "step_time_s" => (number("published"), report.step_time_s),
            "model_tflops_per_device" => (number("published"), report.model_tflops_per_device),
            "states_GB_per_device" => {
                let states =
                    ["weights", "gradients", "optimizer"].map(|class| report.memory["hbm"].by_class[class]);
                (number("published"), 1e-9 * states.iter().sum::<u64>() as f64)
            }
            other => panic!("no such figure: {other}"),
        };
        let off = simulated / published - 1.0;
        let (figure, source) = (text("figure"), text("source"));
        println!("| `{name}` | {published} {figure} | {simulated:.2} | {:+.1} % | {source} |", 100.0 * off);
        assert!(off.abs() <= number("within"), "{name}: {simulated} for {published}");
    }
}

/// Each row of the page on public runs names its source and a speed, and becomes a step.
#[test]
fn public_runs_can_be_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rows = read(&root.join("examples/public-runs.jsonl")).expect("rows");
    let book = RuleBook::load(&[]).expect("rules");
    let page = std::fs::read_to_string(root.join("docs/evidence/public-runs.md")).expect("a page");
    assert_eq!(rows.len(), 36);
    for row in &rows {
        let case = case(row, &book).unwrap_or_else(|e| panic!("{}: {e}", row.id));
        assert!(case.measured_s > 0.0 && row.text("source_ref").len() > 20, "{}", row.id);
        assert!(page.contains(&format!("`{}`", row.id)), "{}", row.id);
    }
}

/// vTrain's rows of one node are not steps that were timed one by one: between the fewest and the most micro-batches they lie
/// on a straight line to the printed digit, for each of 432 triples. Whole steps that are timed scatter by a per mille and more.
/// They are what vTrain's own predictor makes of traced layers.
#[test]
fn steps_of_vtrains_single_node_are_composed() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/measured/steps-vtrain-single-node.jsonl");
    let Ok(text) = std::fs::read_to_string(file) else { return };
    let mut layouts: BTreeMap<[u64; 6], Vec<(u64, f64)>> = BTreeMap::new();
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).expect("JSON");
        let count = |column: &str| row[column].as_u64().expect("a count");
        let key = ["hidden", "layers", "tp", "pp", "dp", "mbs_seqs"].map(count);
        let steps = layouts.entry(key).or_default();
        steps.push((count("grad_accum"), row["step_time_s"].as_f64().expect("seconds")));
    }
    let mut off = Vec::new();
    for steps in layouts.values_mut() {
        steps.sort_by_key(|(micro_batches, _)| *micro_batches);
        let (Some(&(few, short)), Some(&(many, long))) = (steps.first(), steps.last()) else { continue };
        for (between, step) in steps.iter().filter(|(n, _)| few < *n && *n < many) {
            let line = short + (long - short) * (between - few) as f64 / (many - few) as f64;
            off.push((line / step - 1.0).abs());
        }
    }
    let worst = off.iter().copied().fold(0.0, f64::max);
    println!(
        "{} steps between two others of a layout: at most {:.1e} off the straight line",
        off.len(),
        worst
    );
    assert!(off.len() > 400 && worst < 1e-5, "{} {worst}", off.len());
    // What four replicas add to one: gradients beyond 1,024 MiB, where vTrain's table of all-reduces ends, add less.
    let step = |layers: u64, data: u64| layouts[&[2048, layers, 2, 1, data, 1]][0].1;
    let added: Vec<f64> = [12, 16, 20, 24].map(|layers| 1e3 * (step(layers, 4) - step(layers, 1))).into();
    println!("4 replicas of 12, 16, 20 and 24 layers add {added:.3?} ms to one");
    assert!(added[0] < added[1] && added[2] < 0.8 * added[1] && added[2] < added[3], "{added:?}");
}
