//! The report on one screen: how fast, what the step hangs on, where the rest of the peak went, and what to try first.

use std::fmt::Write;

use super::cells::percent;
use super::critical_report::OnRank;
use super::kind::OpKind;
use super::report::{Report, TierReport};
use super::stalls::StallCause;
use super::{table, waterfall_table};
use crate::core::program::MemoryClass;
use crate::core::units::{Bytes, Time};

/// What costs less than this part of the step is no lever.
const SMALL: f64 = 0.005;

/// What the command line knows and the report does not.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// What measured steps say of this one's time.
    pub alike: &'a str,
    /// The command that tries a change: `stepsim whatif` with the inputs of the run.
    pub whatif: Option<&'a str>,
}

/// At most 25 lines, of `width` columns (80 are enough). Ends in a newline.
pub fn digest(r: &Report, asked: Asked, width: u16) -> String {
    let mut out = String::new();
    table::headline(&mut out, r, width);
    let words: Vec<String> = asked.alike.split_whitespace().map(String::from).collect();
    if !words.is_empty() {
        table::write_words(&mut out, &words, width);
    }
    hangs_on(&mut out, r, width);
    waterfall_table::compact(&mut out, r, width);
    out.push('\n');
    prefetch(&mut out, r);
    fullest(&mut out, r);
    lever(&mut out, r, asked.whatif);
    if let Some(samples) = &r.samples {
        table::step_times(&mut out, samples, width);
    }
    out
}

/// What the step hangs on, and its critical path by kind of op in one line.
fn hangs_on(out: &mut String, r: &Report, width: u16) {
    table::hangs_on(out, r, width);
    let step = r.run_time_s.max(f64::MIN_POSITIVE);
    let parts = table::path_parts(r);
    if parts.is_empty() {
        return;
    }
    let parts: Vec<_> =
        parts.iter().take(4).map(|(name, s)| format!("{name} {}", percent(s / step))).collect();
    let _ = writeln!(out, "  {}", parts.join(", "));
}

/// How many copies came too late.
fn prefetch(out: &mut String, r: &Report) {
    let late = r.prefetch.iter().filter(|p| p.needed_s > p.had_s).count();
    if late > 0 {
        let all = r.prefetch.len();
        let _ = writeln!(out, "Prefetch  too late for {late} of {all} layers and phases (--full: the worst)");
    }
}

/// The tier of a stage that is fullest, and what fills it.
fn fullest(out: &mut String, r: &Report) {
    let full = |t: &TierReport| t.peak_bytes as f64 / t.capacity_bytes.max(1) as f64;
    let tiers = r.stages.iter().flat_map(|s| s.memory.iter().map(move |(name, tier)| (s.stage, name, tier)));
    let Some((stage, name, tier)) = tiers.max_by(|a, b| full(a.2).total_cmp(&full(b.2))) else { return };
    let mut classes: Vec<(&str, u64)> = MemoryClass::ALL
        .iter()
        .filter_map(|c| tier.by_class.get(c.name()).map(|bytes| (c.name(), *bytes)))
        .filter(|(_, bytes)| *bytes > 0)
        .collect();
    classes.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let held: Vec<_> = classes.iter().take(2).map(|(name, b)| format!("{name} {}", Bytes(*b))).collect();
    let of_stage = if r.stages.len() > 1 { format!(", stage {stage}") } else { String::new() };
    let _ = writeln!(
        out,
        "Memory    {name} {} full{of_stage}: {} of {}",
        percent(full(tier)),
        Bytes(tier.peak_bytes),
        Bytes(tier.capacity_bytes)
    );
    if !held.is_empty() {
        let _ = writeln!(out, "          {}", held.join(", "));
    }
}

/// What costs most that can be taken away, with the command that takes it away.
fn lever(out: &mut String, r: &Report, whatif: Option<&str>) {
    let Some(whatif) = whatif else { return };
    let step = r.run_time_s.max(f64::MIN_POSITIVE);
    let path = r.critical_path.by_kind_s.iter();
    let of_kind = path.filter(|(kind, _)| !matches!(kind, OpKind::Compute | OpKind::Host));
    let bubble = r.mean.stalls_s.get(&StallCause::PipelineBubble).copied().unwrap_or(0.0);
    let mut costs: Vec<(&str, &str, f64)> =
        of_kind.map(|(kind, s)| (kind.words(), kind.name(), *s)).collect();
    costs.push(("pipeline bubble", "bubble", bubble));
    costs.push(("exposed communication", "exposed", r.critical_path.contention_s));
    costs.extend(of_slow_ranks(r).map(|s| ("the slow ranks", "stragglers", s)));
    let Some((words, name, s)) = costs.into_iter().max_by(|a, b| a.2.total_cmp(&b.2)) else { return };
    if s < SMALL * step {
        let _ = writeln!(out, "Try       {whatif}     (what 10 % on each resource buys)");
        return;
    }
    let gain = (percent(s / step), Time::from_s(s));
    let _ = writeln!(out, "Try       without {words}: at most {} of the step, {}", gain.0, gain.1);
    let _ = writeln!(out, "          {whatif} --without {name}");
}

/// The most that slow ranks can cost: what their part of the critical path is longer than on healthy ones.
fn of_slow_ranks(r: &Report) -> Option<f64> {
    let beyond = |on: &OnRank| {
        let slow = r.slow_ranks.iter().find(|s| s.ranks.binary_search(&on.rank).is_ok())?;
        Some(on.time_s * (1.0 - 1.0 / slow.slowness))
    };
    (!r.slow_ranks.is_empty()).then(|| r.critical_path.ranks.iter().filter_map(beyond).sum())
}
