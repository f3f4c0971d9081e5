//! Counter tracks: how many bytes a rank holds on each tier, by class and in total, and how full shared tiers are.
//!
//! Levels follow from the memory effects of the program and the times of its ops. A tier that is used has a total; a
//! class that never moves, or that only comes and goes with single kernels and is small, has no track: it would cost
//! a row and tell nothing (the report has it). On a tier that ranks share, a rank's counters are its own share, and
//! say so; the tier itself stands with all its holders and its capacity in a process `pools`. The first value stands
//! at the start of what is shown, else a row would look empty until its first change. Of changes within one
//! nanosecond the last counts. Where ops are merged, a level that moves more often is the highest of each of
//! [`STRETCHES`] stretches of time.

use std::io;

use super::places::span;
use super::shown::{Detail, Timeline, TracedRank};
use crate::trace::writer::{CounterUnit, Sink, Value};
use stepsim_core::ids::OpId;
use stepsim_core::program::{MemoryClass, MemoryEffect, MemoryWhen, Program};
use stepsim_core::units::Time;

/// A change of one level. Frees come before allocations of the same instant, as in the engine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LevelChange {
    /// When.
    pub time: Time,
    /// True if it rises.
    pub allocates: bool,
    /// By how much.
    pub bytes: u64,
}

/// A class whose level has only two values is left out if they differ by less than this part of the tier's total.
const FLICKER: f64 = 0.02;

/// So many values of a level are told apart on a screen.
pub const STRETCHES: u64 = 2048;

/// Writes the memory counters of a rank, whose names begin with `rank`; returns how many values that took. `shared`
/// says which tiers of the world have several users.
pub fn memory(
    timeline: &Timeline,
    traced: &TracedRank,
    (pid, rank): (u64, &str),
    shared: &[bool],
    sink: &mut dyn Sink,
) -> io::Result<u64> {
    let tiers = timeline.world.tiers_of(traced.rank);
    let holding = holding(timeline.world.program_of(traced.rank));
    let mut values = 0;
    for (tier, bound) in tiers.iter().enumerate() {
        let name = &timeline.world.tiers[bound.tier.index()].name;
        let same =
            |other: &stepsim_core::program::TierUse| timeline.world.tiers[other.tier.index()].name == *name;
        let own = if shared[bound.tier.index()] { " own share" } else { "" };
        let title = match tiers[..tier].iter().filter(|other| same(other)).count() {
            0 => format!("{rank} {name}{own} bytes"),
            n => format!("{rank} {name} {}{own} bytes", n + 1),
        };
        let levels = |classes: &[MemoryClass]| levels(timeline, traced, &holding, tier, classes);
        let total = levels(&MemoryClass::ALL);
        let most = total.1.iter().map(|point| point.1).fold(total.0, u64::max);
        if most == 0 {
            continue;
        }
        let of_classes = MemoryClass::ALL.map(|class| (class.name(), levels(&[class])));
        let told = of_classes.into_iter().filter(|(_, level)| tells(level, most));
        for (series, (start, points)) in told.chain([("total", total)]) {
            let track = sink.counter_track(pid, &title, series, CounterUnit::Bytes)?;
            let put = |ns, v| sink.counter(track, ns, Value::Uint(v));
            let points = if timeline.detail == Detail::Op { points } else { highest(points, start) };
            values += write_steps(points.into_iter(), start, timeline.window_ns(), put)?;
        }
    }
    Ok(values)
}

/// Ops that take memory or give it back: few of all.
pub fn holding(program: &Program) -> Vec<OpId> {
    let ops = (0..).map(OpId).zip(&program.ops);
    ops.filter(|(_, op)| !op.memory.is_empty()).map(|(id, _)| id).collect()
}

/// Bytes of some classes that a rank holds on its `tier`-th tier: at first, and from which nanosecond on how many.
pub fn levels(
    timeline: &Timeline,
    traced: &TracedRank,
    holding: &[OpId],
    tier: usize,
    classes: &[MemoryClass],
) -> (u64, Vec<(u64, u64)>) {
    let program = timeline.world.program_of(traced.rank);
    let here = |effect: &&MemoryEffect| usize::from(effect.tier) == tier && classes.contains(&effect.class);
    let start: u64 = program.resident.iter().filter(here).map(|effect| effect.bytes).sum();
    let mut level = start;
    let points = changes(timeline, traced, holding, here).into_iter().map(|change| {
        level = if change.allocates { level + change.bytes } else { level.saturating_sub(change.bytes) };
        (change.time.round_ns(), level)
    });
    (start, points.collect())
}

/// Of points in order of time, the highest level in each stretch of time, at its beginning; a few points stay as they
/// are.
pub fn highest(points: Vec<(u64, u64)>, start: u64) -> Vec<(u64, u64)> {
    let Some(&(last, _)) = points.last().filter(|_| points.len() as u64 > STRETCHES) else { return points };
    let width = last / STRETCHES + 1;
    let mut level = start;
    let stretch = |points: &[(u64, u64)]| {
        let most = points.iter().map(|point| point.1).fold(level, u64::max);
        level = points.last().map_or(level, |point| point.1);
        (points[0].0 / width * width, most)
    };
    let mut shown: Vec<_> = points.chunk_by(|a, b| a.0 / width == b.0 / width).map(stretch).collect();
    shown.push((last.max(shown.last().map_or(0, |point| point.0 + 1)), level));
    shown
}

/// True if the level of a class is worth a row beside a total of `most`.
fn tells((start, points): &(u64, Vec<(u64, u64)>), most: u64) -> bool {
    let (low, high) = points.iter().fold((*start, *start), |(low, high), p| (low.min(p.1), high.max(p.1)));
    let two = points.iter().all(|p| p.1 == low || p.1 == high);
    low < high && !(two && ((high - low) as f64) < FLICKER * most as f64)
}

/// The changes that ops of a rank make, in order of time.
pub fn changes(
    timeline: &Timeline,
    traced: &TracedRank,
    holding: &[OpId],
    here: impl Fn(&&MemoryEffect) -> bool,
) -> Vec<LevelChange> {
    let program = timeline.world.program_of(traced.rank);
    let mut changes = Vec::new();
    for &id in holding {
        let effects = program.memory[program.ops[id.index()].memory.range()].iter();
        for effect in effects.filter(&here).filter(|effect| effect.bytes > 0) {
            let (start, end) = span(timeline, traced, id);
            let (time, allocates) = match effect.when {
                MemoryWhen::AllocAtStart => (start, true),
                MemoryWhen::FreeAtStart => (start, false),
                MemoryWhen::FreeAtEnd => (end, false),
            };
            changes.push(LevelChange { time, allocates, bytes: effect.bytes });
        }
    }
    changes.sort_unstable();
    changes
}

/// Writes a step function inside a window: its value there at the beginning, then one value for each nanosecond in
/// which it changes. `points` are in order of time; before the first the value is `start`.
pub fn write_steps(
    points: impl Iterator<Item = (u64, u64)>,
    start: u64,
    (from, until): (u64, u64),
    mut write: impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<u64> {
    let (mut ns, mut value, mut written) = (from, start, None);
    let mut count = 0;
    let mut put = |ns, value, written: &mut Option<u64>| -> io::Result<()> {
        if *written != Some(value) {
            write(ns, value)?;
            *written = Some(value);
            count += 1;
        }
        Ok(())
    };
    for (at, next) in points.take_while(|(at, _)| *at < until) {
        if at.max(from) > ns {
            put(ns, value, &mut written)?;
            ns = at;
        }
        value = next;
    }
    put(ns, value, &mut written)?;
    Ok(count)
}
