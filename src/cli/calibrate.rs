//! `stepsim calibrate`: how much slower the parts of a step are than simulated, from measured steps.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::outputs::WRITTEN;
use super::progress::TerminalProgress;
use super::write::write_json;
use super::{Failure, say};
use stepsim_bring::describe::RuleBook;
use stepsim_core::units::Time;
use stepsim_measure::score::anchor::BOUND;
use stepsim_measure::score::settled::{NoFactors, settings, settle};
use stepsim_measure::score::{
    Anchor, AnchorRow, Case, PartSeconds, PublishedRow, Reach, Statistics, StepPart, case, outcomes, read,
};
use stepsim_simulate::Inputs;

/// Fit how fast the parts of a step are to measured steps.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Measured steps of one class of device and one stack, given as a workload with its measured time or as rows that
`stepsim score` reads, tell how much slower than simulated four parts of a step are: matrix products, memory-bound
kernels, the host, and exchanges that ranks wait for. A factor is about 1 before anything is measured, so a step moves
mostly its largest part. A time that no likely factors give is refused, with the settings that would explain it.
`run --prices FILE` takes the output of -o, and so does every command as `--set prices=FILE`. For several nodes, measure
their collectives too: `stepsim import nccl-tests`, then `--set topology.collectives=FILE`.

Examples:
  stepsim calibrate llama3-70b --measured 7.2s -o mine.json && stepsim run llama3-70b -t 512xh100 --prices mine.json
  stepsim calibrate --rows mine.jsonl --device H100 --stack megatron-te-2024 -o mine.json")]
pub struct Args {
    /// A workload whose step was measured: name or path
    #[arg(required_unless_present = "rows", requires = "measured")]
    workload: Option<String>,
    /// Machine of the workload [default: the one that it names]
    #[arg(short, long, conflicts_with = "rows")]
    topology: Option<String>,
    /// Its measured time: `3.2s`, `640ms`, or a number of seconds; repeatable
    #[arg(long, alias = "measured-s", value_name = "TIME", conflicts_with = "rows", value_parser = seconds)]
    measured: Vec<f64>,
    /// Rows of measured steps: a file of JSON lines, or a folder
    #[arg(long, value_name = "PATH")]
    rows: Option<PathBuf>,
    /// With --rows: rules of your own; repeatable
    #[arg(long, value_name = "FILE", requires = "rows")]
    rules: Vec<String>,
    /// With --rows: only this class of device
    #[arg(long, value_name = "CLASS", requires = "rows")]
    device: Option<String>,
    /// With --rows: only this software stack
    #[arg(long, value_name = "NAME", requires = "rows")]
    stack: Option<String>,
    /// With --rows: only every n-th row
    #[arg(long, default_value_t = 1, value_name = "N", requires = "rows",
        value_parser = crate::asked::whole::<u32>(1..=u32::MAX.into()))]
    every: u32,
    /// With --rows: only this source; repeatable
    #[arg(long, value_name = "NAME", requires = "rows")]
    source: Vec<String>,
    /// Change a field of the workload, or behind `topology.` of the machine; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// Write what was found and what it was fitted on here, as JSON for --prices
    #[arg(short, long, value_name = "FILE", help_heading = WRITTEN)]
    output: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("s", 1.0), ("", 1.0)];
    let found = units.iter().find_map(|(unit, s)| Some((text.strip_suffix(unit)?.trim(), s)));
    let value = found.and_then(|(number, s)| Some(number.parse::<f64>().ok()? * s));
    value.filter(|s| s.is_finite() && *s > 0.0).ok_or_else(|| "a time above 0, like 3.2s or 640ms".into())
}

/// Runs the command.
///
/// # Errors
/// Wrong input, or nothing to fit to (status 2); a file that cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.rows {
        None => to_one(args, args.workload.as_deref().unwrap_or(super::command_line::EXAMPLE)),
        Some(path) => to_parts(args, path),
    }
}

/// Fits the parts of a step to its measured times.
fn to_one(args: &Args, name: &str) -> Result<(), Failure> {
    to_times(name, args.topology.as_deref(), &args.sets, &args.measured, args.output.as_deref())
}

/// Fits the parts of a step to times that were measured of it, and writes the prices.
pub(super) fn to_times(
    name: &str,
    topology: Option<&str>,
    sets: &[String],
    measured: &[f64],
    output: Option<&Path>,
) -> Result<(), Failure> {
    let load = |more: &[String]| Inputs::load(name, topology, &[sets, more].concat());
    let found = settle(&load, measured).map_err(|e| unsettled(e, name, measured))?;
    let inputs = load(&[])?;
    if let Some(path) = output {
        let on = json!({"workload": name, "machine": inputs.topology.name, "measured_s": measured});
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
         over: {}",
        time(found.settled_s),
        carries()
    );
    say(&text)
}

/// Seconds with the unit that suits them.
fn time(seconds: f64) -> Time {
    Time::from_s(seconds)
}

/// How far off anchored predictions were.
fn carries() -> &'static str {
    "`stepsim score --anchor`"
}

fn unsettled(why: NoFactors, name: &str, measured: &[f64]) -> Failure {
    let found = match why {
        NoFactors::Spec(e) => return e.into(),
        NoFactors::Run(e) => return e.into(),
        NoFactors::Implausible(found) => found,
    };
    let [least, most] = found.plausible.map(time);
    let mut text = format!(
        "{name}: {} measured, {} simulated: no likely prices give that\n  allowed: {least} to {most} for this \
         workload on this machine\n",
        measured.iter().map(|s| time(*s).to_string()).collect::<Vec<_>>().join(", "),
        time(found.simulated_s)
    );
    let shown = found.suspects.iter().take(5).map(|(set, s)| format!("--set {set} ({})", time(*s)));
    text += &match found.suspects.is_empty() {
        false => format!(
            "  hint: more likely the description is wrong; these settings would explain the time: {}",
            shown.collect::<Vec<_>>().join(", ")
        ),
        true => {
            "  hint: no other stack, recomputation or batch explains it either: check the unit, the timed work \
             and the machine"
                .to_string()
        }
    };
    Failure::input(text)
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

/// Fits the parts of steps to rows.
fn to_parts(args: &Args, path: &Path) -> Result<(), Failure> {
    let (picked, book) = picked(args, path)?;
    let rows: Vec<PublishedRow> = picked.iter().map(|(row, _)| row.clone()).collect();
    let bar = TerminalProgress::of("rows", rows.len() as u64);
    let done = outcomes(&rows, &book, &args.sets, &|n| bar.at(n));
    bar.done();
    let (groups, by) = groups(&rows);
    let known: Vec<(AnchorRow, &String)> = done
        .iter()
        .zip(&groups)
        .filter(|(outcome, _)| outcome.error().is_some())
        .filter_map(|(o, group)| {
            Some((AnchorRow { parts: o.parts?, measured_s: o.case.as_ref()?.measured_s }, group))
        })
        .collect();
    let fit = |wanted: &dyn Fn(&String) -> bool| {
        let given: Vec<AnchorRow> = known.iter().filter(|(_, g)| wanted(g)).map(|(row, _)| *row).collect();
        Anchor::fit(&given, Reach::Twice.own())
    };
    let error = |anchor: &Anchor, wanted: &dyn Fn(&String) -> bool| {
        let off: Vec<f64> = known
            .iter()
            .filter(|(_, g)| wanted(g))
            .map(|(row, _)| anchor.seconds(&row.parts) / row.measured_s - 1.0)
            .collect();
        Statistics::of(off.len(), &off).mean_abs_error.unwrap_or(f64::NAN)
    };
    if known.is_empty() {
        return Err(Failure::input("--rows: no selected row fits in the memory of its device"));
    }
    let anchor = fit(&|_| true);
    if anchor.z.abs() > Anchor::IMPLAUSIBLE {
        return Err(Failure::input(format!(
            "--rows: the rows are {:.1} standard deviations off what the stack {} on {} plausibly \
             takes\n  hint: more likely the stack, the precision or the recomputation of the rows is another: \
             `stepsim score --map-only --rows out.jsonl` says what each was run as",
            anchor.z, picked[0].1.stack, picked[0].1.class
        )));
    }
    let nothing = Anchor { factors: [1.0; 4], z: 0.0 };
    let names: BTreeSet<&String> = groups.iter().collect();
    let left_out: BTreeMap<&String, [f64; 2]> = names
        .iter()
        .filter(|name| names.len() > 1 && known.iter().any(|(_, g)| *g == **name))
        .map(|name| {
            let others = fit(&|g| g != *name);
            (*name, [error(&nothing, &|g| g == *name), error(&others, &|g| g == *name)])
        })
        .collect();
    let inputs = picked[0].1.inputs(&rows[0].id, None, true, &args.sets).map_err(Failure::input)?;
    let on = json!({"device": picked[0].1.class, "stack": picked[0].1.stack, "rows": known.len(), "left_out_by": by});
    let [before, after] = [&nothing, &anchor].map(|a| error(a, &|_| true));
    if let Some(path) = &args.output {
        let file = json!({"set": settings(anchor.factors, &inputs), "factors": factors(&anchor), "fitted_on": on,
            "mean_abs_error": {"before": before, "in_sample": after}, "left_out": left_out});
        write_json(path, &file)?;
    }
    let sum = |i: usize| known.iter().map(|(row, _)| row.parts[i]).sum::<f64>() / known.len() as f64;
    let mut text = format!("fitted on {on}; the mean step:\n");
    text += &table(&anchor, &std::array::from_fn(sum));
    let _ = writeln!(
        text,
        "mean absolute error {:.1} % before, {:.1} % on the fitted rows",
        100.0 * before,
        100.0 * after
    );
    for (name, [before, after]) in &left_out {
        let (before, after) = (100.0 * before, 100.0 * after);
        let _ = writeln!(text, "  fitted without {name}: {after:.1} % on it, {before:.1} % before");
    }
    if left_out.is_empty() {
        let _ = writeln!(
            text,
            "a single group of rows leaves nothing out; {} tells how far the factors carry over",
            carries()
        );
    }
    say(&text)
}

fn rounded(value: f64) -> Value {
    json!((value * 1e4).round() / 1e4)
}

/// Rows of one class of device and one stack, with what they are run as.
fn picked(args: &Args, path: &Path) -> Result<(Vec<(PublishedRow, Case)>, RuleBook), Failure> {
    let book = RuleBook::load(&args.rules).map_err(Failure::input)?;
    let rows = read(path).map_err(Failure::input)?;
    let mut kinds = BTreeSet::new();
    let mut picked: Vec<(PublishedRow, Case)> = Vec::new();
    for row in rows {
        let Ok(case) = case(&row, &book) else { continue };
        kinds.insert(format!("{} {}", case.class, case.stack));
        let wanted = |given: &Option<String>, is: &str| given.as_ref().is_none_or(|g| g == is);
        let named = args.source.is_empty() || args.source.iter().any(|s| s == row.text("source"));
        if named && wanted(&args.device, &case.class) && wanted(&args.stack, &case.stack) && !case.layer {
            picked.push((row, case));
        }
    }
    let picked: Vec<_> = picked.into_iter().step_by(args.every as usize).collect();
    let of: BTreeSet<_> = picked.iter().map(|(_, c)| (&c.class, &c.stack)).collect();
    if of.len() != 1 {
        return Err(Failure::input(format!(
            "{}: {} kinds of rows are left after --device and --stack, one is needed\n  allowed: {}",
            path.display(),
            of.len(),
            kinds.into_iter().collect::<Vec<_>>().join(", ")
        )));
    }
    Ok((picked, book))
}

/// The group that each row is left out with, and its kind: by source, or within one by model.
fn groups(rows: &[PublishedRow]) -> (Vec<String>, &'static str) {
    let column = |name: &str| rows.iter().map(|row| row.text(name).to_string()).collect::<Vec<String>>();
    let sources = column("source");
    match sources.iter().all(|s| *s == sources[0]) {
        true => (column("model"), "model"),
        false => (sources, "source"),
    }
}
