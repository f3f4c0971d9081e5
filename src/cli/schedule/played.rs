//! One schedule, played.

use std::io;
use std::io::Write;

use super::super::Failure;
use super::super::timeline::of_whole;
use super::args::Args;
use super::outcome;
use super::outcome::ScheduleOutcome;
use stepsim_core::engine::Record;
use stepsim_core::ids::RankId;
use stepsim_core::units::Time;
use stepsim_plan::pipeline::{AbstractPipeline, Sends, abstract_world_over};
use stepsim_read::trace::{CounterTrack, RunMeta, Timeline, write_file};
use stepsim_schedule::{Order, PassTimes, Schedule, Shape};

/// One schedule, played.
pub(super) struct ScheduleRun<'a> {
    pub(super) args: &'a Args,
    pub(super) times: &'a PassTimes,
    pub(super) kind: Option<(&'static dyn Schedule, Shape)>,
    pub(super) order: Order,
    pub(super) step: AbstractPipeline,
    pub(super) record: Record,
    pub(super) outcome: ScheduleOutcome,
}

impl<'a> ScheduleRun<'a> {
    pub(super) fn new(
        args: &'a Args,
        times: &'a PassTimes,
        kind: Option<(&'static dyn Schedule, Shape)>,
        order: Order,
    ) -> Result<Self, Failure> {
        let p2p = Time::from_s(args.p2p);
        let step = abstract_world_over(&order, times, p2p, args.slow_edge(), Sends::Asynchronous);
        let record = stepsim_core::engine::run(&step.world)
            .map_err(|e| Failure::run(format!("the schedule does not run: {e}")))?;
        let outcome = ScheduleOutcome::new(&order, &step, &record);
        Ok(ScheduleRun { args, times, kind, order, step, record, outcome })
    }

    fn name(&self) -> &'static str {
        self.kind.map_or("user order", |(kind, _)| kind.name())
    }

    pub(super) fn headline(&self) -> String {
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
        if a.p2p > 0.0 {
            line += &format!(" p2p {}", a.p2p);
        }
        if let Some((after, delay)) = a.slow_edge {
            line += &format!(" and {delay} more behind rank {after}");
        }
        line
    }

    /// In abstract units, rounded to what the integer clock can tell.
    pub(super) fn number(&self, t: Time) -> f64 {
        outcome::number(t, self.order.placement.parts())
    }

    pub(super) fn summary(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let o = &self.outcome;
        let share = |t: Time| 100.0 * t.s() / o.makespan.s();
        writeln!(out, "makespan     {}", self.number(o.makespan))?;
        writeln!(out, "bubble own   {} ({:.1} %)", self.number(o.own_max()), share(o.own_max()))?;
        writeln!(out, "bubble idle  {} ({:.1} %)", self.number(o.idle_max()), share(o.idle_max()))?;
        let peaks: Vec<_> = o.peak.iter().map(u32::to_string).collect();
        writeln!(out, "peak         {} live micro-batch chunks on rank 0, 1, ...", peaks.join(" "))?;
        if let (Some(edge), Some((_, shape))) = (self.args.slow_edge(), self.kind)
            && self.args.p2p == 0.0
        {
            let law = edge.makespan(&shape, self.times);
            let law = law
                .map_or("none between the two laws".to_owned(), |t| format!("makespan {}", self.number(t)));
            return writeln!(out, "closed form  {law}");
        }
        let Some((kind, shape)) = self.kind.filter(|_| self.args.p2p == 0.0) else { return Ok(()) };
        if let Some(bubble) = kind.bubble(&shape, self.times) {
            let word = |t: Option<Time>| t.map_or("-".to_owned(), |t| self.number(t).to_string());
            writeln!(out, "closed form  own {} idle {}", word(bubble.own), word(bubble.idle))?;
        }
        Ok(())
    }

    pub(super) fn report(&self) -> serde_json::Value {
        let mut report = outcome::report(&self.order, &self.outcome);
        let a = self.args;
        report["schedule"] = self.name().into();
        report["times"] = serde_json::json!({
            "forward": a.tf, "input_grad": a.ti, "weight_grad": a.tw,
            "overlapped": self.number(self.times.overlapped), "p2p": a.p2p,
        });
        if let (Some(edge), Some((_, shape))) = (a.slow_edge(), self.kind) {
            report["slow_edge"] = serde_json::json!({
                "after": edge.after, "delay": self.number(edge.delay), "more_warm_up": edge.more_warm_up,
                "closed_form_makespan": edge.makespan(&shape, self.times).map(|t| self.number(t)),
            });
        }
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

    pub(super) fn trace(&self, file: &std::path::Path) -> Result<(), Failure> {
        let name = |rank: RankId| format!("rank {:04}", rank.0);
        let mut meta = RunMeta::default();
        meta.text("schedule", self.name());
        meta.number("makespan", self.number(self.outcome.makespan));
        meta.number("own_max", self.number(self.outcome.own_max()));
        meta.number("idle_max", self.number(self.outcome.idle_max()));
        meta.int("micro_batches", u64::from(self.order.micro_batches));
        let counts: Vec<CounterTrack> = (0..self.record.ranks())
            .map(|rank| CounterTrack {
                rank: RankId(rank),
                name: "live micro-batch chunks".to_owned(),
                points: self.outcome.live(&self.order, rank as usize),
            })
            .collect();
        let ranks = (0..self.record.ranks()).map(RankId);
        of_whole((&self.step.world, &self.record), ranks, &name, &meta, |timeline| {
            write_file(&Timeline { counts: &counts, ..timeline }, file)
        })?;
        Ok(())
    }
}
