//! `stepsim score`: published step times against simulated ones.

use std::path::PathBuf;
use std::sync::Arc;

use super::outputs::WRITTEN;
use super::progress::TerminalProgress;
use super::write::{write_file, write_report};
use super::{Failure, say};
use stepsim_bring::describe::RuleBook;
use stepsim_measure::score::ranges::MeasuredSteps;
use stepsim_measure::score::{
    AnchoredErrors, PublishedRow, RowOutcome, ScoreReport, StepPair, mapped, outcomes, pairs, ratios, read,
    row_line, text,
};

/// Simulate measured steps, and tell how far off the simulation is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Rows are JSON lines, one measured step each. Columns that matter: id, kind (`step` or `layer`), source, software,
device, n_devices, devices_per_node, inter_node, model or model_ref (looked up in the models.jsonl beside the rows), or
layers, hidden, ffn, heads, kv_heads, vocab; seq, gbs_seqs, mbs_seqs; tp, pp, vp, dp, cp, ep; sharding, recompute,
precision; and the measurement: step_time_s, or tokens_per_s, tokens_per_s_per_device, samples_per_s, tflops_per_device,
mfu. All may be null: rules say what is taken instead, and every row of the report lists what was assumed, and the
columns that nothing was made of (`not_understood`: names or words that no rule knows).

Rules are files like workloads/rules/*.json (`stepsim list rules`, `stepsim schema rules`).

Examples:
  stepsim score measured/ --report score.json
  stepsim score measured/ examples/public-runs.jsonl --measured-steps measured-steps.json
  stepsim score mine.jsonl --rules mine.json --rows rows.jsonl
  stepsim score cards.jsonl --recipes Megatron-Bridge        # rows that name a recipe and a measured step
  stepsim score mine.jsonl --map-only --rows rows.jsonl       # what each row would be run as
  stepsim score measured/ --unknown-sources                   # as if no source had rules of its own
  stepsim score measured/ --source zero-bubble --ratios
  stepsim score measured/ --unknown-sources --anchor          # steps predicted from smaller ones that were measured")]
pub struct Args {
    /// Files of JSON lines, or folders with such files
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Rules of your own beside the shipped ones; a file with the name of a shipped one replaces it; repeatable
    #[arg(long, value_name = "FILE")]
    rules: Vec<String>,
    /// Write the score as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    report: Option<PathBuf>,
    /// Write every row as a line of JSON here, with the workload and machine that were simulated
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    rows: Option<PathBuf>,
    /// Write measured over simulated seconds of each step here, with its classes: what ranges are made of
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    measured_steps: Option<PathBuf>,
    /// Only rows of this source; repeatable
    #[arg(long, value_name = "NAME")]
    source: Vec<String>,
    /// Only the row with this id, or whose id ends so
    #[arg(long, value_name = "ID")]
    row: Option<String>,
    /// Only every n-th row
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = crate::asked::whole::<u32>(1..=u32::MAX.into()))]
    every: u32,
    /// Change a field of every workload, or of every machine: `topology.device.cost.matrix_fraction=0.7`; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// Map every row as one of a source that has no rules of its own, by software, device and columns alone
    #[arg(long)]
    unknown_sources: bool,
    /// The repository whose recipes rows name (verification cards of Megatron-Bridge: `recipe`, `devices`, `device`,
    /// `overrides`, `measured_step_s`)
    #[arg(long, value_name = "FOLDER")]
    recipes: Option<PathBuf>,
    /// Map the rows and simulate none: what each would be run as, what was assumed, what was not understood
    #[arg(long)]
    map_only: bool,
    /// Print each row
    #[arg(short, long)]
    verbose: bool,
    /// Print how pipeline schedules compare within blocks of rows that differ in nothing else, and all pairs of rows
    /// of a source and model that differ in one thing: sign and size of the change
    #[arg(long)]
    ratios: bool,
    /// Give the rows of each model on the fewest devices of a source, software and device, and predict the others
    /// from them
    #[arg(long, conflicts_with = "map_only")]
    anchor: bool,
}

/// Runs the command.
///
/// # Errors
/// Files that cannot be read, or rules that are wrong (status 2); files that cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut book = RuleBook::load(&args.rules).map_err(Failure::input)?;
    if args.unknown_sources {
        book = book.without_sources();
    }
    let mut rows = Vec::new();
    for path in &args.paths {
        rows.extend(read(path).map_err(Failure::input)?);
    }
    let mut rows = picked(args, rows)?;
    let recipes = args.recipes.clone().map(Arc::new);
    rows.iter_mut().for_each(|row| row.recipes.clone_from(&recipes));
    let bar = TerminalProgress::of("rows", rows.len() as u64);
    let done = match args.map_only {
        true => rows.iter().map(|row| mapped(row, &book)).collect(),
        false => outcomes(&rows, &book, &args.sets, &|n| bar.at(n)),
    };
    bar.done();
    let anchored = args.anchor.then(|| AnchoredErrors::of(&done));
    let report = ScoreReport { anchored, ..ScoreReport::of(&done) };
    write_report(args.report.as_deref(), &report)?;
    if let Some(path) = &args.measured_steps {
        let today = chrono::Local::now().format("%Y-%m-%d").to_string();
        write_file(path, MeasuredSteps::of(&done, &today).text().as_bytes())?;
    }
    if let Some(path) = &args.rows {
        let lines: String = report.rows.iter().map(|row| row.line() + "\n").collect();
        write_file(path, lines.as_bytes())?;
    }
    let mut out: String = if args.verbose { done.iter().map(row_line).collect() } else { String::new() };
    out += &text(&report);
    if args.ratios {
        out += &ratios(&schedules(&rows, &done));
        out += &pairs(&StepPair::of(&rows, &done));
    }
    if let Some(anchored) = &report.anchored {
        out += &format!("\n{}", anchored.text());
    }
    say(&out)
}

fn picked(args: &Args, rows: Vec<PublishedRow>) -> Result<Vec<PublishedRow>, Failure> {
    let wanted = |row: &PublishedRow| {
        (args.source.is_empty() || args.source.iter().any(|s| s == row.text("source")))
            && args.row.as_ref().is_none_or(|id| row.id.ends_with(id.as_str()))
    };
    let mut sources: Vec<String> = rows.iter().map(|r| r.text("source").to_string()).collect();
    let rows: Vec<PublishedRow> = rows.into_iter().filter(wanted).step_by(args.every as usize).collect();
    if rows.is_empty() {
        sources.sort();
        sources.dedup();
        return Err(Failure::input(format!(
            "{}: no row is left after --source and --row\n  allowed: {}",
            args.paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", "),
            sources.join(", ")
        )));
    }
    Ok(rows)
}

/// Block, schedule, measured and predicted seconds of rows that name a schedule.
fn schedules(rows: &[PublishedRow], done: &[RowOutcome]) -> Vec<(String, String, f64, f64)> {
    let entry = |(row, outcome): (&PublishedRow, &RowOutcome)| {
        let schedule = row.text("pp_schedule");
        let number =
            |column: &str| row.columns.as_ref().ok().and_then(|c| c.get(column)?.as_u64()).unwrap_or(0);
        let block = format!(
            "{} on {}, {} sequences ({})",
            row.text("model"),
            number("n_devices"),
            number("gbs_seqs"),
            row.text("source_ref").rsplit(' ').next().unwrap_or_default(),
        );
        let measured = outcome.case.as_ref()?.measured_s;
        (!schedule.is_empty()).then_some((block, schedule.to_string(), measured, outcome.predicted_s?))
    };
    rows.iter().zip(done).filter_map(entry).collect()
}
