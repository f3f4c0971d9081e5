//! `stepsim gate`: a configuration against an agreed step, for pull requests.

use std::path::{Path, PathBuf};

use super::analyze::files;
use super::inputs;
use super::normal::read_log;
use super::outputs::WRITTEN;
use super::progress::TerminalProgress;
use super::write::{write_file, write_json};
use super::{Failure, say};
use stepsim_bring::training_log::Log;
use stepsim_measure::profile::ClassTables;
use stepsim_study::JudgedRun;
use stepsim_study::gate::{Baseline, GateLimits, gate, gate_logs};
use stepsim_study::plan::{Request, RunPlan};

/// Hold a changed training configuration against an agreed step: how much longer, how much more memory, and why.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The baseline is a file beside the training code: `--write` makes it, and makes it anew. On a change the files that it
names are read again (or others, on its machine), their step is played, and each changed part alone; the baseline's own
workload is played too, so that a changed stepsim is told from a changed configuration. The report is Markdown. Exit
status: 0 within the limits, 4 beyond them, 2 wrong input, 3 the step does not fit in memory.
Two logs, or two profiles of three marked steps or more, are held against each other by the medians of their steady
steps and the noise of both.

Examples:
  stepsim gate --write gate.json pretrain.sh --on 64xh100     agree on the step
  stepsim gate gate.json                                      in CI, on every change
  stepsim gate gate.json --step 3% --memory 5% --markdown comment.md
  stepsim gate before.log after.log --step 3%")]
pub struct Args {
    /// The baseline, and where they are others than its own, files and shipped names that describe the run; or two
    /// logs or profiles. With --write, what describes the run, as `stepsim plan` takes it
    #[arg(required = true, value_name = "FILE")]
    words: Vec<String>,
    /// With --write: the machine, as `stepsim plan` takes it [default: the one of a workload]
    #[arg(long, short = 't', visible_alias = "topology", value_name = "MACHINE", requires = "write")]
    on: Option<String>,
    /// With --write: sequences of a step [default: what the files say]
    #[arg(long, value_name = "N", requires = "write", value_parser = crate::asked::whole::<u64>(1..=1 << 32))]
    batch: Option<u64>,
    /// With --write: a field of the workload, or behind `topology.` of the machine; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE", requires = "write")]
    sets: Vec<String>,
    /// The step may be longer by this
    #[arg(long, value_name = "PERCENT", default_value = "3%", value_parser = percent)]
    step: f64,
    /// Memory may grow by this
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent)]
    memory: f64,
    /// Agree on the step of the files, and write the baseline here
    #[arg(long, value_name = "BASELINE", conflicts_with_all = ["json", "markdown"], help_heading = WRITTEN)]
    write: Option<PathBuf>,
    /// Write the report in Markdown here, beside standard output
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    markdown: Option<PathBuf>,
    /// Print the report as JSON (`stepsim schema verdict`)
    #[arg(long, help_heading = WRITTEN)]
    json: bool,
}

/// A part in percent: `3%`, `0.5 %`.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>().ok();
    let number = number.filter(|n| (0.0..=1000.0).contains(n));
    number.map(|n| n / 100.0).ok_or_else(|| "a percentage: 3%, 0.5%".into())
}

/// Runs the command.
///
/// # Errors
/// Wrong files (status 2), a step that does not fit (status 3), or one beyond the limits (status 4).
pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(path) = &args.write {
        return write(args, path);
    }
    let (first, more) = (Path::new(&args.words[0]), &args.words[1..]);
    if let Some(before) = measured(first)? {
        return two_steps(args, &before, more);
    }
    let baseline = baseline(first)?;
    let mut request = baseline.request();
    if !more.is_empty() {
        request.words = more.to_vec();
    }
    let plan = planned(&request)?;
    let report = gate(&baseline, &plan, GateLimits { step: args.step, memory: args.memory })?;
    let renew = baseline.command(&args.words[0]);
    let (markdown, passes) = (report.markdown(&renew), report.passes);
    told(args, &JudgedRun::Change(Box::new(report)), &markdown, passes)
}

/// Holds a measured step against another.
fn two_steps(args: &Args, before: &Log, more: &[String]) -> Result<(), Failure> {
    let [after] = more else {
        let hint = "stepsim gate before.log after.log";
        return Err(Failure::input(format!("one log or profile alone\n  hint: {hint}")));
    };
    let after = measured(Path::new(after))?.ok_or_else(|| {
        Failure::input(format!("{after}: is no log and no profile with steps, and the first is one"))
    })?;
    let report = gate_logs(before, &after, args.step).ok_or_else(|| {
        let what = "the two cannot be compared: three steps of each or more, in units that tell the same";
        Failure::input(what)
    })?;
    let (markdown, passes) = (report.markdown(), report.passes);
    told(args, &JudgedRun::TwoSteps(report), &markdown, passes)
}

/// The steps of a log or of a profile, of a folder of profiles its first; `None` where a file is neither.
fn measured(path: &Path) -> Result<Option<Log>, Failure> {
    let files = files(&[path.to_owned()])?;
    let path = files.first().map_or(path, PathBuf::as_path);
    let name = path.to_string_lossy();
    if name.ends_with(".json") || name.ends_with(".json.gz") {
        let profiles = stepsim_measure::profile::read(path, &ClassTables::shipped()).unwrap_or_default();
        let steps =
            profiles.first().map(|rank| rank.steps.iter().map(|step| (step.end - step.start) as f64 / 1e9));
        let log = steps.and_then(|steps| Log::of_times("profile", &steps.collect::<Vec<_>>()));
        if log.is_some() {
            return Ok(log);
        }
    }
    read_log(path)
}

fn baseline(path: &Path) -> Result<Baseline, Failure> {
    Ok(inputs::document(path, "a baseline, as `stepsim gate --write FILE` makes it")?)
}

fn planned(request: &Request) -> Result<RunPlan, Failure> {
    let mut plan = request.read()?;
    let laid_out = TerminalProgress::over("layouts", |tell| plan.laid_out(tell));
    laid_out.map_err(|e| Failure::from(stepsim_simulate::Fault::from(&e)))?;
    Ok(plan)
}

/// Writes the baseline of the words.
fn write(args: &Args, path: &Path) -> Result<(), Failure> {
    let request = Request {
        words: args.words.clone(),
        on: args.on.clone(),
        batch: args.batch,
        sets: args.sets.clone(),
        ..Request::default()
    };
    let made = Baseline::of(&request, &planned(&request)?)?;
    write_json(path, &made)?;
    let gib = made.predicted.memory_bytes as f64 / (1u64 << 30) as f64;
    say(&format!("wrote {}: {:.4} s a step, {gib:.2} GiB\n", path.display(), made.predicted.step_s))
}

/// Prints a report, and closes the gate where it does not pass.
fn told(args: &Args, report: &JudgedRun, markdown: &str, passes: bool) -> Result<(), Failure> {
    if let Some(path) = &args.markdown {
        write_file(path, markdown.as_bytes())?;
    }
    match args.json {
        true => write_json(Path::new("-"), report)?,
        false => say(markdown)?,
    }
    if passes { Ok(()) } else { Err(Failure::gate("beyond the limits of the gate")) }
}
