//! Counters of a rank in percent of what it has: the device's FLOP/s, the bandwidth of its memory, its busiest link,
//! its memory. One axis for all.
//!
//! Rates are means over [stretches](Stretches) of the step: a kernel's own rate stands in its slice. Memory is
//! the highest level of each stretch. A class that stays the same over the step has no row.

use std::io;

use super::counters::{self, write_steps};
use super::places::span;
use super::shown::{Timeline, TracedRank};
use crate::analysis::stretches::Stretches;
use crate::trace::writer::{CounterUnit, Sink, Value};
use stepsim_core::program::{MemoryClass, StreamKind};
use stepsim_core::units::Time;

/// Steps of a value: thousandths of a percent that are not told apart.
const GRAIN: u64 = 100;

/// Thousandths of a percent from nanosecond on, where `full` a picosecond is all that there is.
fn percent(came: &Stretches, full: f64) -> Vec<(u64, u64)> {
    let value = |share: f64| (share * 1e5 / GRAIN as f64).round().clamp(0.0, 1e3) as u64 * GRAIN;
    came.shares(full).map(|(from, share)| (from.round_ns(), value(share))).collect()
}

/// Writes the counters of a rank, whose names begin with `rank`; returns how many values that took. `shared` says which
/// tiers have several users.
pub fn write(
    timeline: &Timeline,
    traced: &TracedRank,
    (pid, rank): (u64, &str),
    shared: &[bool],
    sink: &mut dyn Sink,
) -> io::Result<u64> {
    let Some(capacities) = timeline.capacities else { return Ok(0) };
    let step = timeline.record.step_end;
    let program = timeline.world.program_of(traced.rank);
    let (mut flops, mut bytes) = (Stretches::new(step), Stretches::new(step));
    let kernels = program.streams.iter().filter(|stream| stream.kind == StreamKind::Compute);
    for id in kernels.flat_map(|stream| &stream.ops) {
        let info = &program.infos[program.ops[id.index()].info as usize];
        let (start, end) = span(timeline, traced, *id);
        flops.add(start, end, info.flops);
        bytes.add(start, end, info.bytes);
    }
    let (peak, memory) = (capacities.flops.0 / 1e12, capacities.memory.0 / 1e12);
    let mut rows = vec![(format!("of {:.0} TFLOP/s", peak), percent(&flops, peak))];
    if memory.is_finite() {
        rows.push((format!("of {:.0} GB/s memory", memory * 1e3), percent(&bytes, memory)));
    }
    if let Some(link) = (capacities.busiest_link)(traced.source) {
        let name = format!("of {:.0} GB/s busiest link", link.capacity.gbps());
        rows.push((name, percent(&link.bytes, link.capacity.0 / 1e12)));
    }
    rows.extend(filled(timeline, traced, shared));
    let name = format!("{rank} %");
    let mut values = 0;
    for (series, points) in rows.into_iter().filter(|(_, points)| points.iter().any(|p| p.1 != points[0].1)) {
        let track = sink.counter_track(pid, &name, &series, CounterUnit::Percent)?;
        let put = |ns, share| sink.counter(track, ns, Value::Milli(share));
        values += write_steps(points.iter().copied(), points[0].1, timeline.window_ns(), put)?;
    }
    Ok(values)
}

/// How full the device's own memory is; of a tier that is `shared` one rank's part would say little.
fn filled(timeline: &Timeline, traced: &TracedRank, shared: &[bool]) -> Option<(String, Vec<(u64, u64)>)> {
    let bound = timeline.world.tiers_of(traced.rank).first()?;
    if shared[bound.tier.index()] {
        return None;
    }
    let tier = &timeline.world.tiers[bound.tier.index()];
    let capacity = tier.capacity.0;
    let holding = counters::holding(timeline.world.program_of(traced.rank));
    let (start, points) = counters::levels(timeline, traced, &holding, 0, &MemoryClass::ALL);
    let width = Stretches::new(timeline.record.step_end).width().0;
    let of = |bytes: u64| (bytes as f64 / capacity as f64 * 1e5 / GRAIN as f64).round() as u64 * GRAIN;
    let mut level = start;
    let mut shown = vec![(0, of(start))];
    for stretch in points.chunk_by(|a, b| a.0 * 1000 / width == b.0 * 1000 / width) {
        let most = stretch.iter().map(|point| point.1).fold(level, u64::max);
        level = stretch[stretch.len() - 1].1;
        shown.push((Time(stretch[0].0 * 1000 / width * width).round_ns(), of(most)));
    }
    // The rest at the end.
    shown.push((timeline.record.step_end.round_ns(), of(level)));
    (capacity > 0 && capacity < 1 << 60).then(|| (format!("of {} {}", tier.capacity, tier.name), shown))
}
