//! The arguments of `run`.

use std::path::{Path, PathBuf};

use super::super::outputs::{WRITTEN, document_on_stdout};
use stepsim_bring::training_log::RunSpeed;
use stepsim_core::units::Time;
use stepsim_read::analysis::head::Inert;
use stepsim_read::analysis::report::Extent;
use stepsim_read::trace::Detail;
use stepsim_simulate::Inputs;

/// Simulate a training step.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim run gpt3-175b                             where the time goes
  stepsim run llama3-70b -o step.pftrace            the timeline, for ui.perfetto.dev
  stepsim run gpt3-175b --set batch.global=768 --why
  stepsim run mine.json -t '16 of h100-superpod' --full --report report.json")]
pub struct Args {
    /// Workload: the name of a shipped one, or a file of ours or of training software [default: gpt3-175b]
    pub(crate) workload: Option<String>,
    /// Machine: a count and a name (`64xh100`), a name, a path, or a simple one like `switch:8,450,1`
    /// [default: the one the workload names]
    #[arg(short, long)]
    pub(crate) topology: Option<String>,
    /// What was measured: a verdict, as `stepsim normal` gives it
    #[arg(long, value_name = "SPEED", value_parser = str::parse::<RunSpeed>)]
    pub(crate) measured: Option<RunSpeed>,
    /// Write the timeline here: .json, .json.gz, .pftrace or .pftrace.gz (open it at ui.perfetto.dev); as .svg the
    /// map of all ranks over time
    #[arg(short, long, value_name = "TRACE", help_heading = WRITTEN)]
    pub(crate) output: Option<PathBuf>,
    /// Write the timeline as a folder with a file a rank, as PyTorch's profiler does [default: one file, by the name
    /// of --output]
    #[arg(long, value_name = "FORMAT", value_parser = ["kineto"], requires = "output",
        conflicts_with_all = ["detail", "trace_links"], help_heading = WRITTEN)]
    pub(crate) format: Option<String>,
    /// Write a page about the run here: .html, one file that opens in any browser
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    pub(crate) html: Option<PathBuf>,
    /// Write the report as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    pub(crate) report: Option<PathBuf>,
    /// Change a field: `batch.global=768`, `parallelism.pipeline.schedule=zb-h1`, `topology.nodes=16`; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Prices that were measured: a file that `learn -o` wrote; other commands take it as `--set
    /// prices=FILE`
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<String>,
    /// Ranks to show in the timeline and on the page: `0,8,16-31`, `all`, or `stages` for the first of each pipeline
    /// stage [default: one of those that behave alike]
    #[arg(long, value_name = "RANKS")]
    pub(crate) trace_ranks: Option<String>,
    /// How much one slice of the timeline stands for: op, layer, phase or pass [default: op, or what a browser still
    /// opens]
    #[arg(long, value_parser = str::parse::<Detail>, requires = "output")]
    pub(crate) detail: Option<Detail>,
    /// Show only this stretch of time in the timeline, in milliseconds: `0:250`
    #[arg(long, value_name = "FROM:TO", value_parser = window, requires = "output")]
    pub(crate) window_ms: Option<(Time, Time)>,
    /// Simulate every rank, also those that must behave alike
    #[arg(long)]
    pub(crate) no_fold: bool,
    /// Play every micro-batch, also where a schedule repeats itself and nothing is shown op by op
    #[arg(long)]
    pub(crate) no_jump: bool,
    /// Most memory that the times of all simulated ops may take, in GiB (16 bytes an op)
    #[arg(long, value_name = "GIB", default_value_t = 16,
        value_parser = crate::asked::whole::<u32>(1..=1 << 20))]
    pub(crate) record_gib: u32,
    /// Seed of jitter (workload field `noise`) [default: 0]
    #[arg(long, value_name = "SEED")]
    pub(crate) seed: Option<u64>,
    /// Play this many steps, with seeds from --seed on, and show how their times spread
    #[arg(long, value_name = "N",
        value_parser = crate::asked::whole::<u32>(1..=1_000_000))]
    pub(crate) samples: Option<u32>,
    /// Show the use of the N busiest links over time in the timeline
    #[arg(long, default_value_t = 0, value_name = "N", requires = "output")]
    pub(crate) trace_links: usize,
    /// Write when and how fast it was simulated into report and timeline: equal inputs then give different bytes
    #[arg(long)]
    pub(crate) wall_time: bool,
    /// Print every table: where the time went, stages, communication, memory, critical path, links, conventions
    #[arg(long)]
    pub(crate) full: bool,
    /// Print every table, and the way from peak to MFU bar by bar and stage by stage, and the kernels by class
    #[arg(long)]
    pub(crate) why: bool,
    /// Print no table
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl Args {
    /// How many steps are played beside the first, with other seeds.
    pub fn samples(&self) -> Option<u32> {
        self.samples
    }
    /// The prices and settings that were given, in their order.
    pub(crate) fn sets(&self) -> Vec<String> {
        let prices = self.prices.iter().map(|file| format!("prices={file}"));
        prices.chain(self.sets.iter().cloned()).collect()
    }

    pub(crate) fn trace_ranks(&self) -> Option<&str> {
        self.trace_ranks.as_deref()
    }
    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }
    /// Options that have no effect on a run of these inputs.
    pub(super) fn without_effect(&self, inputs: &Inputs) -> Vec<Inert> {
        let noise = inputs.workload.value.noise.is_random();
        let options = [
            ("--seed", self.seed.is_some() && !noise, "nothing is drawn: see the workload's `noise`"),
            (
                "--trace-ranks",
                self.trace_ranks.is_some() && self.output.is_none() && self.html.is_none(),
                "no -o, no --html",
            ),
        ];
        let silent = options.into_iter().filter(|(_, silent, _)| *silent);
        silent.map(|(field, _, why)| Inert { field: field.into(), why: why.into() }).collect()
    }

    /// True if no table is printed.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet || document_on_stdout()
    }
    /// True if only the exit status is asked for.
    pub(super) fn reads_nothing(&self) -> bool {
        self.is_quiet() && self.outputs().iter().all(|(_, path)| path.is_none())
    }
    /// How much of a report is shown or written.
    pub(super) fn extent(&self) -> Extent {
        let more = self.full || self.why || self.report.is_some() || self.html.is_some();
        if more { Extent::Whole } else { Extent::Screen }
    }
    /// True if nothing is shown op by op.
    pub(super) fn reads_report_alone(&self) -> bool {
        self.output.is_none() && self.html.is_none() && self.samples.is_none()
    }
    pub(super) fn outputs(&self) -> [(&'static str, Option<&Path>); 3] {
        [
            ("--output", self.output.as_deref()),
            ("--html", self.html.as_deref()),
            ("--report", self.report.as_deref()),
        ]
    }
}

pub(crate) fn window(text: &str) -> Result<(Time, Time), String> {
    let parse = |s: &str| s.trim().parse::<f64>().ok().filter(|x| x.is_finite() && *x >= 0.0);
    let (from, to) = text.split_once(':').ok_or("two numbers of milliseconds with a colon between them")?;
    match (parse(from), parse(to)) {
        (Some(a), Some(b)) if a < b => Ok((Time::from_s(a / 1e3), Time::from_s(b / 1e3))),
        _ => Err("the first number must be smaller than the second, neither negative".into()),
    }
}
