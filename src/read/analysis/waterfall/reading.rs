//! The reading of the way from the peak to MFU.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{BarReport, BarsReport, WaterfallReport, waterfalls};
use crate::analysis::cells::{SMALL, flop_rate, new_table};
use crate::analysis::reading::{Lines, Measure, PageContents, Reading, ReadingContext, Report, Run, Sheet};
use crate::page::bars::steps_down;

/// Stages that have a column of their own.
const MOST_STAGES: usize = 8;

/// From the peak to MFU, bar by bar.
pub struct Bars;

impl Reading for Bars {
    fn read(&self, run: &mut Run<'_, '_>, report: &mut Report) {
        let (ranks, info) = (&mut run.ranks, run.info);
        let bars = ranks.iter_mut().map(|r| std::mem::take(&mut r.bars)).collect();
        report.waterfall = waterfalls(bars, &run.weights, info.counted, info.peak).map(|of_ranks| {
            let weighed = of_ranks.into_iter().zip(info.ranks);
            let weighed: Vec<_> = weighed.map(|(w, r)| (w, r.members.len() as u64, r.stage)).collect();
            WaterfallReport::of(&weighed)
        });
    }

    /// A line for each group, with its largest bars behind it.
    fn table(&self, r: &Report, out: &mut String, width: u16) {
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

    /// Every bar, mean and by stage.
    fn why(&self, r: &Report, out: &mut String, width: u16) {
        let Some(waterfall) = &r.waterfall else { return };
        let few = waterfall.stages.len() > 1 && waterfall.stages.len() <= MOST_STAGES;
        let stages: &[BarsReport] = if few { &waterfall.stages } else { &[] };
        by_stage(out, &waterfall.mean, stages, width);
    }

    fn glance(&self, r: &Report, _: ReadingContext<'_>, out: &mut String, width: u16) {
        self.table(r, out, width);
    }

    fn page(&self, report: &Report, _: &PageContents, sheet: &mut Sheet) {
        let Some(waterfall) = &report.waterfall else { return };
        let note = "The part of the devices' peak that is left as MFU, and the losses (with their largest \
                    parts), mean of all ranks.";
        sheet.section("From the peak to MFU", note, |out| out.push_str(&chart(&waterfall.mean)));
    }

    fn compare(&self, a: &Report, b: &Report, lines: &mut Lines) {
        lines.section("from peak to MFU");
        let bars = |r: &Report| r.waterfall.as_ref().map_or_else(BTreeMap::new, |w| named(&w.mean));
        lines.all(Measure::Fraction, &bars(a), &bars(b));
    }
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
        let rate = rate.map_or(String::new(), |k| {
            let (value, unit) = flop_rate(k.tflops);
            format!(" ({value:.0} {unit})")
        });
        let comma = if text.is_empty() { "" } else { ", " };
        let item = format!("{comma}{name} {:.1}{rate}", 100.0 * share);
        if text.chars().count() + item.chars().count() > room {
            break;
        }
        text += &item;
    }
    text
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

/// From the peak of the devices down to MFU, what took how much.
pub fn chart(bars: &BarsReport) -> String {
    let lines = bars.groups().into_iter().map(|(group, share, parts)| {
        let mut largest: Vec<_> = parts.iter().filter(|part| !part.what.is_empty()).collect();
        largest.sort_by(|a, b| b.share.abs().total_cmp(&a.share.abs()));
        let named: Vec<String> = largest
            .iter()
            .take(3)
            .map(|part| format!("{} {} {:.1}", part.what, part.part, 100.0 * part.share).replace("  ", " "))
            .collect();
        (group.to_owned(), share, named.join(", "))
    });
    steps_down(lines, bars.mfu)
}

/// The bars by group, what and part; the peak itself is left out.
fn named(of: &BarsReport) -> BTreeMap<String, f64> {
    let name = |b: &BarReport| {
        [&b.group, &b.what, &b.part]
            .into_iter()
            .filter(|s| !s.is_empty())
            .cloned()
            .collect::<Vec<_>>()
            .join(": ")
    };
    of.bars.iter().map(|b| (name(b), b.share)).collect()
}
