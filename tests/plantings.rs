//! Causes planted in steps that are else in order: what stands first must name the cause, and its cost must be that of the
//! two runs, with the cause and without. `tests/data/plantings.json` has them.
//!
//! ```text
//! bases       a step by name: a whole workload, or a shipped one with settings
//! cause       what sort of thing was planted
//! sets        the settings that plant it, `without` those of the step that it is held against (none: the base alone)
//! first       how what stands first must begin
//! ```
//! Of two faults at once both are named, with the sum.

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use serde_json::{Value, json};
use stepsim::read::analysis::candidates::Candidate;
use stepsim::read::analysis::report::Report;
use stepsim::simulate::jump::glanced;
use stepsim::simulate::{Inputs, Options};
use stepsim::spec::Disk;
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
    let report = with_candidates(&with, &Options::default(), report, Depth::Answer).expect("runs");
    let cost_s = report.step_time_s - plain_s;
    let right = |c: &Candidate| {
        c.what.starts_with(&planting.first) && (c.cost_s() / cost_s - 1.0).abs() <= CLOSE && cost_s > 0.0
    };
    if report.answer.halves().next().is_some_and(right) {
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
        "{} in {}: `{}` costs {felt:.3}, named {named:?}; {}",
        planting.cause, planting.base, planting.first, report.hangs_on
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

/// Two faults of one base at once: the first half names both, and its step is the run without either.
#[test]
fn of_two_faults_both_are_named_with_their_sum() {
    let Plantings { bases, plantings } = serde_json::from_str(TEXT).expect("plantings");
    let path = |p: &Planting| p.sets[0].split_once('=').map(|(path, _)| path.to_owned());
    let is_fault = |p: &&Planting| {
        let field = path(p).unwrap_or_default();
        let fields = ["noise.stragglers", "noise.slow_links", "topology.other_nodes", "stack.host.slowness"];
        p.sets.len() == 1 && p.without.is_empty() && fields.contains(&field.as_str())
    };
    let faults: Vec<&Planting> = plantings.iter().filter(is_fault).collect();
    let both = |a: usize| (a + 1..faults.len()).map(move |b| (a, b));
    let pairs = (0..faults.len()).flat_map(both).map(|(a, b)| [faults[a], faults[b]]);
    let mut pairs = pairs.filter(|[a, b]| a.base == b.base && path(a) != path(b));
    let pairs: Vec<[&Planting; 2]> = if slow() { pairs.collect() } else { pairs.by_ref().take(4).collect() };
    let mut missed = Vec::new();
    for [a, b] in &pairs {
        let with = loaded(&bases[&a.base], &[a.sets.as_slice(), &b.sets].concat());
        // Software without a host of its own has today's where one is planted.
        let plain = loaded(&bases[&a.base], &[]);
        let hosts = [a, b].into_iter().filter(|p| path(p).as_deref() == Some("stack.host.slowness"));
        let hosts = hosts.filter(|_| plain.workload.value.host().is_none());
        let today: Vec<String> = hosts.map(|_| "stack.host.slowness=1".to_owned()).collect();
        let plain_s = played(&loaded(&bases[&a.base], &today)).step_time_s;
        let report = with_candidates(&with, &Options::default(), played(&with), Depth::Answer).expect("runs");
        let names_both = |c: &Candidate| {
            c.what.contains(&a.first) && c.what.contains(&b.first) && (c.step_s / plain_s - 1.0).abs() < 1e-3
        };
        if !report.answer.halves().next().is_some_and(names_both) {
            missed.push(format!("{} and {} in {}: {}", a.first, b.first, a.base, report.hangs_on));
        }
    }
    println!("{} of {} pairs missed\n{}", missed.len(), pairs.len(), missed.join("\n"));
    assert!(pairs.len() >= 4 && 20 * missed.len() <= pairs.len(), "{}", missed.join("\n"));
}

/// A cause that is planted by chance: a setting in which numbers stand in brackets, and how what stands first begins.
#[derive(Deserialize)]
struct DrawnCause {
    set: String,
    first: String,
    /// It heals by a setting of its own, beside others.
    #[serde(default)]
    is_fault: bool,
    /// The steps that it suits.
    upon: Vec<String>,
}

/// A cause counts where it takes this part of the step, and a choice where it is twice as dear as what stands first
/// without it.
const FELT: f64 = 0.05;

/// Causes and pairs of faults by chance in shipped workloads: what stands first is the planted one, at the cost of the run
/// without it.
#[test]
fn what_is_planted_by_chance_stands_first() {
    let causes: Vec<DrawnCause> =
        serde_json::from_str(include_str!("data/drawn-plantings.json")).expect("causes");
    let mut rng = ChaCha8Rng::seed_from_u64(73);
    let (mut counted, mut missed) = (0, Vec::new());
    while counted < if slow() { 60 } else { 8 } {
        let cause = &causes[rng.random_range(0..causes.len())];
        let name = &cause.upon[rng.random_range(0..cause.upon.len())];
        let mut beside =
            causes.iter().rev().filter(|c| c.is_fault && c.first != cause.first && c.upon.contains(name));
        let other = beside.next().filter(|_| cause.is_fault && rng.random_bool(0.5));
        let plain = loaded(&json!({ "workload": name }), &[]);
        let (devices, nodes) = (plain.machine.devices(), plain.topology.value.nodes.max(1));
        let slow = f64::from(rng.random_range(14..30)) / 10.0;
        let numbers = [
            ("<rank>", f64::from(rng.random_range(0..devices))),
            ("<node>", f64::from(rng.random_range(0..nodes))),
            ("<device>", f64::from(rng.random_range(0..8))),
            ("<slow>", slow),
            ("<slower>", 40.0 * slow),
            ("<sigma>", slow / 5.0),
            ("<GB/s>", 5.0 / slow),
        ];
        let told = |text: &str| {
            numbers.iter().fold(text.to_owned(), |text, (word, n)| text.replace(word, &n.to_string()))
        };
        let planted: Vec<&DrawnCause> = std::iter::once(cause).chain(other).collect();
        let sets: Vec<String> = planted.iter().map(|cause| told(&cause.set)).collect();
        let with = plain.again(&sets).unwrap_or_else(|e| panic!("{name} {sets:?}: {e}"));
        let answered = |inputs| with_candidates(inputs, &Options::default(), played(inputs), Depth::Answer);
        let (report, before) = (answered(&with).expect("runs"), answered(&plain).expect("runs"));
        let cost_s = report.step_time_s - before.step_time_s;
        let beside_s = before.answer.halves().next().map_or(0.0, Candidate::cost_s);
        if cost_s < FELT * report.step_time_s || !cause.is_fault && cost_s < 2.0 * beside_s {
            continue;
        }
        counted += 1;
        let right = |c: &Candidate| {
            let exact = (c.step_s / before.step_time_s - 1.0).abs() < 1e-3;
            exact && planted.iter().all(|cause| c.what.contains(&told(&cause.first)))
        };
        if !report.answer.halves().next().is_some_and(right) {
            missed.push(format!("{name} {sets:?} ({} s without): {}", before.step_time_s, report.hangs_on));
        }
    }
    println!("{} of {counted} missed\n{}", missed.len(), missed.join("\n"));
    assert!(20 * missed.len() <= counted, "{} of {counted}\n{}", missed.len(), missed.join("\n"));
}
