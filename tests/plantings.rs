//! Causes planted in steps that are else in order: what stands first must name the cause, and its cost must be that of the
//! two runs, with the cause and without. `tests/data/plantings.json` has them.
//!
//! ```text
//! bases       a step by name: a whole workload, or a shipped one with settings
//! cause       what sort of thing was planted
//! sets        the settings that plant it, `without` those of the step that it is held against (none: the base alone)
//! first       how what stands first must begin
//! ```
//! Choices are looked for among all candidates, causes among those that one screen plays.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use stepsim::read::analysis::candidates::Candidate;
use stepsim::read::analysis::report::Report;
use stepsim::simulate::jump::glanced;
use stepsim::simulate::{Inputs, Options};
use stepsim::step::spec::Disk;
use stepsim::study::otherwise::{Depth, with_candidates};

use crate::slow::slow;

const TEXT: &str = include_str!("data/plantings.json");
/// What a planted cause costs and what its candidate says of it may differ by this part of the cost.
const CLOSE: f64 = 0.02;
/// Of so many one is tried where not all are.
const SHARE: usize = 6;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plantings {
    bases: BTreeMap<String, Value>,
    plantings: Vec<Planting>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Planting {
    base: String,
    cause: String,
    first: String,
    sets: Vec<String>,
    #[serde(default)]
    without: Vec<String>,
}

fn loaded(base: &Value, sets: &[String]) -> Inputs {
    let inputs = match base["workload"].as_str() {
        Some(name) => {
            let own =
                base["sets"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
            Inputs::load(name, None, &own.chain(sets.iter().cloned()).collect::<Vec<_>>())
        }
        None => Inputs::from_json(&base.to_string(), None, sets, &Disk),
    };
    inputs.unwrap_or_else(|e| panic!("{sets:?}: {e}"))
}

fn played(inputs: &Inputs) -> Report {
    glanced(inputs, &Options::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// What is wrong with what is said of a planting; nothing where it stands first with its cost.
fn missed(base: &Value, planting: &Planting) -> Option<String> {
    let (with, without) = (loaded(base, &planting.sets), loaded(base, &planting.without));
    let (report, plain_s) = (played(&with), played(&without).step_time_s);
    let depth = if planting.cause == "choice" { Depth::All } else { Depth::Glance };
    let report = with_candidates(&with, &Options::default(), report, depth).expect("runs");
    let cost_s = report.step_time_s - plain_s;
    let first = report.candidates.first();
    let right = |c: &Candidate| {
        c.what.starts_with(&planting.first) && (c.cost_s() / cost_s - 1.0).abs() <= CLOSE && cost_s > 0.0
    };
    if first.is_some_and(right) && report.hangs_on.contains(&planting.first) {
        return None;
    }
    let named = report
        .candidates
        .iter()
        .take(3)
        .map(|c| format!("{} ({:.3})", c.what, c.cost_s() / report.step_time_s));
    let named: Vec<String> = named.collect();
    let felt = cost_s / report.step_time_s;
    Some(format!(
        "{} in {}: `{}` costs {felt:.3}, named {named:?}",
        planting.cause, planting.base, planting.first
    ))
}

#[test]
fn what_was_planted_stands_first_with_its_cost() {
    let Plantings { bases, plantings } = serde_json::from_str(TEXT).expect("plantings");
    let tried = plantings.iter().enumerate().filter(|(i, _)| slow() || i % SHARE == 0);
    let tried: Vec<&Planting> = tried.map(|(_, planting)| planting).collect();
    let missed: Vec<String> =
        tried.iter().filter_map(|planting| missed(&bases[&planting.base], planting)).collect();
    println!("{} of {} missed\n{}", missed.len(), tried.len(), missed.join("\n"));
    assert!(20 * missed.len() <= tried.len(), "{} of {}\n{}", missed.len(), tried.len(), missed.join("\n"));
}
