//! The waterfall for people: a line a group, and in full by bar and stage with the kernels by class.

use std::fmt::Write;

use super::cells::{grouped, new_table, percent, seconds};
use super::report::Report;
use super::waterfall_report::{BarReport, BarsReport};

/// Bars of less than this part of the peak are shown as one.
const SMALL: f64 = 0.0005;
/// Stages that have a column of their own.
const MOST_STAGES: usize = 8;

/// A line for each group, with its largest bars behind it; nothing where there is no waterfall.
pub fn compact(out: &mut String, r: &Report, width: u16) {
    let Some(waterfall) = &r.waterfall else { return };
    let bars = &waterfall.mean;
    let _ = writeln!(out, "\nFrom peak to MFU (% of the peak)");
    let mut rest = 0.0;
    for (group, share, bars) in bars.groups() {
        if share.abs() < SMALL {
            rest += share;
            continue;
        }
        let line = format!("  {group:<22} {:>6.1}  ", -100.0 * share);
        let room = usize::from(width).saturating_sub(line.chars().count());
        let _ = writeln!(out, "{}", (line + &largest(bars, r, room)).trim_end());
    }
    if rest.abs() >= SMALL {
        let _ = writeln!(out, "  {:<22} {:>6.1}", "other", -100.0 * rest);
    }
    let _ = writeln!(out, "  {:<22} {:>6.1}", "= MFU", 100.0 * bars.mfu);
}

/// The bars of a group, largest first, as many as there is room for; matrix kernels with their rates.
fn largest(bars: &[BarReport], r: &Report, room: usize) -> String {
    let mut sums: Vec<(String, f64)> = Vec::new();
    for bar in bars.iter().filter(|b| !b.what.is_empty()) {
        let name = if bar.part.is_empty() { bar.what.clone() } else { format!("{} {}", bar.what, bar.part) };
        sums.push((name, bar.share));
    }
    sums.retain(|s| s.1.abs() >= SMALL);
    sums.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let mut text = String::new();
    for (name, share) in sums {
        let rate = r.kernels.iter().find(|k| k.class.name() == name && k.tflops > 0.0);
        let rate = rate.map_or(String::new(), |k| format!(" ({:.0} TFLOP/s)", k.tflops));
        let comma = if text.is_empty() { "" } else { ", " };
        let item = format!("{comma}{name} {:.1}{rate}", 100.0 * share);
        if text.chars().count() + item.chars().count() > room {
            break;
        }
        text += &item;
    }
    text
}

/// Every bar, mean and by stage, and the kernels by class.
pub fn full(out: &mut String, r: &Report, width: u16) {
    if let Some(waterfall) = &r.waterfall {
        let few = waterfall.stages.len() > 1 && waterfall.stages.len() <= MOST_STAGES;
        let stages: &[BarsReport] = if few { &waterfall.stages } else { &[] };
        by_stage(out, &waterfall.mean, stages, width);
    }
    if !r.kernels.is_empty() {
        kernels(out, r, width);
    }
    slack(out, r, width);
}

/// How much of each kind of op cannot be late.
fn slack(out: &mut String, r: &Report, width: u16) {
    let head = ["slack", "ops", "time", "without", "< 1 % of step", "least"];
    let mut table = new_table(width, head.map(String::from).to_vec());
    for (kind, s) in &r.slack {
        table.add_row([
            kind.words().to_string(),
            grouped(s.ops.round() as u64),
            seconds(s.time_s),
            seconds(s.binding_s),
            seconds(s.near_s),
            seconds(s.least_s),
        ]);
    }
    let _ = writeln!(out, "\nHow late ops may end without moving the step (mean of a rank)\n{table}");
}

fn by_stage(out: &mut String, mean: &BarsReport, stages: &[BarsReport], width: u16) {
    let mut head: Vec<String> = ["", "mean"].map(String::from).to_vec();
    head.extend((0..stages.len()).map(|s| s.to_string()));
    let mut table = new_table(width, head);
    let everywhere = |of: &dyn Fn(&BarsReport) -> f64| -> Vec<f64> {
        std::iter::once(mean).chain(stages).map(of).collect()
    };
    let mut add = |name: String, shares: Vec<f64>| {
        table.add_row(std::iter::once(name).chain(shares.into_iter().map(hundredths)));
    };
    for (group, _, bars) in mean.groups() {
        let of_group =
            |b: &BarsReport| b.bars.iter().filter(|bar| bar.group == group).map(|bar| bar.share).sum();
        let shares = everywhere(&of_group);
        if shares.iter().all(|s| s.abs() < SMALL / 10.0) {
            continue;
        }
        add(group.to_string(), shares);
        for bar in bars.iter().filter(|bar| !bar.what.is_empty()) {
            let same = |b: &&BarReport| (&b.group, &b.what, &b.part) == (&bar.group, &bar.what, &bar.part);
            let shares = everywhere(&|b| b.bars.iter().find(same).map_or(0.0, |b| b.share));
            if shares.iter().any(|s| s.abs() >= SMALL / 10.0) {
                add(format!("  {} {}", bar.what, bar.part).trim_end().to_string(), shares);
            }
        }
    }
    add("= MFU".into(), everywhere(&|b| b.mfu));
    let of_stages = if stages.is_empty() { "" } else { "; mean, then by stage" };
    let _ = writeln!(out, "\nFrom peak to MFU, bar by bar (% of the peak{of_stages})\n{table}");
}

/// A fraction of one in percent, its unit said elsewhere; a dot for none.
fn hundredths(fraction: f64) -> String {
    if fraction == 0.0 { "·".to_string() } else { format!("{:.1}", 100.0 * fraction) }
}

fn kernels(out: &mut String, r: &Report, width: u16) {
    let head = ["kernels", "count", "time", "of step", "TFLOP/s", "GB/s", "bound by"];
    let mut table = new_table(width, head.map(String::from).to_vec());
    let rate = |x: f64| if x == 0.0 { "·".to_string() } else { format!("{x:.0}") };
    for k in &r.kernels {
        table.add_row([
            k.class.name().to_string(),
            grouped(k.count.round() as u64),
            seconds(k.time_s),
            percent(k.share),
            rate(k.tflops),
            rate(k.gbps),
            k.bound.name().to_string(),
        ]);
    }
    let _ = writeln!(out, "\nKernels by class (mean of a rank)\n{table}");
}
