//! The outcome of a schedule: spans, bubbles, peaks.

use serde_json::{Value, json};

use stepsim_core::engine::Record;
use stepsim_core::ids::RankId;
use stepsim_core::units::Time;
use stepsim_plan::pipeline::AbstractPipeline;
use stepsim_schedule::{Order, Pass, Seat};

/// Times of a schedule that was played.
pub(super) struct ScheduleOutcome {
    /// End of the last slot.
    pub makespan: Time,
    /// Start and end of each slot of each rank.
    pub spans: Vec<Vec<(Time, Time)>>,
    /// Live micro-batch chunks at the worst moment of each rank.
    pub peak: Vec<u32>,
}

impl ScheduleOutcome {
    pub fn new(order: &Order, step: &AbstractPipeline, record: &Record) -> ScheduleOutcome {
        let spans: Vec<Vec<_>> = (0u32..)
            .zip(&step.slot_ops)
            .map(|(rank, ops)| ops.iter().map(|op| record.span(RankId(rank), *op)).collect())
            .collect();
        let makespan = spans.iter().flatten().map(|s: &(Time, Time)| s.1).max().unwrap_or_default();
        ScheduleOutcome { makespan, spans, peak: order.peak() }
    }
    /// How many micro-batch chunks are live on a rank from when on.
    pub fn live(&self, order: &Order, rank: usize) -> Vec<(Time, u64)> {
        let mut changes: Vec<(Time, i64)> = vec![(Time::ZERO, 0)];
        for (slot, (start, end)) in order.ranks[rank].iter().zip(&self.spans[rank]) {
            for part in slot.parts() {
                match part.pass {
                    Pass::Forward => changes.push((*start, 1)),
                    Pass::Backward | Pass::WeightGrad => changes.push((*end, -1)),
                    Pass::InputGrad => {}
                }
            }
        }
        // An end gives room before a beginning at the same moment.
        changes.sort();
        let level = |live: &mut i64, (time, change): (Time, i64)| {
            *live += change;
            Some((time, u64::try_from(*live).unwrap_or(0)))
        };
        changes.into_iter().scan(0, level).collect()
    }
    fn start(&self, rank: usize) -> Time {
        self.spans[rank].first().map_or(Time::ZERO, |s| s.0)
    }
    fn end(&self, rank: usize) -> Time {
        self.spans[rank].last().map_or(Time::ZERO, |s| s.1)
    }
    fn busy(&self, rank: usize) -> Time {
        self.spans[rank].iter().map(|s| s.1 - s.0).sum()
    }
    /// Idle time of a rank between its first start and its last end.
    fn own(&self, rank: usize) -> Time {
        self.end(rank) - self.start(rank) - self.busy(rank)
    }
    /// Idle time of a rank within the makespan.
    fn idle(&self, rank: usize) -> Time {
        self.makespan - self.busy(rank)
    }
    /// The worst rank's own bubble.
    pub fn own_max(&self) -> Time {
        (0..self.spans.len()).map(|r| self.own(r)).max().unwrap_or_default()
    }
    /// The worst rank's idle time.
    pub fn idle_max(&self) -> Time {
        (0..self.spans.len()).map(|r| self.idle(r)).max().unwrap_or_default()
    }
}

/// In seconds, rounded to 9 decimals, or to 6 where a chunk's time had to be rounded because `parts` does not divide a
/// second.
pub(super) fn number(t: Time, parts: u32) -> f64 {
    let exact = 1_000_000_000_000u64.is_multiple_of(u64::from(parts));
    if exact { t.round_ns() as f64 / 1e9 } else { ((t.round_ns() + 500) / 1000) as f64 / 1e6 }
}

/// Messages between ranks in one step.
pub(super) fn messages(order: &Order) -> u64 {
    let place = &order.placement;
    let crossings = |d: u16| place.path(d).windows(2).filter(|w| w[0].rank != w[1].rank).count() as u64;
    (0..place.directions()).map(|d| 2 * crossings(d) * u64::from(order.per_direction())).sum()
}

/// `4`, or `1..4`.
pub(super) fn peak_range(peak: &[u32]) -> String {
    let (least, most) = (peak.iter().min().unwrap_or(&0), peak.iter().max().unwrap_or(&0));
    if least == most { most.to_string() } else { format!("{least}..{most}") }
}

/// The worst rank's peak in rank shares; `parts` chunks make one.
pub(super) fn peak_shares(peak: &[u32], parts: u32) -> String {
    let most = f64::from(*peak.iter().max().unwrap_or(&0)) / f64::from(parts);
    format!("{}", (most * 100.0).round() / 100.0)
}

/// Results and per-rank detail, times in abstract units.
pub(super) fn report(order: &Order, o: &ScheduleOutcome) -> Value {
    let place = &order.placement;
    let n = |t: Time| number(t, place.parts());
    let rank = |r: usize| {
        let stages = (0..place.chunks(r as u32)).map(|chunk| place.stage(Seat { rank: r as u32, chunk }));
        let slots = order.ranks[r].iter().zip(&o.spans[r]);
        json!({
            "rank": r,
            "stages": stages.map(|at| at.stage).collect::<Vec<_>>(),
            "start": n(o.start(r)), "end": n(o.end(r)), "busy": n(o.busy(r)),
            "own": n(o.own(r)), "idle": n(o.idle(r)), "peak": o.peak[r],
            "slots": slots.map(|(slot, s)| json!([slot.to_string(), n(s.0), n(s.1)])).collect::<Vec<_>>(),
        })
    };
    json!({
        "schedule": null,
        "stages": place.ranks(),
        "chunks": place.chunks(0),
        "micro_batches": order.micro_batches,
        "makespan": n(o.makespan),
        "own_max": n(o.own_max()),
        "idle_max": n(o.idle_max()),
        "peak": o.peak,
        "messages": messages(order),
        "times": null,
        "closed_form_without_p2p": null,
        "ranks": (0..o.spans.len()).map(rank).collect::<Vec<_>>(),
    })
}
