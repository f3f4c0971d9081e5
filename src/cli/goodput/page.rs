//! The page about days of training.

use super::result::{Goodput, span};
use crate::command_line::command;
use stepsim_core::units::grouped;
use stepsim_simulate::page::lane::Looks;
use stepsim_simulate::page::sheet::{Sheet, bars, table};

/// Colours of the parts of the days, in their order: progress first.
const COLOURS: [&str; 5] = ["#4c7d78", "#e69f00", "#56b4e9", "#d55e00", "#8f8f8f"];

/// Where the days of `workload` went, how far runs lie apart, and checkpoint intervals.
///
/// # Errors
/// If the result cannot be written as JSON.
pub(super) fn page(g: &Goodput, workload: Option<&str>) -> serde_json::Result<String> {
    let what = workload.unwrap_or("a job");
    let colours: Vec<_> = (0..).zip(COLOURS).map(|(i, colour)| (format!("part{i}"), colour)).collect();
    let title = format!("Days of {what} on {} devices", grouped(g.devices.into()));
    let mut sheet = Sheet::new(&title, Looks::default(), &colours);
    facts(&mut sheet, g);
    days(&mut sheet, g);
    spread(&mut sheet, g);
    intervals(&mut sheet, g);
    sheet.command(&command(), &g.head, &[]);
    sheet.finish(serde_json::json!({}), g)
}

fn percent(part: f64) -> String {
    format!("{:.2} %", 100.0 * part)
}

fn facts(sheet: &mut Sheet, g: &Goodput) {
    let goodput = g.simulated.goodput.mean;
    let mut facts = vec![
        (percent(goodput), "goodput: part of the days that is progress"),
        (span(g.mtbf_s), "between two interruptions"),
        (span(g.interval_s), "between two checkpoints"),
        (span(g.step_time_s), "an undisturbed step"),
    ];
    facts.extend(g.answer.as_ref().map(|answer| (percent(answer.mfu * goodput), "MFU over all days")));
    let tokens = g.tokens_per_s.map(|tokens| tokens * goodput * 86_400.0 / 1e9);
    facts.extend(tokens.map(|billions| (format!("{billions:.1} · 10⁹"), "tokens a day")));
    sheet.facts(facts.into_iter().map(|(value, what)| (value, what.to_owned())));
    if let Some(answer) = &g.answer {
        sheet.remark(&format!("The step: {}. {}", answer.step_in_words(), answer.hangs_on));
    }
    let mut losses = g.simulated.mean.parts()[1..].to_vec();
    losses.sort_by(|a, b| b.1.total_cmp(&a.1));
    let wall = g.simulated.days * 86_400.0;
    if let Some((name, seconds)) = losses.first().filter(|loss| loss.1 > 0.0) {
        sheet.lead(&format!("The largest loss: {name}, {} of the days", percent(seconds / wall)));
    }
}

/// Parts of the wall time of a mean run, a line each.
fn days(sheet: &mut Sheet, g: &Goodput) {
    let wall = g.simulated.days * 86_400.0;
    let lines: Vec<_> = (0..)
        .zip(g.simulated.mean.parts())
        .map(|(i, (name, seconds))| {
            let seconds = seconds.max(0.0);
            let text = format!("{}, {:.2} h", percent(seconds / wall), seconds / 3600.0);
            (name.to_owned(), vec![(format!("part{i}"), seconds, text.clone())], text)
        })
        .collect();
    let note = format!(
        "A mean run of {} days, of {} that were drawn.",
        g.simulated.days,
        grouped(g.simulated.runs.into())
    );
    sheet.section("Where the days went", &note, |out| {
        out.push_str(&bars("days", "parts of the days", wall, &lines))
    });
}

/// How far runs lie apart.
fn spread(sheet: &mut Sheet, g: &Goodput) {
    let of = &g.simulated;
    let exact = g.expected_goodput.map_or("no closed form".to_owned(), percent);
    let row = |name: &str, cells: [String; 4]| [name.to_owned()].into_iter().chain(cells).collect();
    let goodput = [percent(of.goodput.mean), percent(of.goodput.p5), percent(of.goodput.p95), exact];
    let seen = &of.interruptions;
    let count = |x: f64| format!("{x:.1}");
    let seen = [count(seen.mean), count(seen.p5), count(seen.p95), count(of.days * 86_400.0 / g.mtbf_s)];
    let rows: [Vec<String>; 2] = [row("goodput", goodput), row("interruptions of a run", seen)];
    let note = "Of 20 runs one lies below, and one above.";
    let heads = ["", "mean", "one of 20 below", "one of 20 above", "exact"];
    sheet.section("How far runs lie apart", note, |out| table(out, &heads, 1, rows));
}

/// Checkpoint intervals: the one that is used, and the best ones that are known.
fn intervals(sheet: &mut Sheet, g: &Goodput) {
    let rows = g.intervals.iter().map(|i| {
        let goodput = i.goodput.map_or("no closed form".to_owned(), percent);
        vec![i.name.to_owned(), format!("{:.1} s", i.seconds), goodput]
    });
    let note = "Exact goodput, were no device slow.";
    sheet.section("Checkpoint intervals", note, |out| {
        table(out, &["interval", "work between two", "goodput"], 1, rows)
    });
}
