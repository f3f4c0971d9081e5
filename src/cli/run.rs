//! `stepsim run`: one training step, as a report and a timeline.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::outputs::{WRITTEN, document_on_stdout};
use super::timeline::{Shown, traced, write_trace};
use super::{Failure, calculon, outputs, put, say, width};
use crate::analysis::report::Report;
use crate::analysis::table::table;
use crate::analysis::waterfall_table;
use crate::engine::EngineError;
use crate::page;
use crate::score::Bands;
use crate::simulate::jump::figures;
use crate::simulate::{FailedReport, Head, Inputs, Options, Simulation, Status};
use crate::trace::{self, Detail, Output, RunMeta};
use crate::units::Time;

/// What `stepsim run` simulates when it is given nothing.
pub const EXAMPLE: &str = "gpt3-175b";

/// Simulate a training step.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Workload: the name of a shipped one, or a path that ends in .json [default: gpt3-175b]
    #[arg(conflicts_with = "calculon")]
    workload: Option<String>,
    /// Machine: a name, a path, or a simple one like `switch:8,450,1` [default: the one the workload names]
    #[arg(short, long, conflicts_with = "calculon")]
    topology: Option<String>,
    /// Calculon's application, execution and system file, simulated on the machine they describe
    #[arg(long, num_args = 3, value_names = ["APP", "EXE", "SYS"])]
    calculon: Option<Vec<PathBuf>>,
    /// With --calculon: make the assumptions of its closed form (blocking transfers, its data-parallel and offload time)
    #[arg(long, requires = "calculon")]
    pub(super) compatible: bool,
    /// Write the timeline here: .json, .json.gz, .pftrace or .pftrace.gz (open it at ui.perfetto.dev)
    #[arg(short, long, value_name = "TRACE", help_heading = WRITTEN)]
    pub(super) output: Option<PathBuf>,
    /// Write the timeline in this format: `kineto` makes --output a folder with a file a rank, as PyTorch's profiler writes
    /// [default: by the name of --output]
    #[arg(long, value_name = "FORMAT", value_parser = ["kineto"], requires = "output", conflicts_with_all = ["calculon", "detail", "trace_links"], help_heading = WRITTEN)]
    format: Option<String>,
    /// Write a page about the run here: .html, one file that opens in any browser
    #[arg(long, value_name = "FILE", conflicts_with = "calculon", help_heading = WRITTEN)]
    html: Option<PathBuf>,
    /// Write the report as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    pub(super) report: Option<PathBuf>,
    /// Change a field: `batch.global=768`, `parallelism.pipeline.schedule=zb-h1`, `topology.nodes=16`; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE", conflicts_with = "calculon")]
    sets: Vec<String>,
    /// Ranks to show in the timeline and on the page: `0,8,16-31`, `all`, or `stages` for one of each pipeline stage
    #[arg(long, default_value = "stages", value_name = "RANKS")]
    pub(super) trace_ranks: String,
    /// How much one slice of the timeline stands for: op, layer or phase [default: op, or what a browser still opens]
    #[arg(long, value_parser = str::parse::<Detail>, requires = "output")]
    pub(super) detail: Option<Detail>,
    /// Show only this stretch of time in the timeline, in milliseconds: `0:250`
    #[arg(long, value_name = "FROM:TO", value_parser = window, requires = "output")]
    pub(super) window_ms: Option<(Time, Time)>,
    /// Simulate every rank, also those that must behave alike
    #[arg(long, conflicts_with = "calculon")]
    no_fold: bool,
    /// Play every micro-batch, also where a schedule repeats itself and nothing but figures is asked for
    #[arg(long, conflicts_with = "calculon")]
    no_jump: bool,
    /// Most memory that the times of all simulated ops may take, in GiB (16 bytes an op)
    #[arg(long, value_name = "GIB", default_value_t = 16, conflicts_with = "calculon", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    record_gib: u32,
    /// Simulate so many steps one after the other, from the first of a run (optimizer moments appear in it)
    #[arg(long, default_value_t = 1, conflicts_with = "calculon", value_parser = clap::value_parser!(u32).range(1..=16))]
    steps: u32,
    /// Seed of jitter (workload field `noise`)
    #[arg(long, default_value_t = 0, conflicts_with = "calculon")]
    seed: u64,
    /// Play so many steps, with seeds from --seed on, and show how their times spread
    #[arg(long, value_name = "N", conflicts_with = "calculon", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    samples: Option<u32>,
    /// Show the use of the N busiest links over time in the timeline
    #[arg(long, default_value_t = 0, value_name = "N", requires = "output", conflicts_with = "calculon")]
    trace_links: usize,
    /// Write when and how fast it was simulated into report and timeline: equal inputs then give different bytes
    #[arg(long, conflicts_with = "reproducible")]
    wall_time: bool,
    /// The default, kept for scripts: no wall-clock times, so that equal inputs give equal bytes
    #[arg(long, hide = true)]
    reproducible: bool,
    /// Also print the way from peak to MFU bar by bar and stage by stage, and the kernels by class
    #[arg(long)]
    pub(super) why: bool,
    /// Print no table
    #[arg(short, long)]
    pub(super) quiet: bool,
}

impl Args {
    /// Whether no table is printed.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet || document_on_stdout()
    }
    /// Whether only the exit status is asked for.
    fn reads_nothing(&self) -> bool {
        self.is_quiet() && self.samples.is_none() && self.outputs().iter().all(|(_, path)| path.is_none())
    }
    fn outputs(&self) -> [(&'static str, Option<&Path>); 3] {
        [
            ("--output", self.output.as_deref()),
            ("--html", self.html.as_deref()),
            ("--report", self.report.as_deref()),
        ]
    }
}

fn window(text: &str) -> Result<(Time, Time), String> {
    let parse = |s: &str| s.trim().parse::<f64>().ok().filter(|x| x.is_finite() && *x >= 0.0);
    let (from, to) = text.split_once(':').ok_or("two numbers of milliseconds with a colon between them")?;
    match (parse(from), parse(to)) {
        (Some(a), Some(b)) if a < b => Ok((Time::from_s(a / 1e3), Time::from_s(b / 1e3))),
        _ => Err("the first number must be smaller than the second, neither negative".into()),
    }
}

/// Runs the command.
///
/// # Errors
/// Wrong input (status 2); a run that fails or a file that cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    simulate(args).inspect_err(|failure| {
        // What went wrong is told anyway; that the report of it cannot be written too is not.
        let told = failure.fault.status != Status::Failed;
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

/// Whether the report of a failure may stand there: where nothing or a report was. An input that is wrong, or that an
/// input names, is left as it is.
fn takes_report(path: &Path) -> bool {
    let is_report = |text: String| {
        serde_json::from_str::<serde_json::Value>(&text).is_ok_and(|file| file["run"]["stepsim"].is_string())
    };
    !path.is_file() || std::fs::read_to_string(path).is_ok_and(is_report)
}

/// The head of a report with what only the command line knows.
pub(super) fn head(args: &Args, of_inputs: Head) -> Head {
    Head {
        stepsim: env!("CARGO_PKG_VERSION").to_string(),
        command: command(),
        settings: args.sets.clone(),
        seed: args.seed,
        ..of_inputs
    }
}

/// The words of the command.
pub(super) fn command() -> Vec<String> {
    std::iter::once("stepsim".to_string()).chain(std::env::args().skip(1)).collect()
}

/// Simulates, writes the outputs that are asked for, prints the tables.
fn simulate(args: &Args) -> Result<(), Failure> {
    if let Some(path) = args.output.as_ref().filter(|_| args.format.is_none()) {
        trace::Format::of(path).map_err(Failure::input)?;
    }
    if let Some([app, exe, sys]) = args.calculon.as_deref() {
        return calculon::run::files(args, &calculon::load(app, exe, sys)?);
    }
    let name = args.workload.as_deref().unwrap_or(EXAMPLE);
    let inputs = Inputs::load(name, args.topology.as_deref(), &args.sets)?;
    outputs::apart(&args.outputs(), &inputs.files())?;
    if args.samples.is_some() && !inputs.workload.value.noise.is_random() {
        return Err(Failure::input(
            "--samples: the workload has no noise that is drawn, so all samples would be equal\n  give it some: \
             --set noise.compute_sigma=0.02, or noise.random_stragglers, noise.between_worker_sigma",
        ));
    }
    let record_bytes = u64::from(args.record_gib) << 30;
    let options = Options {
        fold: !args.no_fold,
        seed: args.seed,
        steps: args.steps,
        record_bytes,
        jump: !args.no_jump,
    };
    if args.reads_nothing() {
        return Ok(figures(&inputs, &options, false).map(|_| ())?);
    }
    let bar = Bar::new("simulating");
    let (run, failure) = Simulation::until_failure(&inputs, &options, &[], &mut |ops| bar.at(ops))?;
    bar.done();
    if let Some(failure) = failure {
        return Err(cut_short(args, &run, failure));
    }
    let mut samples = None;
    if let Some(count) = args.samples {
        let bar = Bar::of("samples", u64::from(count));
        samples = Some(run.sample(args.seed, count, &mut |done| bar.at(done))?);
        bar.done();
    }
    // A timeline alone needs no report.
    let report = (args.report.is_some() || args.html.is_some() || !args.is_quiet()).then(|| {
        let report = run.report(args.wall_time);
        Report { run: head(args, report.run), samples, ..report }
    });
    if let (Some((from, _)), end) = (args.window_ms, run.record.step_end)
        && from >= end
    {
        let ms = from.s() * 1e3;
        return Err(Failure::input(format!(
            "--window-ms {ms}:…: nothing lies in it, the run ends after {end}"
        )));
    }
    if let Some(path) = &args.output {
        let ranks = traced(&args.trace_ranks, &run)?;
        let links = args.trace_links;
        let shown = Shown {
            ranks: &ranks,
            detail: args.detail,
            window: args.window_ms,
            links,
            kineto: args.format.is_some(),
            complete: true,
        };
        let mut meta = meta(args, &run);
        results(&mut meta, &run);
        if let Some(note) = write_trace(&run, &meta, &shown, path, &[])? {
            eprintln!("{note}");
        }
    }
    let Some(report) = report else { return Ok(()) };
    if let Some(path) = &args.html {
        let ranks = traced(&args.trace_ranks, &run)?;
        let text = page::page(&run, &ranks, &report).map_err(Failure::run)?;
        write_file(path, text.as_bytes())?;
    }
    if let Some(path) = &args.report {
        write_json(path, &report)?;
    }
    if !args.is_quiet() {
        print(&report, args)?;
        say(&Bands::shipped().sentence(&inputs))?;
    }
    Ok(())
}

/// Why a run failed; its timeline up to there is written, if one was asked for and anything had happened.
fn cut_short(args: &Args, run: &Simulation, failure: EngineError) -> Failure {
    let end = run.record.step_end;
    let written = args.output.as_ref().filter(|_| end > Time::ZERO).map(|path| {
        let ranks = traced(&args.trace_ranks, run)?;
        let window = args.window_ms.map_or((Time::ZERO, end), |(from, until)| (from, until.min(end)));
        let shown = Shown {
            ranks: &ranks,
            detail: args.detail,
            window: Some(window),
            links: args.trace_links,
            kineto: args.format.is_some(),
            complete: false,
        };
        let mut meta = meta(args, run);
        meta.text("failed", failure.to_string());
        write_trace(run, &meta, &shown, path, &[]).map(|_| path)
    });
    match written {
        None => failure.into(),
        Some(Ok(path)) => Failure::from(failure).and(&format!("timeline up to there: {}", path.display())),
        Some(Err(other)) => Failure::from(failure).and(&other.to_string()),
    }
}

pub(super) fn print(report: &Report, args: &Args) -> Result<(), Failure> {
    let mut text = table(report, width());
    if args.why {
        waterfall_table::full(&mut text, report, width());
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    if let Some(path) = &args.output {
        text += &format!("timeline: {} (open it at ui.perfetto.dev)\n", path.display());
    } else if args.workload.is_none() {
        text += "add `-o step.pftrace` for a timeline; `stepsim run --help` for more\n";
    }
    say(&text)
}

/// Writes a value as indented JSON, whole or not at all; `-` is the standard output.
///
/// # Errors
/// The file cannot be written (status 1).
pub fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_vec_pretty(value).map_err(Failure::run)?;
    text.push(b'\n');
    if path == Path::new("-") {
        return put(&String::from_utf8_lossy(&text));
    }
    write_file(path, &text)
}

/// Writes a file, whole or not at all; compressed if its name ends in .gz.
///
/// # Errors
/// The file cannot be written (status 1).
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut output =
        Output::create(path, path.extension().is_some_and(|e| e == "gz")).map_err(Failure::run)?;
    output.write_all(bytes).map_err(|e| Failure::run(output.error(e)))?;
    output.finish().map_err(Failure::run)
}

/// The time of writing, or that of the source where a reproducible build says so (`SOURCE_DATE_EPOCH`, in seconds).
fn written() -> String {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    match epoch.and_then(|seconds| chrono::DateTime::from_timestamp(seconds, 0)) {
        Some(time) => time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
        None => chrono::Local::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, false),
    }
}

/// What the step's slice says about what was run.
fn meta(args: &Args, run: &Simulation) -> RunMeta {
    let mut meta = RunMeta::default();
    meta.text("stepsim", env!("CARGO_PKG_VERSION"));
    if args.wall_time {
        meta.text("written", written());
    }
    meta.text("workload", &run.inputs.workload.name);
    meta.text("workload hash", &run.inputs.workload.hash);
    meta.text("topology", &run.inputs.topology.name);
    meta.text("topology hash", &run.inputs.topology.hash);
    meta.text("settings", args.sets.join(" "));
    meta.int("seed", args.seed);
    meta
}

/// And about what came out.
fn results(meta: &mut RunMeta, run: &Simulation) {
    let speed = run.speed();
    meta.number("step time ms", speed.step_time_s * 1e3);
    meta.number("tokens per s", speed.tokens_per_s);
    meta.number("MFU percent", speed.mfu * 100.0);
    meta.number("HFU percent", speed.hfu * 100.0);
    meta.int("ranks", run.plan.world.ranks.len() as u64);
    meta.int("ranks simulated", run.folded.world.ranks.len() as u64);
}

/// A progress bar that appears after a second, on a terminal only.
pub struct Bar {
    bar: ProgressBar,
    begun: Instant,
}

impl Bar {
    /// A bar that says what is being done.
    pub fn new(what: &'static str) -> Bar {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_message(what);
        let style = ProgressStyle::with_template("{spinner} {msg}: {human_pos} ops ({per_sec}) {elapsed}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Bar { bar, begun: Instant::now() }
    }
    /// A bar towards so many.
    pub fn of(what: &'static str, count: u64) -> Bar {
        let bar = Bar::new(what);
        let style = ProgressStyle::with_template("{msg}: {pos}/{len} {bar:30} {elapsed}, {eta} to go");
        bar.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.bar.set_length(count);
        bar
    }
    /// So much has been done.
    pub fn at(&self, position: u64) {
        if self.bar.is_hidden()
            && self.begun.elapsed() > Duration::from_secs(1)
            && std::io::stderr().is_terminal()
        {
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        }
        self.bar.set_position(position);
    }
    /// Takes the bar away.
    pub fn done(&self) {
        self.bar.finish_and_clear();
    }
}
