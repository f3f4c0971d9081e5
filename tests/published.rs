//! Shipped workloads that name a published run have its layout, and come near what was published of it.

use std::path::Path;

use serde_json::Value;
use stepsim::bring::describe::RuleBook;
use stepsim::measure::score::{case, read};
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::spec::{Kind, catalog};

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
    let page = std::fs::read_to_string(root.join("docs/developers/public-runs.md")).expect("a page");
    assert_eq!(rows.len(), 36);
    for row in &rows {
        let case = case(row, &book).unwrap_or_else(|e| panic!("{}: {e}", row.id));
        assert!(case.measured_s > 0.0 && row.text("source_ref").len() > 20, "{}", row.id);
        assert!(page.contains(&format!("`{}`", row.id)), "{}", row.id);
    }
}
