//! `stepsim calibrate`: the few constants of a device and a stack, fitted to measured steps.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::outputs::WRITTEN;
use super::progress::Bar;
use super::write::write_json;
use super::{Failure, say};
use crate::lab::describe::RuleBook;
use crate::lab::score::{
    Calibration, Constant, Response, Row, calibrate, constants, mean_abs_error, outcomes, read,
};
use crate::lab::simulate::jump::figures;
use crate::lab::simulate::{Inputs, Options};

/// Fit the constants of a device and a stack to measured steps.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Either rows as `stepsim score` reads them, of one class of device (and one stack, where a constant is a stack's), or a
workload with its measured time. Rows are played once for each constant and their response is taken to first order. The
error is always told twice: of the rows that were fitted, and of each source when it is left out of the fit.

Examples:
  stepsim calibrate --rows measured/ --device H100 --constant sustained --constant sustained-memory -o h100.json
  stepsim calibrate --rows measured/ --device H100 --stack fsdp1-eager --constant launch
  stepsim calibrate llama3-70b --measured-s 42 --constant matrix")]
pub struct Args {
    /// A workload whose step was measured: name or path
    #[arg(required_unless_present = "rows", requires = "measured_s")]
    workload: Option<String>,
    /// Machine of the workload [default: the one that it names]
    #[arg(short, long, conflicts_with = "rows")]
    topology: Option<String>,
    /// Its measured seconds
    #[arg(long, value_name = "S", conflicts_with = "rows", value_parser = positive)]
    measured_s: Option<f64>,
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
    #[arg(long, default_value_t = 1, value_name = "N", requires = "rows", value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    /// With --rows: only this source; repeatable
    #[arg(long, value_name = "NAME", requires = "rows")]
    source: Vec<String>,
    /// What to fit: matrix, memory, sustained, sustained-memory, host, launch; repeatable [default: matrix, memory]
    #[arg(long = "constant", value_name = "NAME")]
    constants: Vec<String>,
    /// Change a field of the workload, or behind `topology.` of the machine; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// Write the constants and what they were fitted on here, as JSON
    #[arg(short, long, value_name = "FILE", help_heading = WRITTEN)]
    output: Option<PathBuf>,
}

fn positive(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|s: &f64| s.is_finite() && *s > 0.0)
        .ok_or_else(|| "a number of seconds above 0".into())
}

/// Runs the command.
///
/// # Errors
/// Wrong input, or nothing to fit to (status 2); a file that cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let chosen = chosen(args)?;
    let (fit, on) = match (&args.rows, &args.workload) {
        (Some(_), _) => to_rows(args, &chosen)?,
        (None, name) => to_one(args, name.as_deref().unwrap_or(super::command_line::EXAMPLE), &chosen)?,
    };
    if let Some(path) = &args.output {
        let values: Map<String, Value> =
            fit.constants.iter().map(|(p, v)| (p.clone(), rounded(*v))).collect();
        let settings: Vec<String> =
            chosen.iter().zip(&fit.constants).map(|(c, (_, v))| c.setting(*v)).collect();
        write_json(
            path,
            &json!({
                "constants": values,
                "set": settings,
                "fitted_on": on,
                "mean_abs_error": {"before": fit.before, "in_sample": fit.in_sample, "left_out": fit.leave_one_out},
                "left_out": fit.left_out.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            }),
        )?;
    }
    say(&summary(&chosen, &fit, &on))
}

fn rounded(value: f64) -> Value {
    json!((value * 1e4).round() / 1e4)
}

/// The constants that are to be fitted.
fn chosen(args: &Args) -> Result<Vec<Constant>, Failure> {
    let all = constants();
    let names: Vec<&str> = match args.constants.is_empty() {
        // One measurement says one thing.
        true if args.rows.is_none() => vec!["matrix"],
        true => vec!["matrix", "memory"],
        false => args.constants.iter().map(String::as_str).collect(),
    };
    if args.rows.is_none() && names.len() > 1 {
        return Err(Failure::input(
            "--constant: one measured step fits one constant\n  hint: give one, or rows of several steps with --rows",
        ));
    }
    let known: Vec<String> = all.iter().map(|c| format!("{} ({})", c.name, c.about)).collect();
    let find = |name: &&str| {
        all.iter().find(|c| c.name == **name).cloned().ok_or_else(|| {
            Failure::input(format!("--constant {name}: no such constant\n  allowed: {}", known.join("; ")))
        })
    };
    names.iter().map(find).collect()
}

/// Fits to rows.
fn to_rows(args: &Args, chosen: &[Constant]) -> Result<(Calibration, Value), Failure> {
    let path = args.rows.as_deref().ok_or_else(|| Failure::input("--rows is missing"))?;
    let book = RuleBook::load(&args.rules).map_err(Failure::input)?;
    let rows = read(path).map_err(Failure::input)?;
    let mut kinds = std::collections::BTreeSet::new();
    let mut picked: Vec<(Row, crate::lab::score::Case)> = Vec::new();
    for row in rows {
        let Ok(case) = crate::lab::score::case(&row, &book) else { continue };
        kinds.insert(format!("{} {}", case.class, case.stack));
        let wanted = |given: &Option<String>, is: &str| given.as_ref().is_none_or(|g| g == is);
        let named = args.source.is_empty() || args.source.iter().any(|s| s == row.text("source"));
        if named && wanted(&args.device, &case.class) && wanted(&args.stack, &case.stack) && !case.layer {
            picked.push((row, case));
        }
    }
    let picked: Vec<_> = picked.into_iter().step_by(args.every as usize).collect();
    // A device's constants hold for every stack.
    let by_stack = chosen.iter().any(|c| c.path.starts_with("stack."));
    let of: std::collections::BTreeSet<_> =
        picked.iter().map(|(_, c)| (c.class.clone(), by_stack.then(|| c.stack.clone()))).collect();
    if of.len() != 1 {
        return Err(Failure::input(format!(
            "{}: {} kinds of rows are left after --device and --stack, one is needed\n  allowed: {}",
            path.display(),
            of.len(),
            kinds.into_iter().collect::<Vec<_>>().join(", ")
        )));
    }
    let first = &picked[0];
    let inputs = first.1.inputs(&first.0.id, None, true, &args.sets).map_err(Failure::input)?;
    let start: Vec<f64> = chosen.iter().map(|c| c.value_in(&inputs)).collect();
    let column =
        |name: &str| picked.iter().map(|(row, _)| row.text(name).to_string()).collect::<Vec<String>>();
    let sources = column("source");
    let one_source = sources.iter().all(|s| *s == sources[0]);
    let mut groups = if one_source { column("model") } else { sources.clone() };
    let rows: Vec<Row> = picked.iter().map(|(row, _)| row.clone()).collect();
    let bar = Bar::new("fitting");
    let mut plays = 0;
    let mut play = |values: &[f64]| -> Vec<Option<f64>> {
        plays += 1;
        bar.at(plays);
        let sets: Vec<String> =
            args.sets.iter().cloned().chain(chosen.iter().zip(values).map(|(c, v)| c.setting(*v))).collect();
        outcomes(&rows, &book, &sets, &|_| {}).iter().map(|o| o.error().map(|e| e + 1.0)).collect()
    };
    let mut response = Response::measure(chosen, &start, &mut play);
    response.keep_played(&mut groups);
    let mut fit = calibrate(chosen, &start, &groups, &mut |values| response.at(values));
    let values: Vec<f64> = fit.constants.iter().map(|(_, v)| *v).collect();
    let played: Vec<_> = play(&values).into_iter().filter(Option::is_some).collect();
    fit.in_sample = mean_abs_error(&played).unwrap_or(fit.in_sample);
    bar.done();
    let stacks: std::collections::BTreeSet<&String> = picked.iter().map(|(_, c)| &c.stack).collect();
    let mut distinct = sources;
    distinct.sort();
    distinct.dedup();
    let on = json!({
        "device": first.1.class, "stacks": stacks, "rows": groups.len(), "sources": distinct,
        "left_out_by": if one_source { "model" } else { "source" },
    });
    Ok((fit, on))
}

/// Fits one constant to one measured step.
fn to_one(args: &Args, name: &str, chosen: &[Constant]) -> Result<(Calibration, Value), Failure> {
    let measured = args.measured_s.unwrap_or(1.0);
    let load = |sets: &[String]| Inputs::load(name, args.topology.as_deref(), sets).map_err(Failure::input);
    let inputs = load(&args.sets)?;
    let start: Vec<f64> = chosen.iter().map(|c| c.value_in(&inputs)).collect();
    figures(&inputs, &Options::default(), false).map_err(Failure::run)?;
    let mut play = |values: &[f64]| {
        let sets: Vec<String> =
            args.sets.iter().cloned().chain(chosen.iter().zip(values).map(|(c, v)| c.setting(*v))).collect();
        let step = load(&sets).ok().and_then(|inputs| figures(&inputs, &Options::default(), false).ok());
        vec![step.map(|step| step.step_end.s() / measured)]
    };
    let fit = calibrate(chosen, &start, &[name.to_string()], &mut play);
    Ok((fit, json!({"workload": name, "machine": inputs.topology.name, "measured_s": measured})))
}

fn summary(chosen: &[Constant], fit: &Calibration, on: &Value) -> String {
    let mut text = format!("fitted on {on}\n");
    for (constant, (path, value)) in chosen.iter().zip(&fit.constants) {
        let bound = if *value <= constant.low || *value >= constant.high { " (at its bound)" } else { "" };
        let _ = writeln!(text, "  --set {path}={value:.4}{bound}  {}", constant.about);
    }
    let _ = writeln!(
        text,
        "mean absolute error {:.1} % before, {:.1} % on what it was fitted to",
        100.0 * fit.before,
        100.0 * fit.in_sample
    );
    match fit.leave_one_out {
        Some(error) => {
            let _ = writeln!(text, "{:.1} % where the fit has not seen the rows:", 100.0 * error);
            for (name, error) in &fit.left_out {
                let _ = writeln!(text, "  without {name}: {:.1} % on it", 100.0 * error);
            }
        }
        None => {
            text +=
                "nothing is left out of a single group of rows, so how far this carries over is not known\n"
        }
    }
    text
}
