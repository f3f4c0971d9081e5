//! `stepsim schedule`: a pipeline schedule on abstract durations, drawn as the papers draw it.
//!
//! The order, the programs and the engine are those of real steps; only the durations are given: of one rank's whole
//! share of the layers, in any unit of time (one unit is one simulated second). Results are rounded to 9 decimals, or to
//! 6 where the number of chunks does not divide 10¹².

mod all;
mod draw;
mod durations;
mod outcome;
mod page;

use std::cell::RefCell;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use super::outputs::WRITTEN;
use super::run::{write_file, write_json};
use super::timeline::stalls_shown;
use super::{Failure, inputs, say};
use crate::analysis::cause::Causes;
use crate::analysis::idle::IdleTimes;
use crate::engine::Record;
use crate::ids::RankId;
use crate::plan::pipeline::{AbstractPipeline, Sends, abstract_world};
use crate::schedule::{self, Order, PassTimes, Profile, Schedule, Shape};
use crate::trace::{Count, Detail, MetaValue, RunMeta, Timeline, TracedRank};
use crate::units::Time;

use draw::Screen;
use outcome::Outcome;

/// Runs a pipeline schedule on abstract durations and draws it.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The schedule
    #[arg(long, help = format!("The schedule: {}", names()), required_unless_present_any = ["all", "order"], conflicts_with_all = ["all", "order"])]
    pub kind: Option<String>,
    /// All schedules in one table
    #[arg(long, conflicts_with_all = ["order", "trace"])]
    pub all: bool,
    /// An order of your own, from a JSON file: {"ranks": ["F0 F1 B0 B1", "F0 B0 F1 B1"]}
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stages", "micro_batches", "chunks", "group"])]
    pub order: Option<PathBuf>,
    /// A time for each pass, transfer and what stands around them: a JSON file, or a timeline of a pipeline job
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "all", "order", "stages", "micro_batches", "limit", "tf", "ti", "tw", "overlap_factor", "p2p", "sends", "trace", "width",
    ])]
    pub durations: Option<PathBuf>,
    /// What each class of work, stage and replica costs by being uneven
    #[arg(long, requires = "durations")]
    pub what_if: bool,
    /// Pipeline ranks
    #[arg(long, short = 'p', required_unless_present_any = ["order", "durations"])]
    pub stages: Option<u32>,
    /// Micro-batches of a step (dualpipe: of both directions together)
    #[arg(long, short = 'm', required_unless_present_any = ["order", "durations"])]
    pub micro_batches: Option<u32>,
    /// Model chunks per rank, where the schedule leaves the choice
    #[arg(long, short = 'v')]
    pub chunks: Option<u16>,
    /// Micro-batches that pass a chunk in a row (interleaved-1f1b) [default: the number of stages]
    #[arg(long)]
    pub group: Option<u32>,
    /// Most activations that a rank may hold, in micro-batches (zb-auto) [default: twice the number of stages]
    #[arg(long, conflicts_with = "order")]
    pub limit: Option<f64>,
    /// Time of a forward pass through one rank's whole share of layers
    #[arg(long, default_value_t = 1.0)]
    pub tf: f64,
    /// Time of the gradients of the inputs
    #[arg(long, default_value_t = 1.0)]
    pub ti: f64,
    /// Time of the gradients of the weights
    #[arg(long, default_value_t = 1.0)]
    pub tw: f64,
    /// Time of a forward and a backward pass overlapped, as a factor on their sum (dualpipe)
    #[arg(long, default_value_t = 1.0)]
    pub overlap_factor: f64,
    /// Delay of a transfer between ranks
    #[arg(long, default_value_t = 0.0)]
    pub p2p: f64,
    /// Whether a send holds up its rank
    #[arg(long, value_enum, default_value_t = SendMode::Asynchronous)]
    pub sends: SendMode,
    /// Writes the timeline (.json, .pftrace, each also with .gz)
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    pub trace: Option<PathBuf>,
    /// Writes a page (.html)
    #[arg(long, value_name = "FILE", help_heading = WRITTEN, conflicts_with_all = ["all", "durations"])]
    pub html: Option<PathBuf>,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    pub report: Option<PathBuf>,
    /// Columns of the drawing [default: the terminal's, or 120]
    #[arg(long)]
    pub width: Option<u16>,
}

/// The schedules known by name.
fn names() -> String {
    schedule::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

/// How sends are queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SendMode {
    /// On a stream of their own.
    Asynchronous,
    /// On the compute stream.
    Blocking,
    /// Blocking, with receives posted between passes.
    Batched,
}

/// Runs the subcommand.
///
/// # Errors
/// The schedule is not defined for these numbers, or a file or number cannot be used (status 2); it does not run, or a file
/// cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let stdout = io::stdout();
    let terminal = stdout.is_terminal();
    let of_terminal = || terminal_size::terminal_size_of(&stdout).map(|(width, _)| width.0);
    let width = args.width.or_else(of_terminal).unwrap_or(120);
    let screen = Screen { width: usize::from(width), color: terminal };
    let mut text = Vec::new();
    run_to(args, screen, &mut text)?;
    say(&String::from_utf8_lossy(&text))
}

fn run_to(args: &Args, screen: Screen, out: &mut Vec<u8>) -> Result<(), Failure> {
    if let Some(file) = &args.durations {
        return durations::run(args, file, out);
    }
    let times = args.times()?;
    if args.all {
        return all::all(args, &times, out);
    }
    let run = match &args.order {
        Some(file) => {
            let order = schedule::order_from_json(&inputs::text(file)?)
                .map_err(|e| Failure::input(format!("{}: {e}", file.display())))?;
            args.check_length(&order)?;
            Run::new(args, &times, None, order)?
        }
        None => {
            let kind = schedule::find(args.kind.as_deref().unwrap_or_default())?;
            let shape = args.shape(kind, true);
            if let Some(value) = args.limit.filter(|_| !kind.facts().searched) {
                let allowed =
                    format!("only a searched schedule has a limit; {} takes what it takes", kind.name());
                return Err(unusable("--limit", value, &allowed));
            }
            let order = kind.order_for(&shape, &args.profile(&shape, &times))?;
            args.check_length(&order)?;
            Run::new(args, &times, Some((kind, shape)), order)?
        }
    };
    if let Some(file) = &args.trace {
        run.trace(file)?;
    }
    if let Some(file) = &args.html {
        write_file(file, page::page(&run).as_bytes())?;
    }
    if let Some(file) = &args.report {
        write_json(file, &run.report())?;
    }
    writeln!(out, "{}", run.headline())?;
    draw::draw(&run.order, &run.outcome, screen, out)?;
    run.summary(out)?;
    Ok(())
}

/// One schedule, played.
struct Run<'a> {
    args: &'a Args,
    times: &'a PassTimes,
    kind: Option<(&'static dyn Schedule, Shape)>,
    order: Order,
    step: AbstractPipeline,
    record: Record,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(
        args: &'a Args,
        times: &'a PassTimes,
        kind: Option<(&'static dyn Schedule, Shape)>,
        order: Order,
    ) -> Result<Self, Failure> {
        let sends = match args.sends {
            SendMode::Asynchronous => Sends::Asynchronous,
            SendMode::Blocking => Sends::Blocking,
            SendMode::Batched => Sends::Batched,
        };
        let step = abstract_world(&order, times, Time::from_s(args.p2p), sends);
        let record = crate::engine::run(&step.world)
            .map_err(|e| Failure::run(format!("the schedule does not run: {e}")))?;
        let outcome = Outcome::new(&order, &step, &record);
        Ok(Run { args, times, kind, order, step, record, outcome })
    }

    fn name(&self) -> &'static str {
        self.kind.map_or("user order", |(kind, _)| kind.name())
    }

    fn headline(&self) -> String {
        let place = &self.order.placement;
        let a = self.args;
        let mut line = format!(
            "{}: {} ranks x {} chunk(s), {} micro-batches; F {} I {} W {}",
            self.name(),
            place.ranks(),
            place.chunks(0),
            self.order.micro_batches,
            a.tf,
            a.ti,
            a.tw
        );
        if a.overlap_factor != 1.0 {
            line += &format!(" F&B {}", self.number(self.times.overlapped));
        }
        if a.p2p > 0.0 {
            line += &format!(" p2p {}", a.p2p);
        }
        line
    }

    /// In abstract units, rounded to what the integer clock can tell.
    fn number(&self, t: Time) -> f64 {
        outcome::number(t, self.order.placement.parts())
    }

    fn summary(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let o = &self.outcome;
        let share = |t: Time| 100.0 * t.s() / o.makespan.s();
        writeln!(out, "makespan     {}", self.number(o.makespan))?;
        writeln!(out, "bubble own   {} ({:.1} %)", self.number(o.own_max()), share(o.own_max()))?;
        writeln!(out, "bubble idle  {} ({:.1} %)", self.number(o.idle_max()), share(o.idle_max()))?;
        let peaks: Vec<_> = o.peak.iter().map(u32::to_string).collect();
        writeln!(out, "peak         {} live micro-batch chunks on rank 0, 1, ...", peaks.join(" "))?;
        let Some((kind, shape)) = self.kind.filter(|_| self.args.p2p == 0.0) else { return Ok(()) };
        if let Some(bubble) = kind.bubble(&shape, self.times) {
            let word = |t: Option<Time>| t.map_or("-".to_owned(), |t| self.number(t).to_string());
            writeln!(out, "closed form  own {} idle {}", word(bubble.own), word(bubble.idle))?;
        }
        Ok(())
    }

    fn report(&self) -> serde_json::Value {
        let mut report = outcome::report(&self.order, &self.outcome);
        let a = self.args;
        report["schedule"] = self.name().into();
        report["times"] = serde_json::json!({
            "forward": a.tf, "input_grad": a.ti, "weight_grad": a.tw,
            "overlapped": self.number(self.times.overlapped), "p2p": a.p2p,
        });
        if let Some((kind, shape)) = self.kind {
            let bubble = kind.bubble(&shape, self.times).unwrap_or_default();
            report["closed_form_without_p2p"] = serde_json::json!({
                "own": bubble.own.map(|t| self.number(t)),
                "idle": bubble.idle.map(|t| self.number(t)),
                "peak": kind.peak(&shape),
            });
        }
        report
    }

    fn trace(&self, file: &std::path::Path) -> Result<(), Failure> {
        let name = |rank: u32| format!("rank {rank:04}");
        let ranks: Vec<TracedRank> = (0..self.record.ranks())
            .map(RankId)
            .map(|rank| TracedRank { rank, source: rank, name: name(rank.0) })
            .collect();
        let mut meta = RunMeta::default();
        meta.text("schedule", self.name());
        meta.number("makespan", self.number(self.outcome.makespan));
        meta.number("own_max", self.number(self.outcome.own_max()));
        meta.number("idle_max", self.number(self.outcome.idle_max()));
        meta.0.push(("micro_batches".to_owned(), MetaValue::Int(u64::from(self.order.micro_batches))));
        let readers =
            RefCell::new((Causes::new(&self.step.world, &self.record), IdleTimes::new(&self.step.world)));
        let stalls = |rank: RankId| {
            let (causes, idle) = &mut *readers.borrow_mut();
            stalls_shown(causes, idle, rank, &|rank| name(rank.0))
        };
        let counts: Vec<Count> = (0..self.record.ranks())
            .map(|rank| Count {
                rank: RankId(rank),
                name: "live micro-batch chunks".to_owned(),
                points: self.outcome.live(&self.order, rank as usize),
            })
            .collect();
        let timeline = Timeline {
            world: &self.step.world,
            record: &self.record,
            ranks: &ranks,
            meta: &meta,
            detail: Detail::Op,
            window: None,
            stalls: Some(&stalls),
            critical: &[],
            slack: None,
            uncontended: None,
            links: &[],
            link_use: &[],
            pools: &[],
            counts: &counts,
            steps: &[],
        };
        crate::trace::write_file(&timeline, file)?;
        Ok(())
    }
}

impl Args {
    /// The numbers for `kind`. With `strict`, chunks and groups are passed on even where the schedule has no use for
    /// them, so that it can say so.
    fn shape(&self, kind: &dyn Schedule, strict: bool) -> Shape {
        let choice = matches!(kind.facts().chunks, schedule::Chunks::AtLeast(..));
        Shape {
            ranks: self.stages.unwrap_or_default(),
            micro_batches: self.micro_batches.unwrap_or_default(),
            chunks: self.chunks.filter(|_| strict || choice),
            group: self.group.filter(|_| strict || kind.facts().groups),
        }
    }

    /// What a searched schedule may know.
    fn profile(&self, shape: &Shape, times: &PassTimes) -> Profile {
        let ranks = vec![*times; shape.ranks.min(Shape::MAX_SLOTS as u32) as usize];
        Profile { ranks, message: Time::from_s(self.p2p), limit: self.limit, kept: 1.0 }
    }

    fn times(&self) -> Result<PassTimes, Failure> {
        let numbers = [
            ("--tf", self.tf),
            ("--ti", self.ti),
            ("--tw", self.tw),
            ("--p2p", self.p2p),
            ("--overlap-factor", self.overlap_factor),
        ];
        for (option, value) in numbers {
            if !(0.0..=1e6).contains(&value) {
                return Err(unusable(option, value, "must be a number from 0 to 1000000"));
            }
        }
        if self.tf + self.ti + self.tw < 1e-6 {
            let allowed = "the passes together must take some time (1e-6 or more)";
            return Err(unusable("--tf", self.tf, allowed));
        }
        let [f, i, w] = [self.tf, self.ti, self.tw].map(Time::from_s);
        Ok(PassTimes::new(f, i, w, self.overlap_factor))
    }

    /// The clock counts picoseconds in 64 bits: refuses what could overflow it, were everything done in turn.
    fn check_length(&self, order: &Order) -> Result<(), Failure> {
        let passes = self.tf + self.ti + self.tw;
        let slots: usize = order.ranks.iter().map(Vec::len).sum();
        let longest = slots as f64 * (passes * self.overlap_factor.max(1.0) + 2.0 * self.p2p);
        if longest > 1e7 {
            let allowed = format!(
                "{slots} slots of such times may take more than 1e7 units, beyond the simulator's clock; use a larger unit \
                 of time"
            );
            return Err(unusable("--tf + --ti + --tw =", passes, &allowed));
        }
        Ok(())
    }
}

/// A number that cannot be used.
fn unusable(option: &str, value: f64, allowed: &str) -> Failure {
    Failure::input(format!("{option} {value}: {allowed}"))
}

#[cfg(test)]
mod tests;
