//! The report for people: one screen that says how fast, where the time went, and what fills the memory.

use std::fmt::Write;

use comfy_table::CellAlignment;

pub(crate) use super::cells::{grouped, new_table, percent, seconds};
use super::report::{Breakdown, Report, StageReport, TierReport};
use super::samples::{OnPath, SamplesReport};
use super::stalls::StallCause;
use super::waterfall_table;
use crate::core::program::MemoryClass;
use crate::core::units::{Bytes, Time};

/// Rows of a table by stage; of more, the first, the last and evenly many in between are shown.
const MOST_ROWS: usize = 16;
/// Causes shown.
const MOST_CAUSES: usize = 6;
/// Links shown.
const MOST_LINKS: usize = 5;
/// Stalls of less than this part of the step are shown as one.
const SMALL: f64 = 0.0005;
/// Stages none of whose shares differ by this much share a row.
const ALIKE: f64 = 0.005;

/// The report as text of at most `width` columns (80 or more look best). Ends in a newline.
pub fn table(report: &Report, width: u16) -> String {
    let mut out = String::new();
    headline(&mut out, report, width);
    hangs_on(&mut out, report, width);
    where_time_went(&mut out, report, width);
    blame(&mut out, report, width);
    waterfall_table::compact(&mut out, report, width);
    if let Some(dynamic) = &report.dynamic_context {
        out.push_str(&dynamic.text(width));
    }
    if report.stages.len() > 1 {
        by_stage(&mut out, report, width);
    }
    if !report.communication.is_empty() {
        communication(&mut out, report, width);
    }
    prefetch(&mut out, report, width);
    memory(&mut out, report, width);
    critical_path(&mut out, report, width);
    links(&mut out, report, width);
    if let Some(samples) = &report.samples {
        step_times(&mut out, samples, width);
    }
    if !report.conventions.is_empty() {
        out.push('\n');
    }
    for convention in &report.conventions {
        let _ = writeln!(out, "note: {convention}");
    }
    out
}

pub(super) fn headline(out: &mut String, r: &Report, width: u16) {
    let (step, tokens) = (Time::from_s(r.step_time_s), grouped(r.tokens_per_s.round() as u64));
    let _ = writeln!(out, "{} on {} ({} devices)", r.workload, r.topology, grouped(r.devices));
    let step = match r.steps {
        0 | 1 => format!("step {step}"),
        n => format!("{n} steps in {}, {step} each", Time::from_s(r.run_time_s)),
    };
    // Attention in full is a convention, by which a device can do more than it can.
    let (mfu, hfu, how) =
        if r.mfu.max(r.hfu) > 1.0 { (r.mfu_causal, r.hfu_causal, " (causal)") } else { (r.mfu, r.hfu, "") };
    let (mfu, hfu) = (mfu * 100.0, hfu * 100.0);
    let _ = writeln!(out, "  {step}   {tokens} tokens/s   MFU {mfu:.1} %   HFU {hfu:.1} %{how}");
    let (rate, unit) = flop_rate(r.model_tflops_per_device);
    let mut parts = vec![format!("{rate:.1} model {unit} per device"), format!("{} ops", grouped(r.ops))];
    if r.classes.simulated_ranks < r.classes.ranks {
        let (few, all) = (grouped(r.classes.simulated_ranks), grouped(r.classes.ranks));
        parts.push(format!("{few} ranks simulated for {all}"));
    }
    if let Some(jumped) = r.jumped {
        let (few, all) = (grouped(u64::from(jumped.micro_batches)), grouped(u64::from(jumped.of)));
        parts.push(format!("{few} of {all} micro-batches jumped"));
    }
    parts.extend(r.simulation_wall_s.map(|wall| format!("in {}", Time::from_s(wall))));
    let mut line = String::from(" ");
    for part in parts {
        if line.len() > 1 && line.chars().count() + 3 + part.chars().count() > usize::from(width) {
            let _ = writeln!(out, "{line}");
            line = String::from(" ");
        }
        line += if line.len() > 1 { "   " } else { " " };
        line += &part;
    }
    let _ = writeln!(out, "{line}");
}

/// The sentence that says what the step hangs on, behind an empty line.
pub(super) fn hangs_on(out: &mut String, r: &Report, width: u16) {
    if r.hangs_on.is_empty() {
        return;
    }
    out.push('\n');
    let mut line = String::new();
    for word in r.hangs_on.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > usize::from(width) {
            let _ = writeln!(out, "{line}");
            line = String::from(" ");
        }
        line += if line.is_empty() { "" } else { " " };
        line += word;
    }
    let _ = writeln!(out, "{line}");
}

/// 10¹² FLOP/s in a unit that leaves at most four digits before the point.
fn flop_rate(tflops: f64) -> (f64, &'static str) {
    match tflops {
        t if t < 1e4 => (t, "TFLOP/s"),
        t if t < 1e7 => (t / 1e3, "PFLOP/s"),
        t => (t / 1e6, "EFLOP/s"),
    }
}

/// The mean over all ranks as bars, longest first; the kernels' bar leads.
fn where_time_went(out: &mut String, r: &Report, width: u16) {
    let step = r.run_time_s.max(f64::MIN_POSITIVE);
    let _ =
        writeln!(out, "\nWhere the time went (mean of {} ranks, % of the step)", grouped(r.classes.ranks));
    let mut rows = vec![("compute".to_string(), r.mean.busy_s)];
    if r.mean.slowed_by_memory_s > 0.0 {
        rows.push(("  of it held up by device memory".to_string(), r.mean.slowed_by_memory_s));
    }
    let (large, small): (Vec<_>, Vec<_>) = r.mean.stalls_s.iter().partition(|s| *s.1 >= SMALL * step);
    let mut large: Vec<_> = large.into_iter().map(|(cause, s)| (with_column(*cause), *s)).collect();
    large.sort_by(|a, b| b.1.total_cmp(&a.1));
    rows.extend(large);
    let rest: f64 = small.iter().map(|s| s.1).sum();
    if rest > 0.0 {
        rows.push(("other stalls".to_string(), rest));
    }
    let bar_width = usize::from(width).saturating_sub(62).clamp(10, 50);
    for (name, s) in rows {
        let bar = bar(s / step, bar_width);
        let _ =
            writeln!(out, "  {name:<36} {bar:<bar_width$} {:>5.1} %  {}", 100.0 * s / step, Time::from_s(s));
    }
}

/// What causes cost; nothing where none was looked for or found.
fn blame(out: &mut String, r: &Report, width: u16) {
    if r.blame.is_empty() {
        return;
    }
    let head = ["cause", "step without it", "cost", "itself", "others wait"];
    let mut table = new_table(width, head.map(String::from).to_vec());
    let share = |s: f64| s / r.run_time_s.max(f64::MIN_POSITIVE);
    let share = |s: f64| percent(if share(s).abs() < SMALL { 0.0 } else { share(s) });
    for b in r.blame.iter().take(MOST_CAUSES) {
        let [cost, itself, others] = [b.cost_s, b.itself_s, b.others_s].map(share);
        table.add_row([b.cause.clone(), seconds(b.without_s), cost, itself, others]);
    }
    let _ = writeln!(out, "\nBlame (the step played again without each cause; % of the step)\n{table}");
}

/// The name of a cause with the head of its column in the table by stage.
fn with_column(cause: StallCause) -> String {
    match (cause.name(), cause.short()) {
        (name, short) if name.contains(short) => name.to_string(),
        (name, short) => format!("{name} ({short})"),
    }
}

/// `fraction` of `width` columns, in eighths of a column.
fn bar(fraction: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (fraction.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

fn by_stage(out: &mut String, r: &Report, width: u16) {
    let step = r.run_time_s.max(f64::MIN_POSITIVE);
    let share = |b: &Breakdown, cause: StallCause| b.stalls_s.get(&cause).copied().unwrap_or(0.0) / step;
    let matters = |cause: &StallCause| r.stages.iter().any(|s| share(&s.time, *cause) >= SMALL);
    let causes: Vec<_> = StallCause::ALL.into_iter().filter(matters).collect();
    let mut head = vec!["stage".to_string(), "".to_string(), "compute".to_string()];
    head.extend(causes.iter().map(|c| c.short().to_string()));
    let mut table = new_table(width, head);
    if let Some(bars) = table.column_mut(1) {
        bars.set_cell_alignment(CellAlignment::Left);
    }
    let bar_width = usize::from(width).saturating_sub(20 + 10 * causes.len()).min(20);
    let row = |stage: &StageReport| {
        let busy = stage.time.busy_s / step;
        let mut row = vec![bar(busy, bar_width), percent(busy)];
        row.extend(causes.iter().map(|&c| percent(share(&stage.time, c))));
        row
    };
    let shares = |s: &StageReport| {
        std::iter::once(s.time.busy_s / step).chain(causes.iter().map(|&c| share(&s.time, c))).collect()
    };
    let near = |a: &Vec<f64>, b: &Vec<f64>| a.iter().zip(b).all(|(a, b)| (a - b).abs() < ALIKE);
    let rows = merged(r.stages.iter().map(|s| (s.stage, shares(s), row(s))), near);
    let shown = shown(&rows);
    for (stages, cells) in &shown {
        table.add_row(std::iter::once(stages).chain(cells));
    }
    let _ = writeln!(out, "\nBy pipeline stage (% of the step){}", omitted(shown.len(), rows.len()));
    let _ = writeln!(out, "{table}");
}

fn communication(out: &mut String, r: &Report, width: u16) {
    let columns = ["kind", "ran", "under kernels", "while idle", "exposed", "of step", "bytes", "ops"];
    let mut table = new_table(width, columns.map(String::from).to_vec());
    let step = r.run_time_s.max(f64::MIN_POSITIVE);
    for (kind, c) in &r.communication {
        table.add_row([
            format!("{} ({})", kind.words(), kind.name()),
            seconds(c.ran_s),
            seconds(c.under_kernels_s),
            seconds(c.while_idle_s),
            seconds(c.exposed_s),
            percent(c.exposed_s / step),
            Bytes(c.bytes.round() as u64).to_string(),
            grouped(c.ops.round() as u64),
        ]);
    }
    let _ = writeln!(
        out,
        "\nCommunication (mean of a rank; exposed: it stood still for it; idle: for other)\n{table}"
    );
}

/// The layer whose copy came latest.
fn prefetch(out: &mut String, r: &Report, width: u16) {
    let late = |p: &&super::prefetch::PrefetchReport| p.needed_s > p.had_s;
    let Some(worst) = r
        .prefetch
        .iter()
        .filter(late)
        .max_by(|a, b| (a.needed_s - a.had_s).total_cmp(&(b.needed_s - b.had_s)))
    else {
        return;
    };
    let (late, all) = (r.prefetch.iter().filter(late).count(), r.prefetch.len());
    let _ = writeln!(out, "\nPrefetch: too late for {late} of {all} layers and phases; worst:");
    let layer = worst.layer.map_or(String::new(), |l| format!("layer {l} "));
    let items = [
        format!("{layer}{}", worst.phase),
        format!("issued {} ahead", Time::from_s(worst.had_s)),
        format!("needed {} or {} layers", Time::from_s(worst.needed_s), worst.needed_layers),
    ];
    write_list(out, &items, width);
}

fn memory(out: &mut String, r: &Report, width: u16) {
    let names: Vec<&String> = r.memory.keys().collect();
    if names.is_empty() {
        return;
    }
    let mut head = vec![
        "tier".to_string(),
        "stage".to_string(),
        "peak".to_string(),
        "of".to_string(),
        "full".to_string(),
    ];
    head.extend(MemoryClass::ALL.iter().map(|c| c.name().to_string()));
    let mut table = new_table(width, head);
    let mut left_out = String::new();
    for name in names {
        let filled = |s: &StageReport| s.memory.get(name).filter(|tier| tier.peak_bytes > 0).map(memory_row);
        let of_stage = |s: &StageReport| filled(s).map(|row| (s.stage, row.clone(), row));
        let rows = merged(r.stages.iter().filter_map(of_stage), Vec::eq);
        let shown = shown(&rows);
        for (stages, cells) in &shown {
            table.add_row([name, stages].into_iter().chain(cells));
        }
        if shown.len() < rows.len() {
            left_out = omitted(shown.len(), rows.len());
        }
    }
    let _ = writeln!(out, "\nMemory at its peak, by what is resident then{left_out}");
    let _ = writeln!(out, "{table}");
}

fn memory_row(tier: &TierReport) -> Vec<String> {
    let full = tier.peak_bytes as f64 / tier.capacity_bytes.max(1) as f64;
    let mut row =
        vec![Bytes(tier.peak_bytes).to_string(), Bytes(tier.capacity_bytes).to_string(), percent(full)];
    let class = |c: &MemoryClass| tier.by_class.get(c.name()).copied().unwrap_or(0);
    row.extend(MemoryClass::ALL.iter().map(|c| match class(c) {
        0 => "·".to_string(),
        bytes => Bytes(bytes).to_string(),
    }));
    row
}

/// The critical path by kind of op, longest first.
pub(super) fn path_parts(r: &Report) -> Vec<(&'static str, f64)> {
    let path = &r.critical_path;
    let mut parts: Vec<_> = path.by_kind_s.iter().map(|(kind, s)| (kind.words(), *s)).collect();
    parts.extend([("contention", path.contention_s), ("full tier", path.memory_s)]);
    parts.retain(|p| p.1 >= SMALL * r.run_time_s.max(f64::MIN_POSITIVE));
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    parts
}

fn critical_path(out: &mut String, r: &Report, width: u16) {
    let path = &r.critical_path;
    let step = r.run_time_s.max(f64::MIN_POSITIVE);
    let parts: Vec<_> =
        path_parts(r).iter().map(|(name, s)| format!("{name} {}", percent(s / step))).collect();
    let (ops, changes) = (grouped(path.ops), grouped(path.rank_changes));
    let _ = writeln!(out, "\nCritical path ({ops} ops, {changes} changes of rank; % of the step)");
    write_list(out, &parts, width);
}

/// Items with commas between, on as many lines as the width asks for.
fn write_list(out: &mut String, items: &[String], width: u16) {
    let last = items.len().saturating_sub(1);
    let items = items.iter().enumerate();
    let words: Vec<_> = items.map(|(i, item)| format!("{item}{}", if i < last { "," } else { "" })).collect();
    write_words(out, &words, width);
}

/// Words, on as many indented lines as the width asks for.
pub(super) fn write_words(out: &mut String, words: &[String], width: u16) {
    let mut column = 0;
    for word in words {
        let length = word.chars().count() + 1;
        if column > 0 && column + length > usize::from(width) {
            out.push('\n');
            column = 0;
        }
        out.push_str(if column == 0 { "  " } else { " " });
        out.push_str(word);
        column += length + usize::from(column == 0);
    }
    out.push('\n');
}

fn links(out: &mut String, r: &Report, width: u16) {
    if r.links.is_empty() {
        return;
    }
    let mut table = new_table(width, ["link", "used", "bytes", "capacity"].map(String::from).to_vec());
    for link in r.links.iter().take(MOST_LINKS) {
        table.add_row([
            if link.count > 1 {
                format!("{} (×{})", link.name, grouped(link.count))
            } else {
                link.name.clone()
            },
            percent(link.utilisation),
            Bytes(link.bytes.round() as u64).to_string(),
            format!("{:.1} GB/s", link.capacity_gbps),
        ]);
    }
    let _ =
        writeln!(out, "\nBusiest links (of what they could carry in the step; ×n: n links alike)\n{table}");
}

/// The distribution of step times, and who was on the critical path.
pub(super) fn step_times(out: &mut String, s: &SamplesReport, width: u16) {
    let last = s.seed.saturating_add(s.count.saturating_sub(1));
    let _ = writeln!(out, "\nStep times of {} samples (seeds {} to {last})", grouped(s.count), s.seed);
    let time = |name: &str, seconds: f64| format!("{name} {}", Time::from_s(seconds));
    let items = [
        time("mean", s.mean_s),
        format!("cv {:.2} %", s.cv * 100.0),
        time("min", s.min_s),
        time("p5", s.p5_s),
        time("p50", s.p50_s),
        time("p95", s.p95_s),
        time("p99", s.p99_s),
        time("max", s.max_s),
    ];
    write_list(out, &items, width);
    let most = s.histogram.iter().map(|bar| bar.samples).max().unwrap_or(0).max(1);
    let bar_width = usize::from(width).saturating_sub(50).clamp(10, 50);
    for b in &s.histogram {
        let (from, to) = (Time::from_s(b.from_s).to_string(), Time::from_s(b.to_s).to_string());
        let drawn = bar(b.samples as f64 / most as f64, bar_width);
        let _ = writeln!(out, "  {from:>11} – {to:<11} {drawn:<bar_width$} {:>6}", grouped(b.samples));
    }
    let mut table =
        new_table(width, ["critical path", "in samples", "share of it"].map(String::from).to_vec());
    let row = |on: &OnPath| [on.name.clone(), percent(on.samples), percent(on.share)];
    let stages = if s.critical_stages.len() > 1 { s.critical_stages.as_slice() } else { &[] };
    stages.iter().take(MOST_ROWS).chain(s.critical_ranks.iter().take(MOST_LINKS)).for_each(|on| {
        table.add_row(row(on));
    });
    let _ = writeln!(out, "{table}");
}

/// Rows of stages that are alike, one behind the other, become one with the cells of the first: `2–5`.
fn merged<K>(
    rows: impl Iterator<Item = (u32, K, Vec<String>)>,
    alike: impl Fn(&K, &K) -> bool,
) -> Vec<(String, Vec<String>)> {
    let mut groups: Vec<(u32, u32, K, Vec<String>)> = Vec::new();
    for (stage, key, cells) in rows {
        match groups.last_mut() {
            Some((_, last, of_first, _)) if *last + 1 == stage && alike(of_first, &key) => *last = stage,
            _ => groups.push((stage, stage, key, cells)),
        }
    }
    let label =
        |first: u32, last: u32| if first == last { first.to_string() } else { format!("{first}–{last}") };
    groups.into_iter().map(|(first, last, _, cells)| (label(first, last), cells)).collect()
}

/// The first row, the last, and evenly many in between.
fn shown(rows: &[(String, Vec<String>)]) -> Vec<&(String, Vec<String>)> {
    let (n, most) = (rows.len(), MOST_ROWS.min(rows.len()));
    (0..most).map(|i| &rows[if most > 1 { i * (n - 1) / (most - 1) } else { 0 }]).collect()
}

fn omitted(shown: usize, all: usize) -> String {
    if shown < all { format!(", {shown} of {all} rows") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::analysis::report::tests::of_random;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lines_keep_to_the_width(seed in any::<u64>(), width in 80u16..160) {
            let text = table(&of_random(seed, |_| 20), width);
            for line in text.lines().filter(|l| !l.starts_with("note:")) {
                prop_assert!(line.chars().count() <= usize::from(width), "{line}");
            }
        }
    }

    #[test]
    fn bars_are_in_proportion() {
        assert_eq!(bar(0.5, 10), "█████");
        assert_eq!(bar(0.0625, 10), "▋");
        assert_eq!(bar(7.0, 2), "██");
    }

    #[test]
    fn alike_stages_share_a_row() {
        let rows = ["x", "x", "x", "y", "x"].map(|cell| vec![cell.to_string()]);
        let merged = merged((0..).zip(rows).map(|(i, row)| (i, row.clone(), row)), Vec::eq);
        let labels: Vec<_> = merged.iter().map(|r| r.0.as_str()).collect();
        assert_eq!(labels, ["0–2", "3", "4"]);
    }

    #[test]
    fn a_report_at_a_glance() {
        insta::assert_snapshot!(table(&of_random(5, |_| 20), 100));
    }
}
