//! `stepsim analyze`: where the time of a real step went, from its profile.

mod table;

use std::path::{Path, PathBuf};

use super::command_line::command;
use super::outputs::WRITTEN;
use super::write::{write_page, write_report};
use super::{Failure, inputs, say, width};
use stepsim_measure::page;
use stepsim_measure::profile::waterfall::{AtPeak, waterfall};
use stepsim_measure::profile::{ClassTables, ProfileReport, RankEvents, Window, of_one_job, read, report};
use stepsim_measure::why::why;
use stepsim_price::model::flops::StepFlops;
use stepsim_simulate::Inputs;
use stepsim_spec::SpecError;

/// Say where the time went in profiles of real steps.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim analyze rank0.json.gz                       one rank: breakdown, communication, kernels, idle time, gaps
  stepsim analyze profiles --report ranks.json        a folder, all ranks: also who was waited for at collectives
  stepsim analyze rank0.json --workload gpt2-8        with MFU, of that model, batch and machine
  stepsim analyze rank*.json.gz --html ranks.html     a page: kernels over time, and all tables
  stepsim run gpt2-8 -o x.json.gz && stepsim analyze x.json.gz

A profile is what torch.profiler exports (export_chrome_trace, .json or .json.gz, of any year, NVIDIA or AMD), or a
timeline of `stepsim run`. Times are of the whole window of the file: from the first start to the last end of device
events. Broken events are passed over and counted; a file that breaks off is read up to there.

--classes takes a JSON object with a list `classes` of families (compute or communication) and patterns:
  {\"classes\": [{\"class\": \"mine\", \"family\": \"compute\", \"patterns\": [\"my_kernel\", \"^void my::*gemm\"]}]}
A list `collectives`, [{\"kind\": …, \"patterns\": […]}], may stand beside it.")]
pub struct Args {
    /// Profiles of one or several ranks, or the folder in which they lie
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Also write everything as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    report: Option<PathBuf>,
    /// Also write a page here: .html, one file that opens in any browser
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    html: Option<PathBuf>,
    /// Count only device events whose launch is in the file
    #[arg(long)]
    linked: bool,
    /// Names of kernels, before the shipped ones
    #[arg(long, value_name = "FILE")]
    classes: Option<PathBuf>,
    /// The workload that was run, for MFU
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// The machine that it was run on, where it is not the workload's own
    #[arg(long, value_name = "NAME", requires = "workload")]
    topology: Option<String>,
    /// A field of the workload or (topology.…) of the machine
    #[arg(long, value_name = "PATH=VALUE", requires = "workload")]
    set: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// No file holds a profile, or another input is wrong (status 2); a file cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let classes = classes(args.classes.as_deref())?;
    let utilisation = match &args.workload {
        Some(workload) => Some(at_peak(workload, args)?),
        None => None,
    };
    let (mut profiles, mut unread): (Vec<RankEvents>, Vec<SpecError>) = (Vec::new(), Vec::new());
    for path in files(&args.traces)? {
        match read(&path, &classes) {
            Ok(read) => profiles.extend(read),
            Err(error) => unread.push(error),
        }
    }
    if profiles.is_empty() {
        let all: Vec<String> = unread.iter().map(SpecError::to_string).collect();
        return Err(Failure::input(all.join("\n")));
    }
    of_one_job(&profiles)?;
    let window = if args.linked { Window::Linked } else { Window::All };
    let mut report: ProfileReport = report(&mut profiles, window);
    report.unread = unread.iter().map(|e| format!("{}: {}", e.file, e.problem)).collect();
    if let Some((least, causal_s)) = utilisation {
        if let Some(rank) = report.ranks.iter().find(|r| r.step_s > 0.0 && causal_s > r.step_s) {
            let workload = args.workload.as_deref().unwrap_or_default();
            let problem = format!(
                "at its peak the machine would take {causal_s:.6} s for this step, and the profile's takes {:.6} s",
                rank.step_s
            );
            return Err(SpecError::file(format!("--workload {workload}"), problem)
                .hint("give the model, batch and machine that were profiled (--set, --topology)")
                .into());
        }
        for rank in &mut report.ranks {
            rank.mfu = (rank.step_s > 0.0).then(|| (least.matrices_s + least.mixing_s) / rank.step_s);
            rank.waterfall = (rank.window_s > 0.0).then(|| waterfall(rank, least));
        }
    }
    if !profiles.iter().any(|profile| profile.simulated) {
        match why(&profiles) {
            Ok((answer, candidates)) => {
                (report.played_s, report.candidates) = (Some(answer.step_time_s), candidates);
                report.hangs_on = answer.hangs_on;
            }
            Err(error) => report.not_played = Some(error.problem.clone()),
        }
    }
    write_report(args.report.as_deref(), &report)?;
    write_page(args.html.as_deref(), || page::profile::page(&profiles, &report, &command()))?;
    say(&table::table(&report, width()))
}

/// The named files, and the files of the named folders, by name.
pub(super) fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let unread = |error| Failure::input(format!("{}: cannot be read: {error}", path.display()));
        let entries = std::fs::read_dir(path).map_err(unread)?;
        let mut inside: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(|file| is_profile(file)).collect();
        if inside.is_empty() {
            let hint = "give the folder with a profile a rank, as torch.profiler writes them";
            return Err(Failure::input(format!(
                "{}: no file of this folder ends in .json or .json.gz\n  hint: {hint}",
                path.display()
            )));
        }
        inside.sort();
        files.append(&mut inside);
    }
    Ok(files)
}

fn is_profile(file: &Path) -> bool {
    let name = file.to_string_lossy();
    name.ends_with(".json") || name.ends_with(".json.gz")
}

/// Names of kernels: a file's, then the shipped ones.
pub(super) fn classes(file: Option<&Path>) -> Result<ClassTables, Failure> {
    let Some(path) = file else { return Ok(ClassTables::shipped()) };
    Ok(ClassTables::with(&inputs::text(path)?, &path.display().to_string())?)
}

/// Seconds that a step would take if all devices computed the model's FLOPs at their peak.
/// Attention in full first, then all of it by half where a mask is causal.
fn at_peak(workload: &str, args: &Args) -> Result<(AtPeak, f64), Failure> {
    let inputs = Inputs::load(workload, args.topology.as_deref(), &args.set).map_err(Failure::input)?;
    let (step, machine) = (&inputs.workload.value, &inputs.machine);
    let flops = StepFlops::of_step(step, &inputs.model, step.batch.global, None);
    let rate = inputs.peak().0 * f64::from(machine.devices());
    let least = AtPeak { matrices_s: (flops.model - flops.mixing) / rate, mixing_s: flops.mixing / rate };
    Ok((least, flops.model_causal / rate))
}
