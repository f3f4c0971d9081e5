//! The score as text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::outcome::{RowOutcome, RowStatus};
use super::report::{ErrorGroup, ScoreReport};
use super::statistics::{Disagreement, Statistics};

/// How many steps lie in their range; tables by source, device, stack and kind of model; rows that need more memory
/// than there is; how good a layout is chosen; where the closed form differs; and why rows were left out or are not
/// understood.
pub fn text(report: &ScoreReport) -> String {
    let mut text = ranges(report);
    for (what, groups) in [
        ("source", &report.sources),
        ("device", &report.devices),
        ("stack", &report.stacks),
        ("model", &report.models),
    ] {
        let _ = writeln!(
            text,
            "| {what} | rows | simulated | mean abs. error | median | p90 | worst | bias | τ | closed form | \
             over memory | with gaps | memory error |\n\
             |--|--|--|--|--|--|--|--|--|--|--|--|--|"
        );
        for (name, group) in groups {
            line(&mut text, name, group);
        }
        text.push('\n');
    }
    text + &apart_from_means(report, "over memory", |g| g.over_memory_errors.as_ref())
        + &apart_from_means(report, "held apart by rules", |g| g.apart_errors.as_ref())
        + &choice(report)
        + &apart(report)
        + &warned(report)
        + &left_out(report)
        + &not_understood(report)
}

fn percent(x: Option<f64>) -> String {
    x.map_or(String::new(), |x| format!("{:.1} %", 100.0 * x))
}

fn signed(x: Option<f64>) -> String {
    // Rounded first, then zero is added: minus zero loses its sign.
    x.map_or(String::new(), |x| format!("{:+.1} %", (1e3 * x).round() / 10.0 + 0.0))
}

fn line(text: &mut String, name: &str, group: &ErrorGroup) {
    let e = &group.errors;
    let count = |n: usize| if n == 0 { String::new() } else { n.to_string() };
    let _ = writeln!(
        text,
        "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        e.rows,
        e.simulated,
        percent(e.mean_abs_error),
        percent(e.median_abs_error),
        percent(e.p90_abs_error),
        percent(e.max_abs_error),
        signed(e.bias),
        group.kendall_tau.map_or(String::new(), |t| format!("{t:.2}")),
        percent(group.closed_form.mean_abs_error),
        count(group.over_memory),
        count(group.with_gaps),
        percent(group.memory.mean_abs_error),
    );
}

/// The nearer of simulation and closed form where they are far apart, by source.
fn apart(report: &ScoreReport) -> String {
    let mut text = String::new();
    let all = (report.sources.len() > 1).then_some(("all", &report.overall));
    let sources = report.sources.iter().map(|(name, group)| (name.as_str(), group));
    for (name, group) in sources.chain(all) {
        let Some(a) = group.apart else { continue };
        if text.is_empty() {
            let far = 100.0 * Disagreement::FAR;
            let _ = writeln!(
                text,
                "| more than {far:.0} % between simulation and closed form | rows | simulation nearer | error \
                 of the simulation | of the closed form |\n\
                 |--|--|--|--|--|"
            );
        }
        let [simulation, form] =
            [a.simulation_error, a.closed_form_error].map(|e| format!("{:.1} %", 100.0 * e));
        let _ = writeln!(text, "| {name} | {} | {} | {simulation} | {form} |", a.rows, a.simulation_nearer);
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// The groups of all sources that have something to say, and all together.
fn by_source<'a, T: 'a>(
    report: &'a ScoreReport,
    of: impl Fn(&'a ErrorGroup) -> Option<&'a T>,
) -> Vec<(&'a str, &'a T)> {
    let mut found: Vec<(&str, &T)> =
        report.sources.iter().filter_map(|(name, group)| Some((name.as_str(), of(group)?))).collect();
    if found.len() > 1 {
        found.extend(of(&report.overall).map(|all| ("all", all)));
    }
    found
}

/// Rows that are in no mean.
fn apart_from_means(
    report: &ScoreReport,
    what: &str,
    of: impl Fn(&ErrorGroup) -> Option<&Statistics>,
) -> String {
    let rows = by_source(report, of);
    if rows.is_empty() {
        return String::new();
    }
    let mut text =
        format!("| {what}, by source | rows | mean abs. error | worst | bias |\n|--|--|--|--|--|\n");
    for (name, e) in rows {
        let (mean, worst, bias) = (percent(e.mean_abs_error), percent(e.max_abs_error), signed(e.bias));
        let _ = writeln!(text, "| {name} | {} | {mean} | {worst} | {bias} |", e.rows);
    }
    text + "\n"
}

/// Classes of steps with the share inside their ranges.
fn ranges(report: &ScoreReport) -> String {
    if report.ranges.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "| class | steps | sources | inside their range | below it | width | error of the estimate | of the \
         model alone | no range |\n\
         |--|--|--|--|--|--|--|--|--|\n",
    );
    for (class, c) in &report.ranges {
        let [inside, below, width, estimate, model] =
            [c.inside, c.below, c.width, c.estimate_error, c.model_error]
                .map(|x| format!("{:.1} %", 100.0 * x));
        let _ = writeln!(
            text,
            "| {class} | {} | {} | {inside} | {below} | {width} | {estimate} | {model} | {} |",
            c.steps, c.sources, c.without
        );
    }
    text + "\n"
}

fn choice(report: &ScoreReport) -> String {
    let rows = by_source(report, |g| g.layout_choice.as_ref());
    if rows.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "| choice of layouts | blocks | rows | speed of the best of three over the fastest, mean | least | of \
         the first, mean | least | τ |\n\
         |--|--|--|--|--|--|--|--|\n",
    );
    for (name, c) in rows {
        let tau = c.kendall_tau.map_or(String::new(), |t| format!("{t:.2}"));
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {:.3} | {:.3} | {:.3} | {:.3} | {tau} |",
            c.blocks, c.rows, c.mean_speed_of_three, c.least_speed_of_three, c.mean_speed, c.least_speed
        );
    }
    text + "\n"
}

/// Statements that contradict each other.
fn warned(report: &ScoreReport) -> String {
    let mut told: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for row in &report.rows {
        for warning in &row.warnings {
            *told.entry((&row.source, warning)).or_default() += 1;
        }
    }
    let lines = told.iter().map(|((source, warning), rows)| format!("{rows} × {source}: {warning}\n"));
    lines.collect()
}

/// Rows that were skipped or failed, by reason.
fn left_out(report: &ScoreReport) -> String {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for row in report.rows.iter().filter(|r| r.error.is_none() && r.status != "over memory") {
        if let Some(why) = row.skipped.as_ref().or(row.failed.as_ref()) {
            *reasons.entry(format!("{}: {} ({why})", row.source, row.status)).or_default() += 1;
        }
    }
    reasons.iter().map(|(reason, rows)| format!("{rows} × {reason}\n")).collect()
}

/// Columns that nothing was made of, by source; a few of their values.
fn not_understood(report: &ScoreReport) -> String {
    let mut told: BTreeMap<(&str, &str), (usize, BTreeSet<String>)> = BTreeMap::new();
    for row in &report.rows {
        for (column, value) in &row.not_understood {
            let entry = told.entry((&row.source, column)).or_default();
            entry.0 += 1;
            entry.1.insert(value.to_string().chars().take(60).collect());
        }
    }
    let line = |((source, column), (rows, values)): ((&str, &str), (usize, BTreeSet<String>))| {
        let some: Vec<String> = values.into_iter().take(3).collect();
        format!("{rows} × {source}: column `{column}` not understood ({})\n", some.join(", "))
    };
    told.into_iter().map(line).collect()
}

/// One row of every outcome, for the eye.
pub fn line_of(outcome: &RowOutcome) -> String {
    let head = match (&outcome.status, outcome.off(), &outcome.case) {
        (_, Some(error), Some(case)) => {
            let predicted = outcome.predicted_s.unwrap_or(f64::NAN);
            format!("{:+6.1} %  {predicted:10.4} s of {:10.4} s", 100.0 * error, case.measured_s)
        }
        (RowStatus::Skipped(why) | RowStatus::Failed(why), ..) => format!("left out: {why}"),
        _ => "left out".to_string(),
    };
    format!("{head}  {}\n", outcome.id)
}

/// Relative throughput of pipeline schedules: rows that differ in nothing else than the schedule, each over its 1F1B.
pub fn ratios(entries: &[(String, String, f64, f64)]) -> String {
    let mut blocks: BTreeMap<&str, Vec<(&str, f64, f64)>> = BTreeMap::new();
    for (block, schedule, measured, predicted) in entries {
        blocks.entry(block).or_default().push((schedule, *measured, *predicted));
    }
    let mut text = String::from(
        "| block | schedule | throughput over 1F1B, measured | simulated | off |\n|--|--|--|--|--|\n",
    );
    let (mut ordered, mut all, mut within, mut count) = (0, 0, 0, 0);
    for (block, rows) in &blocks {
        let Some(base) = rows.iter().find(|r| r.0 == "1F1B").copied() else { continue };
        if rows.len() < 2 {
            continue;
        }
        all += 1;
        // Times that differ by less than rounding (0.6 %) may stand in any order.
        ordered += usize::from(rows.iter().all(|a| rows.iter().all(|b| a.1 >= b.1 * 0.994 || a.2 < b.2)));
        for (schedule, measured, predicted) in rows.iter().filter(|r| r.0 != "1F1B") {
            let (m, s) = (base.1 / measured, base.2 / predicted);
            count += 1;
            within += usize::from((s / m - 1.0).abs() <= 0.03);
            let _ =
                writeln!(text, "| {block} | {schedule} | {m:.3} | {s:.3} | {} |", signed(Some(s / m - 1.0)));
        }
    }
    if all == 0 {
        return String::new();
    }
    let _ =
        writeln!(text, "\nSame order in {ordered} of {all} blocks; {within} of {count} ratios within 3 %.");
    text
}
