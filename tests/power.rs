//! What a step costs in every view, and what a power cap does to it.

use serde_json::Value;
use stepsim::read::analysis::report::Report;
use stepsim::simulate::jump::reported;
use stepsim::simulate::{Inputs, Options};

use crate::command::{Folder, stepsim};

fn report(name: &str, machine: Option<&str>, sets: &[&str]) -> Report {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    let inputs = Inputs::load(name, machine, &sets).unwrap_or_else(|e| panic!("{e}"));
    reported(&inputs, &Options::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// NVIDIA's data sheet of A100 (2020): the PCIe board at 250 W delivers 90 % of the SXM board at 400 W, which has the
/// same chip, clock and memory, in "top apps". A training step is one of them, give or take.
#[test]
fn a_capped_step_is_held_to_a_published_one() {
    let rate = |watts| {
        report("gpt2-8", Some("dgx-a100-8"), &[&format!("topology.device.power_cap_W={watts}")]).tokens_per_s
    };
    let kept = rate(250) / rate(400);
    assert!((kept - 0.9).abs() < 0.04, "{kept}");
}

/// Under a cap products take longer, what memory bounds takes as long, a mean device draws less, and so does a step.
#[test]
fn a_cap_slows_products_alone() {
    let of = |cap: &[&str]| report("gpt2-8", Some("h100-superpod-8"), cap);
    let (free, capped) = (of(&[]), of(&["topology.device.power_cap_W=400"]));
    let time = |r: &Report, class: &str| {
        let found = r.kernels.iter().find(|k| k.class.name() == class);
        found.unwrap_or_else(|| panic!("no {class}")).time_s
    };
    assert!(time(&capped, "gemm") > 1.1 * time(&free, "gemm"));
    assert_eq!(time(&capped, "norm"), time(&free, "norm"));
    let at_most = of(&["topology.device.power_cap_W=700"]);
    assert_eq!(Report { run: free.run.clone(), ..at_most }, free, "a cap at the board power is none");
    let cost = |r: &Report| r.cost.clone().expect("a cost");
    let watts = |r: &Report| cost(r).watts_per_device.expect("watts");
    assert!(watts(&capped) < 400.0 && watts(&free) > 400.0, "{} {}", watts(&capped), watts(&free));
    assert!(cost(&capped).step_joules < cost(&free).step_joules);
    assert_eq!(cost(&capped).uses[1].watts, cost(&free).uses[1].watts);
}

/// One figure, wherever it stands: report, screen, search, sweep, comparison; a plan tells that of the likely step.
#[test]
fn a_cost_is_the_same_everywhere() {
    let folder = Folder::new();
    let price = "topology.device.price_USD_per_h=2.5";
    let report_of_run = stepsim(&format!("run gpt2-8 --set {price} --report -")).json();
    let told = report_of_run["cost"].clone();
    let [joules, usd] = ["energy_J_per_token", "cost_USD_per_million_tokens"]
        .map(|field| told[field].as_f64().expect("a number"));
    let step = told["step_cost_USD"].as_f64().expect("a number");
    let of_library = report("gpt2-8", None, &[price]).cost.expect("a cost");
    assert_eq!((of_library.joules_per_token, of_library.step_usd), (Some(joules), Some(step)));

    let words = of_library.words();
    assert!(words.contains(&format!("{usd:.3} $ a million tokens")), "{words}");
    for line in ["run gpt2-8", "run gpt2-8 --full"] {
        let text = folder.stepsim(&format!("{line} --set {price}")).ok();
        assert!(text.contains(&words), "{line}: {text}");
    }
    let text = folder.stepsim(&format!("plan gpt2-8 --set {price} --tokens 1T")).ok();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&words), "{words}: {text}");
    assert!(text.contains(&format!(", {:.0} $ (", 1e6 * usd)), "{text}");
    folder.stepsim(&format!("run gpt2-8 --set {price} -q --html step.html")).ok();
    assert!(folder.text("step.html").contains(&words));

    let sweep = "--vary batch.micro_batch=4,8 --columns cost.energy_J_per_token -o rows.jsonl";
    folder.stepsim(&format!("sweep gpt2-8 --set {price} {sweep}")).ok();
    let text = folder.text("rows.jsonl");
    let json = |row: &str| serde_json::from_str::<Value>(row).expect("a row");
    let columns: Vec<f64> = text
        .lines()
        .map(|row| json(row)["columns"]["cost.energy_J_per_token"].as_f64().expect("a column"))
        .collect();
    assert!(columns.contains(&joules), "{columns:?} {joules}");

    let lines = stepsim("diff gpt2-8 gpt2-8 --set-b topology.device.power_cap_W=300 --report -").json();
    let line = |what: &str| {
        let of = |line: &&Value| line["section"] == "cost" && line["what"] == what;
        lines.as_array().expect("lines").iter().find(of).unwrap_or_else(|| panic!("no {what}")).clone()
    };
    assert_eq!(line("energy of a million tokens")["a"].as_f64(), Some(1e6 * joules));
    assert!(line("power of a device")["b"].as_f64() <= Some(300.0));

    let found = folder.stepsim("search gpt2-8 --objective energy -o best.json --report -").json();
    let ranking = found["ranking"].as_array().expect("a ranking");
    let of_rows: Vec<f64> =
        ranking.iter().map(|row| row["energy_J_per_token"].as_f64().expect("joules")).collect();
    assert!(of_rows.is_sorted(), "{of_rows:?}");
    let of_best = folder.stepsim("run best.json --report -").json()["cost"]["energy_J_per_token"].as_f64();
    assert_eq!(of_best, Some(of_rows[0]));
}

/// A device without a stated power has no energy, and without a price no dollars; without both there is no section.
#[test]
fn what_is_not_stated_is_not_told() {
    let none = report("gpt2-8", Some("switch:8,450,1"), &["topology.device.power_W=null"]);
    assert_eq!(none.cost, None);
    let priced = report(
        "gpt2-8",
        Some("switch:8,450,1"),
        &["topology.device.power_W=null", "topology.device.price_USD_per_h=2"],
    );
    let cost = priced.cost.expect("a cost");
    assert!(cost.step_usd.is_some() && cost.step_joules.is_none() && cost.uses.is_empty());
}
