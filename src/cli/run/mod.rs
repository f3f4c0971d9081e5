//! `stepsim run`: one training step, as a report and a timeline.

mod args;
mod shown;

pub use args::Args;
pub(super) use shown::{head, print};

use std::path::Path;

use super::command_line::EXAMPLE;
use super::progress::TerminalProgress;
use super::screen::{note_cost, note_order, note_without_effect};
use super::timeline::{TimelineSelection, is_map, traced, write_trace};
use super::write::{write_file, write_json, write_report};
use super::{Failure, normal, outputs, say};
use stepsim_core::engine::EngineError;
use stepsim_core::units::Time;
use stepsim_read::analysis::report::Report;
use stepsim_read::trace;
use stepsim_read::trace::RunMeta;
use stepsim_schedule::ScheduleChoice;
use stepsim_simulate::behaviour::DrawnRank;
use stepsim_simulate::jump::{self, figures};
use stepsim_simulate::page;
use stepsim_simulate::timeline;
use stepsim_simulate::{FailedReport, Head, Inputs, Options, RunStatus, Simulation};
use stepsim_spec::SpecError;
use stepsim_study::otherwise::{self, Depth};

/// Runs the command.
///
/// # Errors
/// Wrong input (status 2); a run that fails or a file that cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    simulate(args).inspect_err(|failure| {
        // The failure is told anyway; that the report of it cannot be written too is not.
        let told = failure.fault.status != RunStatus::Failed;
        if let Some(path) = args.report.as_deref().filter(|path| told && takes_report(path)) {
            let report = FailedReport {
                status: failure.fault.status,
                run: head(args, Head::default()),
                error: (*failure.fault).clone(),
            };
            let _ = write_json(path, &report);
        }
    })
}

/// True if the report of a failure may stand there: where nothing or a report was. An input that is wrong, or that an
/// input names, is left as it is.
fn takes_report(path: &Path) -> bool {
    let is_report = |text: String| {
        serde_json::from_str::<serde_json::Value>(&text).is_ok_and(|file| file["run"]["stepsim"].is_string())
    };
    !path.is_file() || std::fs::read_to_string(path).is_ok_and(is_report)
}

/// Simulates, writes the outputs that are asked for, prints the tables.
fn simulate(args: &Args) -> Result<(), Failure> {
    check(args)?;
    let inputs = inputs(args)?;
    outputs::apart(&args.outputs(), &inputs.files())?;
    if args.samples.is_some() {
        drawn(&inputs)?;
    }
    let options = options(args);
    let (workload, devices) = (&inputs.workload.value, inputs.machine.devices());
    let pipeline = &workload.parallelism.pipeline;
    if matches!(pipeline.choice(), ScheduleChoice::Named(schedule) if schedule.facts().searched) {
        note_order(pipeline.size, workload.micro_batches(devices.into()));
    }
    if args.reads_nothing() {
        return played(args, &inputs, &options);
    }
    if args.reads_report_alone()
        && let Some(report) = jump::report(&inputs, &options, args.extent(), args.wall_time)
    {
        return tell(args, &inputs, compared(args, &inputs, &options, report)?);
    }
    let bar = TerminalProgress::new("simulating");
    let (run, failure) = Simulation::until_failure(&inputs, &options, &[], &mut |ops| bar.at(ops))?;
    bar.done();
    if let Some(failure) = failure {
        return Err(cut_short(args, &run, failure));
    }
    let mut samples = None;
    if let Some(count) = args.samples {
        note_cost(&format!("{count} samples"), run.wall_s * f64::from(count), 0.0);
        let bar = TerminalProgress::of("samples", u64::from(count));
        samples = Some(run.sample(args.seed(), count, &mut |done| bar.at(done))?);
        bar.done();
    }
    // A timeline alone, without a word on the screen, needs no report.
    let report = (args.report.is_some() || args.html.is_some() || !args.is_quiet()).then(|| {
        let report = run.read(args.extent(), args.wall_time);
        compared(args, &inputs, &options, Report { samples, ..report })
    });
    let report = report.transpose()?;
    let hangs_on = report.as_ref().map_or("", |report| &report.hangs_on);
    if let Some(note) = timeline(args, &run, hangs_on)? {
        eprintln!("{note}");
    }
    let Some(report) = report else { return Ok(()) };
    possible(&report)?;
    if let Some(path) = &args.html {
        write_file(path, html(args, &run, &report)?.as_bytes())?;
    }
    tell(args, &inputs, report)
}

/// Plays a step or its samples and reads nothing of them.
fn played(args: &Args, inputs: &Inputs, options: &Options) -> Result<(), Failure> {
    match args.samples {
        None => drop(figures(inputs, options, false)?),
        Some(count) => {
            let bar = TerminalProgress::of("samples", u64::from(count));
            Simulation::sample_alone(inputs, options, count, &mut |done| bar.at(done))?;
            bar.done();
        }
    }
    Ok(())
}

/// Looks at options that do not go together, before anything is simulated.
///
/// # Errors
/// Some do not.
pub fn check(args: &Args) -> Result<(), Failure> {
    if let Some(path) = args.output.as_ref().filter(|path| args.format.is_none() && !is_map(path)) {
        trace::TimelineFormat::of(path).map_err(Failure::input)?;
    }
    Ok(())
}

/// The inputs of the simulation.
///
/// # Errors
/// The workload, its machine or a setting is wrong.
pub fn inputs(args: &Args) -> Result<Inputs, SpecError> {
    let name = args.workload.as_deref().unwrap_or(EXAMPLE);
    Inputs::load(name, args.topology.as_deref(), &args.sets())
}

/// How it is to be simulated.
pub fn options(args: &Args) -> Options {
    Options {
        fold: !args.no_fold,
        seed: args.seed(),
        record_bytes: u64::from(args.record_gib) << 30,
        jump: !args.no_jump,
        ..Options::default()
    }
}

/// Refuses samples of a step without any noise.
///
/// # Errors
/// The step has no noise.
pub fn drawn(inputs: &Inputs) -> Result<(), Failure> {
    if inputs.workload.value.noise.is_random() {
        return Ok(());
    }
    let problem = "the workload has no noise that is drawn, so all samples would be equal";
    Err(SpecError::file("--samples", problem).hint("give it some: noise.compute_sigma=0.02").into())
}

/// Writes the timeline of a run, if one is asked for, with what the step hangs on; returns what is to be said of its
/// size.
///
/// # Errors
/// Nothing lies in the window, a rank is not in the run, or the file cannot be written.
pub fn timeline(args: &Args, run: &Simulation, hangs_on: &str) -> Result<Option<String>, Failure> {
    if let (Some((from, _)), end) = (args.window_ms, run.record.step_end)
        && from >= end
    {
        let ms = from.s() * 1e3;
        return Err(Failure::input(format!(
            "--window-ms {ms}:…: nothing lies in it, the run ends after {end}"
        )));
    }
    let Some(path) = &args.output else { return Ok(None) };
    let ranks = traced(args.trace_ranks(), run)?;
    let shown = TimelineSelection { window: args.window_ms, ..as_asked(args, &ranks) };
    let mut meta = meta(args, run);
    timeline::results(&mut meta, run);
    meta.hang_on(hangs_on);
    write_trace(run, &meta, &shown, path)
}

/// The timeline's contents, as requested.
fn as_asked<'a>(args: &Args, ranks: &'a [DrawnRank]) -> TimelineSelection<'a> {
    TimelineSelection {
        detail: args.detail,
        links: args.trace_links,
        kineto: args.format.is_some(),
        ..TimelineSelection::of(ranks)
    }
}

/// A page about a run.
///
/// # Errors
/// A rank is not in the run.
pub fn html(args: &Args, run: &Simulation, report: &Report) -> Result<String, Failure> {
    page::page(run, &traced(args.trace_ranks(), run)?, report).map_err(Failure::run)
}

/// The report with its answer and as many candidates as are shown, each a run of its own.
fn compared(args: &Args, inputs: &Inputs, options: &Options, report: Report) -> Result<Report, Failure> {
    let tables = args.full || args.why || args.html.is_some();
    let bar = TerminalProgress::new("playing what could be otherwise");
    let report = Report { run: head(args, report.run), ..report };
    let report =
        otherwise::answer(inputs, options, report, if tables { Depth::Tables } else { Depth::Answer })?;
    bar.done();
    Ok(report)
}

/// Nothing impossible gets out.
///
/// # Errors
/// The report says what no step can do.
pub fn possible(report: &Report) -> Result<(), Failure> {
    report.impossible().map_or(Ok(()), |what| Err(Failure::run(what)))
}

/// Writes and prints a report, as asked.
fn tell(args: &Args, inputs: &Inputs, mut report: Report) -> Result<(), Failure> {
    possible(&report)?;
    report.run.without_effect.extend(args.without_effect(inputs));
    write_report(args.report.as_deref(), &report)?;
    if !args.is_quiet() {
        note_without_effect(&report.run.without_effect);
        if let Some(limit) = inputs.of_one_device_alone() {
            eprintln!("note: {limit}");
        }
        print(&report, Some(inputs), args)?;
        if let Some(speed) = args.measured {
            say(&normal::wrapped(&normal::verdict(inputs, &report, speed, None, &[])?.words(false)))?;
        }
    }
    Ok(())
}

/// Why a run failed; its timeline up to there is written, if one was asked for and anything had happened.
fn cut_short(args: &Args, run: &Simulation, failure: EngineError) -> Failure {
    let end = run.record.step_end;
    let written = args.output.as_ref().filter(|_| end > Time::ZERO).map(|path| {
        let ranks = traced(args.trace_ranks(), run)?;
        let window = args.window_ms.map_or((Time::ZERO, end), |(from, until)| (from, until.min(end)));
        let shown = TimelineSelection { window: Some(window), complete: false, ..as_asked(args, &ranks) };
        let mut meta = meta(args, run);
        meta.text("failed", failure.to_string());
        write_trace(run, &meta, &shown, path).map(|_| path)
    });
    match written {
        None => failure.into(),
        Some(Ok(path)) => Failure::from(failure).and(&format!("timeline up to there: {}", path.display())),
        Some(Err(other)) => Failure::from(failure).and(&other.to_string()),
    }
}

/// The time of writing, or the source's where a reproducible build says so (`SOURCE_DATE_EPOCH`, in seconds).
fn written() -> String {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    match epoch.and_then(|seconds| chrono::DateTime::from_timestamp(seconds, 0)) {
        Some(time) => time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
        None => chrono::Local::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, false),
    }
}

/// The facts in the step's slice about the run.
fn meta(args: &Args, run: &Simulation) -> RunMeta {
    timeline::meta(run, args.wall_time.then(written), &args.sets())
}
