//! Prices from the time of a step alone.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::super::write::write_json;
use super::super::{Failure, say};
use stepsim_core::units::Time;
use stepsim_measure::score::anchor::BOUND;
use stepsim_measure::score::settled::{NoFactors, settle};
use stepsim_measure::score::{Anchor, PartSeconds, StepPart};
use stepsim_simulate::{Inputs, layer_of};

/// Fits the parts of a step to times that were measured of it, and writes the prices.
pub(super) fn to_times(
    name: &str,
    topology: Option<&str>,
    sets: &[String],
    measured: &[f64],
    output: Option<&Path>,
) -> Result<(), Failure> {
    let load = |more: &[String]| Inputs::load(name, topology, &[sets, more].concat());
    let found = settle(&load, measured).map_err(|e| {
        let on = topology.map(|on| format!(" --on {on}"));
        let given: String = on.into_iter().chain(sets.iter().map(|set| format!(" --set {set}"))).collect();
        unsettled(e, &format!("{name}{given}"), measured)
    })?;
    let inputs = load(&[])?;
    if let Some(path) = output {
        let on = json!({"workload": name, "machine": inputs.topology.name, "measured_s": measured,
            "model": layer_of(&inputs.model)});
        let set: Vec<&String> =
            sets.iter().filter(|s| s.starts_with("topology.collectives")).chain(&found.sets).collect();
        let file = json!({"set": set, "factors": factors(&found.anchor), "fitted_on": on,
            "simulated_s": found.simulated_s, "with_prices_s": found.settled_s});
        write_json(path, &file)?;
    }
    let list: Vec<String> = measured.iter().map(|s| time(*s).to_string()).collect();
    let mut text = format!(
        "{name} on {}: measured {}, simulated {}\n",
        inputs.topology.name,
        list.join(", "),
        time(found.simulated_s)
    );
    text += &table(&found.anchor, &found.parts);
    let mean = measured.iter().sum::<f64>() / measured.len() as f64;
    let off = 100.0 * (found.settled_s / mean - 1.0);
    let _ = writeln!(
        text,
        "with these factors {}, {off:+.1} % off the measured time; one run does not tell how far that carries \
         over: `stepsim score --anchor`",
        time(found.settled_s)
    );
    say(&text)
}

/// Seconds with the unit that suits them.
fn time(seconds: f64) -> Time {
    Time::from_s(seconds)
}

/// The refusal where the described `run` cannot have taken the `measured` seconds.
fn unsettled(why: NoFactors, run: &str, measured: &[f64]) -> Failure {
    let (simulated_s, plausible) = match why {
        NoFactors::Spec(e) => return e.into(),
        NoFactors::Run(e) => return e.into(),
        NoFactors::Implausible { simulated_s, plausible } => (simulated_s, plausible),
    };
    let [least, most] = plausible.map(time);
    let list: Vec<String> = measured.iter().map(|s| time(*s).to_string()).collect();
    Failure::input(format!(
        "{} measured, {} simulated: no likely prices give that\n  allowed: {least} to {most} for this \
         workload on this machine\n  hint: more likely the description is wrong: stepsim normal {run} --measured \
         {}s plays what would explain it",
        list.join(", "),
        time(simulated_s),
        measured[0],
    ))
}

fn factors(anchor: &Anchor) -> Map<String, Value> {
    StepPart::ALL.iter().zip(anchor.factors).map(|(part, f)| (part.name().to_string(), rounded(f))).collect()
}

/// The effect of each factor on a step of such parts.
fn table(anchor: &Anchor, parts: &PartSeconds) -> String {
    let mut text = String::from("| part | simulated | times | adds |\n|--|--|--|--|\n");
    for (i, part) in StepPart::ALL.iter().enumerate() {
        let (s, f) = (parts[i], anchor.factors[i]);
        let bound = if (f / BOUND).max(1.0 / f / BOUND) > 0.999 { " (at its bound)" } else { "" };
        let (sign, added) = (if f < 1.0 { "-" } else { "+" }, time((s * (f - 1.0)).abs()));
        let _ = writeln!(text, "| {} | {} | {f:.3}{bound} | {sign}{added} |", part.name(), time(s));
    }
    text
}

fn rounded(value: f64) -> Value {
    json!((value * 1e4).round() / 1e4)
}
