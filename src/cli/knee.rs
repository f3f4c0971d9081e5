//! `stepsim knee`: how much of one field is enough.

use std::path::PathBuf;

use serde_json::Value;

use super::outputs::WRITTEN;
use super::progress::TerminalProgress;
use super::screen::note_without_effect;
use super::tables::table;
use super::write::{write_page, write_report};
use super::{Failure, command_line, outputs, say};
use stepsim_form::compare::not_claimed;
use stepsim_simulate::RunStatus;
use stepsim_simulate::page::sheet::quoted;
use stepsim_spec::SpecError;
use stepsim_study::{
    Knee, KneeBorder, KneeCondition, KneeField, KneePlay, KneeReport, Plot, Question, StudyAxis, StudyBase,
    knee, page,
};

/// Find how much of one field is enough: a bandwidth, a depth, a number that shares.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Both ends of the field's range are played; where one is enough and the other is not, the middle is played, until the
border is known to --precision: some twelve steps. Words of --until: `step` in seconds, `mfu`, `stall` (the share of the
step for which the mean rank stands still for copies between its device and other tiers), and any path in what
`run --report` writes. 1% is 0.01; 1.02x is 1.02 times the step where nobody waits for a bandwidth, or for another field
the shortest that was played, a best value inside the range looked for (column 1x says where). Several fields with
commas between them take one value together.

Examples:
  stepsim knee 11t-offload --field 'topology.node.memory[0].link.bandwidth_GBps_per_direction' --until 'stall<1%'
  stepsim knee 11t-offload --field 'topology.node.memory[0].link.bandwidth_GBps_per_direction=10:400' \\
    --until 'step<1.02x' --across offload.prefetch.depth=1,2,4 --html knee.html
  stepsim knee gpt2-8 --field gradient_buckets.bucket_bytes=1e5:1e9 --until 'step<1.001x'
  stepsim knee llama3-70b --field topology.node.nics.link.bandwidth_GBps_per_direction --until 'mfu>0.4'")]
pub struct Args {
    /// Workload: a name, or a path that ends in .json
    workload: String,
    /// Machine: a count and a name (`64xh100`), a name, a path, or a simple one like `switch:8,450,1` [default: the
    /// workload's own]
    #[arg(short, long)]
    topology: Option<String>,
    /// The field, and its range where that is not a 64th to 64 times what it says: `path`, `path=10:400`; or its
    /// values: `path=1,2,4`, `path=64:4096:x2`
    #[arg(long, value_name = "PATH[=VALUES]")]
    field: String,
    /// When a value is enough: `stall<1%`, `step<1.02x`, `mfu>0.5`
    #[arg(long, value_name = "CONDITION")]
    until: String,
    /// Values of a second field; each gets its own border: `path=a,b,c`
    #[arg(long, value_name = "PATH=VALUES")]
    across: Option<String>,
    /// Change another field; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// How near the border is found, in percent of the value
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = super::asked::above_zero)]
    precision: f64,
    /// Threads [default: one a processor]
    #[arg(long, value_name = "N", value_parser = crate::asked::whole::<u16>(1..=u16::MAX.into()))]
    threads: Option<u16>,
    /// Write all that was found and played as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    report: Option<PathBuf>,
    /// Write a page here: step and stall by the field, and a table of all that was played, each with its command
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    html: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Wrong input, or no value can be played (status 2); a file that cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let base =
        StudyBase::load(&args.workload, args.topology.as_deref(), &args.sets).map_err(Failure::input)?;
    let written = [("--report", args.report.as_deref()), ("--html", args.html.as_deref())];
    outputs::apart(&written, &base.files())?;
    let across = args.across.as_deref().map(|text| StudyAxis::parse("--across", text)).transpose();
    let question = Question {
        field: KneeField::of(&args.field, &base).map_err(Failure::input)?,
        until: KneeCondition::parse(&args.until).map_err(Failure::input)?,
        across: across.map_err(Failure::input)?,
        precision: args.precision / 100.0,
        threads: args.threads.map(usize::from),
    };
    base.inputs(&[]).iter().for_each(|inputs| note_without_effect(&inputs.without_effect()));
    let found =
        TerminalProgress::over("borders", |tell| knee(&base, &question, tell)).map_err(Failure::input)?;
    write_report(args.report.as_deref(), &found)?;
    write_page(args.html.as_deref(), || html(args, &found))?;
    say(&text(&found))
}

/// A page of all that was played.
///
/// # Errors
/// Nothing has a result.
fn html(args: &Args, report: &KneeReport) -> Result<String, SpecError> {
    let colour = Some(report.across.clone().unwrap_or("enough".to_owned()));
    let plots = ["step_time_s", "stall"].map(|y| Plot {
        x: report.field.clone(),
        y: y.to_owned(),
        colour: colour.clone(),
    });
    let machine = args.topology.iter().map(|t| format!(" -t {}", quoted(t)));
    let sets = args.sets.iter().map(|set| format!(" --set {}", quoted(set)));
    let run: String =
        [format!("stepsim run {}", quoted(&args.workload))].into_iter().chain(machine).chain(sets).collect();
    let title = format!("{}: enough of {} until {}", report.workload, report.field, report.until);
    page(&title, &run, &command_line::command(), &report.rows(), &plots)
}

/// The borders as a table.
fn text(report: &KneeReport) -> String {
    let mut text = format!(
        "{} on {} ({} devices): enough of {} until {}; {} steps played\n\n",
        report.workload, report.topology, report.devices, report.field, report.until, report.simulated,
    );
    let across = report.across.as_deref().unwrap_or_default();
    let mut rows = table(&[across, "enough", "not enough", "step", "stall", "MFU", "1x", "closed form"]);
    for knee in &report.knees {
        rows.add_row(row(knee));
    }
    text += &format!("{rows}\n");
    if let Some(sentence) = not_claimed(&report.not_claimed) {
        text += &format!("\n{sentence}\n");
    }
    let left_out = report.knees.iter().map(|knee| knee.left_out).max().unwrap_or(0);
    if left_out > 0 {
        text += &format!("\n{left_out} values of the range were left out: no step can have them\n");
    }
    let failed = |play: &&KneePlay| play.outcome.status == RunStatus::Invalid;
    if let Some(play) = report.knees.iter().flat_map(|knee| &knee.played).find(failed) {
        let why = play.outcome.message.as_deref().unwrap_or_default();
        text += &format!("\nvalues that cannot be played count as not enough: {}: {why}\n", play.value);
    }
    let changes = |knee: &Knee| {
        let step = |play: &KneePlay| play.outcome.step_time_s;
        knee.played.windows(2).any(|two| step(&two[0]) != step(&two[1]))
    };
    if !report.knees.iter().any(changes) {
        text += "\nno value of the range changes the step: the field has no effect here\n";
    } else if report.knees.iter().any(|knee| knee.value.is_none()) {
        text += "\nno border: all or none of the range is enough, and step, stall and MFU are those of its upper end; \
                 give another with --field PATH=FROM:TO\n";
    }
    text
}

fn row(knee: &Knee) -> [String; 8] {
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let enough = match (knee.border, knee.value) {
        (KneeBorder::AtLeast, Some(value)) => format!("from {value}"),
        (KneeBorder::AtMost, Some(value)) => format!("up to {value}"),
        (KneeBorder::Between, Some(value)) => format!("{value} to {}", number(knee.up_to)),
        (KneeBorder::Everywhere, _) => "all".to_string(),
        _ => "none".to_string(),
    };
    let at = knee.at();
    let percent = |share: Option<f64>| share.map_or(String::new(), |share| format!("{:.2} %", 100.0 * share));
    [
        knee.across.as_ref().map(Value::to_string).unwrap_or_default(),
        enough,
        number(knee.not_enough),
        at.and_then(|at| at.outcome.step_time_s).map_or(String::new(), |s| format!("{s:.4} s")),
        percent(at.and_then(|at| at.stall)),
        percent(at.and_then(|at| at.outcome.mfu)),
        knee.best_at.map_or(format!("{:.4} s", knee.best_s), |at| format!("{:.4} s at {at}", knee.best_s)),
        number(knee.closed_form),
    ]
}
