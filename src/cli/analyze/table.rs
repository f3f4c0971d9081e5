//! The readings of profiles for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use stepsim_measure::profile::Window;
use stepsim_measure::profile::report::{ProfileReport, RankProfile};
use stepsim_measure::profile::skew::Skew;
use stepsim_read::analysis::table::hangs_on;
pub use stepsim_read::analysis::table::{grouped, new_table, seconds};

/// Rows of the tables of kernels, gaps and collectives.
const MOST: usize = 12;
/// Ranks that are shown one by one.
const MOST_RANKS: usize = 16;

/// The report as text. Ends in a newline.
pub(super) fn table(report: &ProfileReport, width: u16) -> String {
    let mut out = String::new();
    for why in &report.unread {
        let _ = writeln!(out, "not read: {why}");
    }
    let which = match report.window {
        Window::All => "all device events",
        Window::Linked => "device events whose launch is in the file",
    };
    if let [one] = report.ranks.as_slice() {
        headline(&mut out, one, which);
    } else {
        ranks(&mut out, report, which, width);
    }
    let Some(shown) = report.ranks.first() else { return out };
    if report.ranks.len() > 1 {
        let _ = writeln!(out, "\nRank {} in detail (all are in --report)", shown.rank);
    }
    breakdown(&mut out, shown);
    devices(&mut out, shown, width);
    waterfall(&mut out, shown);
    communication(&mut out, shown, width);
    kernels(&mut out, shown, width);
    steps(&mut out, shown, width);
    gaps(&mut out, shown, width);
    if let Some(skew) = &report.collectives {
        collectives(&mut out, skew, width);
    }
    why(&mut out, report, width);
    notes(&mut out, report);
    out
}

fn headline(out: &mut String, r: &RankProfile, which: &str) {
    let device = r.device.as_deref().unwrap_or("device not named");
    let world = r.world_size.map_or(String::new(), |n| format!(" of {n}"));
    let _ = writeln!(out, "{}: rank {}{world} on {device}", r.file, r.rank);
    let steps = match r.steps.len() {
        0 => "no step marked".to_string(),
        1 => format!("1 step of {}", seconds(r.step_s)),
        n => format!("{n} steps, median {}", seconds(r.step_s)),
    };
    let mfu = r.mfu.map_or(String::new(), |mfu| format!("   MFU {:.1} %", 100.0 * mfu));
    let _ = writeln!(out, "  {steps}   window {} ({which}){mfu}", seconds(r.window_s));
}

fn ranks(out: &mut String, report: &ProfileReport, which: &str, width: u16) {
    let _ = writeln!(out, "{} ranks; times of the window of each file ({which})", report.ranks.len());
    let head = ["rank", "step", "window", "compute", "communication", "exposed", "copies", "idle", "MFU"];
    let with_mfu = report.ranks.iter().any(|r| r.mfu.is_some());
    let columns = if with_mfu { head.len() } else { head.len() - 1 };
    let mut table = new_table(width, head[..columns].iter().map(|h| (*h).to_string()).collect());
    for r in report.ranks.iter().take(MOST_RANKS) {
        let idle: f64 = r.idle_s.values().sum();
        let times = [
            r.step_s,
            r.window_s,
            r.compute_s,
            r.communication_s,
            r.exposed_communication_s,
            r.copies_s,
            idle,
        ];
        let mut row = vec![r.rank.to_string()];
        row.extend(times.into_iter().map(seconds));
        row.extend(r.mfu.map(|mfu| format!("{:.1} %", 100.0 * mfu)));
        table.add_row(row);
    }
    let _ = writeln!(out, "{table}");
    if report.ranks.len() > MOST_RANKS {
        let _ = writeln!(out, "  and {} more", report.ranks.len() - MOST_RANKS);
    }
}

/// The parts of the window, which sum to it, largest first.
fn breakdown(out: &mut String, r: &RankProfile) {
    let window = r.window_s.max(f64::MIN_POSITIVE);
    let idle: f64 = r.idle_s.values().sum();
    // Copies under neither kernels nor communication: what remains of the busy time.
    let copies = (window - idle - r.compute_s - r.exposed_communication_s).max(0.0);
    let mut rows = vec![
        ("compute".to_string(), r.compute_s),
        ("exposed communication".to_string(), r.exposed_communication_s),
        ("copies and fills alone".to_string(), copies),
    ];
    rows.extend(r.idle_s.iter().map(|(cause, s)| (format!("idle: {cause}"), *s)));
    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
    let _ = writeln!(out, "\nWhere the time went (% of the window)");
    for (name, s) in rows.iter().filter(|row| row.1 >= 0.00005 * window) {
        let _ = writeln!(out, "  {name:<42} {:>5.1} %  {}", 100.0 * s / window, seconds(*s));
    }
}

/// Each device of a file that holds several.
fn devices(out: &mut String, r: &RankProfile, width: u16) {
    if r.devices_ns.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\nThe file holds {} devices, which the times above take together; each:",
        r.devices_ns.len()
    );
    let head = ["device", "window", "compute", "communication", "under kernels", "exposed", "idle"];
    let mut table = new_table(width, head.map(String::from).to_vec());
    for (device, times) in &r.devices_ns {
        let parts =
            [times.window, times.compute, times.comm, times.comm_hidden, times.comm_exposed, times.idle];
        let parts = parts.map(|ns| seconds(ns as f64 * 1e-9));
        table.add_row([device.clone()].into_iter().chain(parts));
    }
    let _ = writeln!(out, "{table}");
}

/// The bars below the peak, where a model is given.
fn waterfall(out: &mut String, r: &RankProfile) {
    let Some(waterfall) = &r.waterfall else { return };
    let _ = writeln!(out, "\nFrom peak to MFU (% of the peak over the window)");
    for bar in waterfall.bars.iter().filter(|b| b.share.abs() >= 0.0005) {
        let _ = writeln!(out, "  {:<42} {:>6.1}", bar.what, -100.0 * bar.share);
    }
    let _ = writeln!(out, "  {:<42} {:>6.1}", "= MFU", 100.0 * waterfall.mfu);
}

fn communication(out: &mut String, r: &RankProfile, width: u16) {
    if r.communication.is_empty() {
        return;
    }
    let head = ["communication", "count", "ran", "under kernels", "exposed", "exposed % of window"];
    let mut table = new_table(width, head.map(String::from).to_vec());
    for (kind, c) in &r.communication {
        table.add_row([
            kind.clone(),
            grouped(c.count),
            seconds(c.ran_s),
            seconds(c.under_kernels_s),
            seconds(c.exposed_s),
            share(c.exposed_s, r.window_s),
        ]);
    }
    let _ = writeln!(out, "\n{table}");
}

fn kernels(out: &mut String, r: &RankProfile, width: u16) {
    let head = ["kernels", "work", "count", "total", "mean", "% of window"];
    let mut table = new_table(width, head.map(String::from).to_vec());
    let mut rows: Vec<_> = r.kernels.iter().collect();
    rows.sort_by(|a, b| b.1.total_s.total_cmp(&a.1.total_s));
    for (class, k) in rows.iter().take(MOST) {
        table.add_row([
            (*class).clone(),
            k.work.clone(),
            grouped(k.count),
            seconds(k.total_s),
            seconds(k.total_s / k.count.max(1) as f64),
            share(k.total_s, r.window_s),
        ]);
    }
    let _ = writeln!(out, "\n{table}");
    if rows.len() > MOST {
        let rest: f64 = rows[MOST..].iter().map(|row| row.1.total_s).sum();
        let _ = writeln!(out, "  and {} more classes: {}", rows.len() - MOST, seconds(rest));
    }
}

fn steps(out: &mut String, r: &RankProfile, width: u16) {
    if r.steps.len() < 2 {
        return;
    }
    let head = ["step", "host", "device events", "compute", "exposed communication", "idle"];
    let mut table = new_table(width, head.map(String::from).to_vec());
    for step in r.steps.iter().take(MOST) {
        let ns = |ns: i64| seconds(ns as f64 / 1e9);
        table.add_row([
            format!("{}{}", step.name, if step.overlaps { " (overlaps another)" } else { "" }),
            ns(step.duration_ns),
            grouped(step.events),
            ns(step.device_ns.compute),
            ns(step.device_ns.comm_exposed),
            ns(step.device_ns.idle),
        ]);
    }
    let _ = writeln!(out, "\n{table}");
}

fn gaps(out: &mut String, r: &RankProfile, width: u16) {
    let mut table = new_table(
        width,
        ["longest gaps", "at", "communication", "ended by", "next"].map(String::from).to_vec(),
    );
    for gap in r.gaps.iter().take(MOST / 2) {
        table.add_row([
            seconds(gap.length_s),
            seconds(gap.at_s),
            seconds(gap.communication_s),
            gap.ended_by.clone(),
            gap.next(),
        ]);
    }
    if !r.gaps.is_empty() {
        let _ = writeln!(out, "\n{table}");
    }
}

fn collectives(out: &mut String, skew: &Skew, width: u16) {
    let (matched, unmatched) = (grouped(skew.matched), grouped(skew.unmatched));
    let _ = writeln!(
        out,
        "\nWho was waited for ({matched} collectives matched over the ranks; {unmatched} events without \
         counterpart or arguments)"
    );
    let head = ["rank", "came last", "waited for it", "waited itself", "clock ahead"];
    let mut table = new_table(width, head.map(String::from).to_vec());
    let mut ranks: Vec<_> = skew.ranks.iter().collect();
    ranks.sort_by(|a, b| b.waited_for_s.total_cmp(&a.waited_for_s).then(a.rank.cmp(&b.rank)));
    for r in ranks.iter().take(MOST_RANKS) {
        table.add_row([
            r.rank.to_string(),
            grouped(r.last),
            seconds(r.waited_for_s),
            seconds(r.waits_s),
            r.clock_offset_s.map_or(String::new(), |s| format!("{s:+.6} s")),
        ]);
    }
    let _ = writeln!(out, "{table}");
    let mut rows: Vec<_> = skew.rows.iter().collect();
    rows.sort_by(|a, b| b.skew_s.total_cmp(&a.skew_s));
    let head = ["widest apart", "bytes", "at", "apart", "all in", "last"];
    let mut table = new_table(width, head.map(String::from).to_vec());
    for row in rows.iter().take(MOST / 2) {
        table.add_row([
            row.name.clone(),
            row.bytes.map_or(String::new(), grouped),
            seconds(row.first_s),
            seconds(row.skew_s),
            seconds(row.active_s.max(0.0)),
            format!("rank {}", row.last_rank),
        ]);
    }
    if !rows.is_empty() {
        let _ = writeln!(out, "\n{table}");
    }
}

/// The step played again, with each candidate otherwise.
fn why(out: &mut String, report: &ProfileReport, width: u16) {
    if let Some(problem) = &report.not_played {
        let _ = writeln!(out, "\nNot played again: {problem}");
    }
    let Some(now) = report.played_s else { return };
    if report.candidates.is_empty() {
        let _ = writeln!(
            out,
            "\nThe step hangs on kernels, in their order: nothing else gains a hundredth of {}",
            seconds(now)
        );
        return;
    }
    let _ = writeln!(out, "\nWhat the step hangs on (played again, {}, with each otherwise)", seconds(now));
    let mut table = new_table(width, ["what", "otherwise", "step then", "gain"].map(String::from).to_vec());
    for c in &report.candidates {
        table.add_row([c.what.clone(), c.otherwise.clone(), seconds(c.step_s), share(c.cost_s(), now)]);
    }
    let _ = writeln!(out, "{table}");
    hangs_on(out, &report.hangs_on, width);
}

/// Events passed over, and notes on the window.
fn notes(out: &mut String, report: &ProfileReport) {
    let mut notes = Vec::new();
    let sum = |of: fn(&RankProfile) -> u64| report.ranks.iter().map(of).sum::<u64>();
    let mut skipped: BTreeMap<&str, u64> = BTreeMap::new();
    for (what, count) in report.ranks.iter().flat_map(|r| &r.skipped) {
        *skipped.entry(what).or_default() += count;
    }
    notes.extend(skipped.iter().map(|(what, count)| format!("skipped {} {what}", grouped(*count))));
    let without = sum(|r| r.without_launch);
    if without > 0 {
        let more =
            if report.window == Window::All { "; --linked leaves them out" } else { " and are left out" };
        notes.push(format!(
            "{} device events have no launch in the file (mostly launched before the profiler began){more}",
            grouped(without)
        ));
    }
    let overlaps = sum(|r| r.same_stream_overlaps);
    if overlaps > 0 {
        notes.push(format!(
            "{} device events start before their predecessor on the stream has ended",
            grouped(overlaps)
        ));
    }
    if !report.missing_ranks.is_empty() {
        let listed: Vec<String> = report.missing_ranks.iter().take(8).map(u64::to_string).collect();
        let more = if report.missing_ranks.len() > 8 { ", …" } else { "" };
        notes.push(format!(
            "{} ranks of the job are not here: {}{more}",
            grouped(report.missing_ranks.len() as u64),
            listed.join(", ")
        ));
    }
    if report.ranks.iter().any(|r| r.steps.is_empty()) {
        notes.push("without ProfilerStep marks the step is the window".to_string());
    }
    if !notes.is_empty() {
        out.push('\n');
    }
    for note in notes {
        let _ = writeln!(out, "note: {note}");
    }
}

fn share(part: f64, whole: f64) -> String {
    if part == 0.0 {
        "·".to_string()
    } else {
        format!("{:.1} %", 100.0 * part / whole.max(f64::MIN_POSITIVE))
    }
}
