//! Published steps that differ in one thing: what it changes, and by how much, is simulated so too. The steps' own
//! times may be off; their ratio is what is held.

use std::sync::Arc;

use serde_json::{Map, Value};
use stepsim::bring::describe::RuleBook;
use stepsim::measure::score::{PublishedRow, outcomes};

/// A change of less than this is none: published figures are rounded.
const NOTHING: f64 = 0.015;

/// How far off a ratio may be, unless its case says otherwise.
const WITHIN: f64 = 0.10;

fn rows(case: &Value) -> Vec<PublishedRow> {
    let object = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let row = |variant: &Value| {
        let mut columns: Map<String, Value> = object(&case["common"]);
        columns.extend(object(&variant["columns"]));
        let seconds = variant["seconds"].as_f64().expect("seconds");
        match columns["kind"] == "layer" {
            true => columns.insert("combined_ms".into(), (1e3 * seconds).into()),
            false => columns.insert("step_time_s".into(), seconds.into()),
        };
        let id = format!("{}, {}", case["name"], variant["name"]);
        PublishedRow { id, columns: Ok(columns), shapes: Arc::default(), recipes: None }
    };
    case["variants"].as_array().expect("variants").iter().map(row).collect()
}

#[test]
fn one_change_has_the_measured_sign_and_size() {
    let file: Value = serde_json::from_str(include_str!("data/ablations.json")).expect("JSON");
    let cases = file["cases"].as_array().expect("cases");
    let book = RuleBook::load(&[]).expect("the shipped rules");
    let all: Vec<PublishedRow> = cases.iter().flat_map(rows).collect();
    let done = outcomes(&all, &book, &[], &|_| {});
    let mut done = done.iter();
    let mut wrong = Vec::new();
    println!("| | change | measured | simulated |\n|--|--|--|--|");
    for case in cases {
        let times: Vec<(f64, f64)> = rows(case)
            .iter()
            .map(|row| {
                let outcome = done.next().expect("an outcome for each row");
                let measured = outcome.case.as_ref().map(|c| c.measured_s);
                let simulated = outcome.predicted_s;
                measured.zip(simulated).unwrap_or_else(|| panic!("{}: {:?}", row.id, outcome.status))
            })
            .collect();
        let name = case["name"].as_str().expect("a name");
        let within = case["within"].as_f64().unwrap_or(WITHIN);
        for (i, time) in times.iter().enumerate().skip(1) {
            let (measured, simulated) = (time.0 / times[0].0 - 1.0, time.1 / times[0].1 - 1.0);
            let variant = case["variants"][i]["name"].as_str().expect("a name");
            println!("| {name} | {variant} | {:+.1} % | {:+.1} % |", 100.0 * measured, 100.0 * simulated);
            let sign = measured.abs() < NOTHING || measured.signum() == simulated.signum();
            let size = ((1.0 + simulated) / (1.0 + measured) - 1.0).abs() <= within;
            if !sign || !size {
                wrong.push(format!("{name}, {variant}: {measured:+.3} measured, {simulated:+.3} simulated"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
