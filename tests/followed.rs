//! The closed form where nothing is in the way: the steps of `tests/data/followed.json` are the simulation's, to so many
//! per cent of their time and of their memory.

use serde_json::Value;
use stepsim::form::compare::workload::closed_form;
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::spec::Disk;

#[test]
fn the_closed_form_follows() {
    let data: Value = serde_json::from_str(include_str!("data/followed.json")).expect("steps");
    for step in data["steps"].as_array().expect("a list") {
        let (base, what) = (step[0].as_str().expect("a base"), step[1].as_str().expect("settings"));
        let sets: Vec<String> = what.split(' ').map(String::from).collect();
        let base = data["bases"][base].to_string();
        let inputs = Inputs::from_json(&base, None, &sets, &Disk).unwrap_or_else(|e| panic!("{what}: {e}"));
        let form = closed_form(&inputs).unwrap_or_else(|e| panic!("{what}: {e}"));
        let run = Simulation::run(&inputs, &Options::default()).unwrap_or_else(|e| panic!("{what}: {e}"));
        let (report, plan) = (run.report(false), &run.plan);
        let off = 100.0 * (form.terms.total() / report.step_time_s - 1.0);
        let memory = 100.0 * (form.fullest().total() / report.memory["hbm"].peak_bytes as f64 - 1.0);
        println!("{what}: {off:+.2} % of the step, {memory:+.2} % of the memory");
        let most = |of: usize| step[of].as_f64().expect("per cent");
        assert!(off.abs() < most(2) && memory.abs() < most(3), "{what}: {off} % {memory} %");
        assert_eq!(report.impossible(), None, "{what}");
        assert!((form.model_flops / plan.model_flops.model - 1.0).abs() < 1e-12, "{what}");
    }
}
