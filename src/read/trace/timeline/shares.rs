//! Counters of a rank in percent of what it has: the device's FLOP/s, the bandwidth of its memory, its busiest link,
//! its memory. One axis for all.
//!
//! Rates are means over stretches of time, [`STRETCHES`] a step: a kernel's own rate stands in its slice. Memory is
//! the highest level of each stretch. What stays the same over the step has no row.

use std::io;

use super::counters::{self, write_steps};
use super::places::span;
use super::shown::{Timeline, TracedRank};
use crate::core::program::{MemoryClass, StreamKind};
use crate::core::units::Time;
use crate::read::trace::writer::{CounterUnit, Sink, Value};

/// Stretches of a step over which rates are means.
const STRETCHES: usize = 512;
/// Steps of a value: thousandths of a percent that are not told apart.
const GRAIN: u64 = 100;

/// Amounts by stretch of the step.
struct Stretches {
    width: u64,
    amounts: Vec<f64>,
}

impl Stretches {
    fn new(step: Time) -> Stretches {
        Stretches { width: step.0.div_ceil(STRETCHES as u64).max(1), amounts: vec![0.0; STRETCHES] }
    }

    /// Adds an amount that came evenly between two times.
    fn add(&mut self, start: Time, end: Time, amount: f64) {
        let length = (end.0 - start.0).max(1) as f64;
        let mut from = start.0;
        while from < end.0 {
            let stretch = ((from / self.width) as usize).min(STRETCHES - 1);
            let until = if stretch == STRETCHES - 1 {
                end.0
            } else {
                end.0.min((from / self.width + 1) * self.width)
            };
            self.amounts[stretch] += amount * (until - from) as f64 / length;
            from = until;
        }
    }

    /// Thousandths of a percent from nanosecond on, where `full` a picosecond is all that there is.
    fn percent(&self, full: f64) -> Vec<(u64, u64)> {
        let share = |amount: &f64| amount / (full * self.width as f64) * 1e5 / GRAIN as f64;
        let value = |amount: &f64| share(amount).round().clamp(0.0, 1e3) as u64 * GRAIN;
        (0u64..).map(|i| Time(i * self.width).round_ns()).zip(self.amounts.iter().map(value)).collect()
    }
}

/// Writes the counters of a rank; returns how many values that took. `shared` says which tiers have several users.
pub fn write(
    timeline: &Timeline,
    traced: &TracedRank,
    pid: u64,
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
    let mut rows = vec![(format!("of {:.0} TFLOP/s", peak), flops.percent(peak))];
    if memory.is_finite() {
        rows.push((format!("of {:.0} GB/s memory", memory * 1e3), bytes.percent(memory)));
    }
    if let Some(link) = (capacities.busiest_link)(traced.source) {
        let mut used = Stretches::new(step);
        let ends = link.rates.iter().skip(1).map(|next| next.0).chain([step]);
        for (&(start, rate), end) in link.rates.iter().zip(ends) {
            used.add(start, end, rate.0 / 1e12 * end.saturating_sub(start).0 as f64);
        }
        let name = format!("of {:.0} GB/s busiest link", link.capacity.gbps());
        rows.push((name, used.percent(link.capacity.0 / 1e12)));
    }
    rows.extend(filled(timeline, traced, shared));
    let name = format!("{} %", traced.short_name());
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
    let (start, points) = counters::levels(timeline, traced, 0, &MemoryClass::ALL);
    let width = Stretches::new(timeline.record.step_end).width;
    let of = |bytes: u64| (bytes as f64 / capacity as f64 * 1e5 / GRAIN as f64).round() as u64 * GRAIN;
    let mut level = start;
    let mut shown = vec![(0, of(start))];
    for stretch in points.chunk_by(|a, b| a.0 * 1000 / width == b.0 * 1000 / width) {
        let most = stretch.iter().map(|point| point.1).fold(level, u64::max);
        level = stretch[stretch.len() - 1].1;
        shown.push((Time(stretch[0].0 * 1000 / width * width).round_ns(), of(most)));
    }
    // What is left at the end.
    shown.push((timeline.record.step_end.round_ns(), of(level)));
    (capacity > 0 && capacity < 1 << 60).then(|| (format!("of {} {}", tier.capacity, tier.name), shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_spread_over_the_stretches_that_it_touches() {
        let mut flops = Stretches::new(Time(5120));
        flops.add(Time(5), Time(25), 20.0);
        flops.add(Time(5100), Time(5120), 40.0);
        assert_eq!(flops.amounts[..4], [5.0, 10.0, 5.0, 0.0]);
        assert_eq!(flops.amounts[510..], [20.0, 20.0]);
        assert_eq!(flops.percent(2.0)[..2], [(0, 25_000), (0, 50_000)]);
        assert_eq!(flops.amounts.iter().sum::<f64>(), 60.0);
    }
}
