//! The arguments of `schedule`.

use std::path::PathBuf;

use super::super::Failure;
use super::super::outputs::WRITTEN;
use stepsim_core::units::Time;
use stepsim_schedule as schedule;
use stepsim_schedule::{Order, PassProfile, PassTimes, Schedule, Shape, SlowEdge};

/// Runs a pipeline schedule on abstract durations and draws it.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The schedule
    #[arg(long, help = format!("The schedule: {}", names()), required_unless_present_any = ["all", "order"],
        conflicts_with_all = ["all", "order"])]
    pub kind: Option<String>,
    /// All schedules in one table; with --order yours among them, for its numbers
    #[arg(long, conflicts_with = "trace")]
    pub all: bool,
    /// An order of your own, from a JSON file: {"ranks": ["F0 F1 B0 B1", "F0 B0 F1 B1"]}
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stages", "micro_batches", "chunks"])]
    pub order: Option<PathBuf>,
    /// Pipeline ranks
    #[arg(long, short = 'p', required_unless_present = "order")]
    pub stages: Option<u32>,
    /// Micro-batches of a step (dualpipe: of both directions together)
    #[arg(long, short = 'm', required_unless_present = "order")]
    pub micro_batches: Option<u32>,
    /// Model chunks per rank, where the schedule leaves the choice
    #[arg(long, short = 'v')]
    pub chunks: Option<u16>,
    /// Time of a forward pass through one rank's whole share of layers
    #[arg(long, default_value_t = 1.0)]
    pub tf: f64,
    /// Time of the gradients of the inputs
    #[arg(long, default_value_t = 1.0)]
    pub ti: f64,
    /// Time of the gradients of the weights
    #[arg(long, default_value_t = 1.0)]
    pub tw: f64,
    /// Delay of a transfer between ranks
    #[arg(long, default_value_t = 0.0)]
    pub p2p: f64,
    /// The extra time of transfers behind a rank, as between two sites: `3:1.5` of 1f1b; the closed form stands beside
    #[arg(long, value_name = "RANK:DELAY", value_parser = slow_edge,
        conflicts_with_all = ["all", "order"])]
    pub slow_edge: Option<(u32, f64)>,
    /// Forwards that the ranks up to the slow edge do more before their first backward
    #[arg(long, value_name = "N", requires = "slow_edge", default_value_t = 0,
        value_parser = crate::asked::whole::<u32>(0..=1 << 20))]
    pub more_warm_up: u32,
    /// Writes the timeline (.json, .pftrace, each also with .gz)
    #[arg(short = 'o', long = "output", alias = "trace", value_name = "FILE", help_heading = WRITTEN)]
    pub trace: Option<PathBuf>,
    /// Writes a page (.html)
    #[arg(long, value_name = "FILE", help_heading = WRITTEN, conflicts_with = "all")]
    pub html: Option<PathBuf>,
    /// Writes the results as JSON
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    pub report: Option<PathBuf>,
}

/// The schedules known by name.
pub(crate) fn names() -> String {
    schedule::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

impl Args {
    /// The numbers for `kind`. With `strict`, chunks are passed on even where the schedule has no use for them, so that
    /// it can say so.
    pub(super) fn shape(&self, kind: &dyn Schedule, strict: bool) -> Shape {
        let choice = matches!(kind.facts().chunks, schedule::ChunkCount::AtLeast(..));
        Shape {
            ranks: self.stages.unwrap_or_default(),
            micro_batches: self.micro_batches.unwrap_or_default(),
            chunks: self.chunks.filter(|_| strict || choice),
            group: None,
        }
    }

    /// The same for the stages, micro-batches and chunks of an order.
    pub(super) fn as_of(&self, order: &Order) -> Args {
        Args {
            stages: Some(order.placement.ranks()),
            micro_batches: Some(order.micro_batches),
            chunks: Some(order.placement.chunks(0)),
            ..self.clone()
        }
    }

    pub(super) fn slow_edge(&self) -> Option<SlowEdge> {
        let (after, delay) = self.slow_edge?;
        Some(SlowEdge { after, delay: Time::from_s(delay), more_warm_up: self.more_warm_up })
    }

    /// The order of 1F1B with a slow edge.
    pub(super) fn slow_order(&self, kind: &dyn Schedule, shape: &Shape) -> Result<Option<Order>, Failure> {
        let Some(edge) = self.slow_edge() else { return Ok(None) };
        if kind.name() != schedule::OneFOneB.name() {
            return Err(unusable("--slow-edge", f64::from(edge.after), "is for --kind 1f1b"));
        }
        if edge.after + 1 >= shape.ranks {
            let allowed = format!("a rank with one behind it: 0 to {}", shape.ranks.saturating_sub(2));
            return Err(unusable("--slow-edge", f64::from(edge.after), &allowed));
        }
        Ok(Some(edge.order(shape)?))
    }

    /// The facts that a searched schedule may know.
    pub(super) fn profile(&self, shape: &Shape, times: &PassTimes) -> PassProfile {
        let ranks = vec![*times; shape.ranks.min(Shape::MAX_SLOTS as u32) as usize];
        PassProfile { ranks, message: Time::from_s(self.p2p), limit: None, kept: 1.0 }
    }

    pub(super) fn times(&self) -> Result<PassTimes, Failure> {
        let numbers = [("--tf", self.tf), ("--ti", self.ti), ("--tw", self.tw), ("--p2p", self.p2p)];
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
        Ok(PassTimes::new(f, i, w, 1.0))
    }

    /// The clock counts picoseconds in 64 bits: refuses what could overflow it, were everything done in turn.
    pub(super) fn check_length(&self, order: &Order) -> Result<(), Failure> {
        let passes = self.tf + self.ti + self.tw;
        let slots: usize = order.ranks.iter().map(Vec::len).sum();
        let p2p = self.p2p + self.slow_edge.map_or(0.0, |edge| edge.1);
        let longest = slots as f64 * (passes + 2.0 * p2p);
        if longest > 1e7 {
            let allowed = format!(
                "{slots} slots of such times may take more than 1e7 units, beyond the simulator's clock; use \
                 a larger unit of time"
            );
            return Err(unusable("--tf + --ti + --tw =", passes, &allowed));
        }
        Ok(())
    }
}

fn slow_edge(text: &str) -> Result<(u32, f64), String> {
    let parts =
        text.split_once(':').and_then(|(rank, delay)| Some((rank.parse().ok()?, delay.parse::<f64>().ok()?)));
    let sound = parts.filter(|(_, delay)| (0.0..=1e6).contains(delay));
    sound.ok_or_else(|| "not RANK:DELAY, like `3:1.5` (a delay from 0 to 1000000)".to_owned())
}

/// A number that cannot be used.
pub(crate) fn unusable(option: &str, value: f64, allowed: &str) -> Failure {
    Failure::input(format!("{option} {value}: {allowed}"))
}
