//! The page about a search.

use super::words::{layout, pruned_words, value};
use crate::command_line::command;
use crate::tables;
use stepsim_core::units::grouped;
use stepsim_read::analysis::waterfall::chart;
use stepsim_simulate::page::lane::Looks;
use stepsim_simulate::page::sheet::{PlotPoint, Sheet, SignedBar, pairs, quoted, seconds, signed, table};
use stepsim_study::{RankedLayout, SearchReport};

/// A layout that is slower by less than this part of the best's step has no reasons.
pub(super) const SEEN: f64 = 0.0005;

/// The ranking, where the step of the best goes, why the next are slower, and what was left out.
///
/// # Errors
/// If the report cannot be written as JSON.
pub(super) fn page(report: &SearchReport, workload: &str) -> serde_json::Result<String> {
    let title = format!("Layouts of {} on {}", report.workload, report.topology);
    let colours = [("a".to_owned(), "#8f8f8f"), ("b".to_owned(), "#0072b2"), ("busy".to_owned(), "#4c7d78")];
    let mut sheet = Sheet::new(&title, Looks::default(), &colours);
    facts(&mut sheet, report);
    if !report.ranking.is_empty() {
        ranking(&mut sheet, report, workload);
        worth_measuring(&mut sheet, report);
        best(&mut sheet, report);
    }
    left_out(&mut sheet, report);
    sheet.command(&command(), &serde_json::Value::Null, &report.assumed);
    sheet.finish(serde_json::json!({}), report)
}

fn facts(sheet: &mut Sheet, report: &SearchReport) {
    let mut facts = Vec::new();
    if let Some(best) = report.ranking.first() {
        facts.extend([
            (seconds(time(best)), "a step of the best"),
            (format!("{:.1} %", 100.0 * best.outcome.mfu.unwrap_or_default()), "MFU"),
            (format!("{:.1} GiB", gib(best)), "of device memory at the peak"),
            (grouped(best.devices.into()), "devices"),
        ]);
    }
    facts.push((grouped(report.points), "layouts"));
    facts.push((grouped(report.simulated), "of these simulated"));
    sheet.facts(facts.into_iter().map(|(value, what)| (value, what.to_owned())));
    match report.ranking.first() {
        Some(best) => sheet.lead(&format!("The best: {}", layout(&best.settings))),
        None => sheet.lead("No layout fits."),
    }
}

/// The ranked layouts: bars of both times, and a table with a column for each field that differs.
fn ranking(sheet: &mut Sheet, report: &SearchReport, workload: &str) {
    let names: Vec<String> = (1..=report.ranking.len()).map(|place| format!("number {place}")).collect();
    let lines = names.iter().zip(&report.ranking).map(|(name, ranked)| {
        let both = [ranked.closed_form_s, time(ranked)];
        (name.as_str(), both, both.map(seconds))
    });
    let lines: Vec<_> = lines.collect();
    sheet.section("Closed form and simulation", "Grey the closed form, blue the simulated step.", |out| {
        out.push_str(&pairs(&lines));
    });
    let prices = report.ranking.iter().any(|r| r.usd_per_million_tokens.is_some());
    let powers = report.ranking.iter().any(|r| r.joules_per_token.is_some());
    let mut fields: Vec<&String> = report.ranking.iter().flat_map(|r| r.settings.keys()).collect();
    fields.sort();
    fields.dedup();
    let differs = |field: &String| {
        report.ranking.iter().any(|r| r.settings.get(field) != report.ranking[0].settings.get(field))
    };
    fields.retain(|field| differs(field));
    let mut heads: Vec<String> = ["place", "step, ms", "closed form, ms", "MFU, %", "memory, GiB", "devices"]
        .map(String::from)
        .to_vec();
    heads.extend(prices.then(|| "$/M tokens".to_owned()));
    heads.extend(powers.then(|| "J/token".to_owned()));
    heads.extend(fields.iter().map(|field| field.to_string()));
    let rows: Vec<PlotPoint> = (1..)
        .zip(&report.ranking)
        .map(|(place, ranked)| {
            let four = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
            let mut cells = vec![
                format!("{place}"),
                ms(time(ranked)),
                ms(ranked.closed_form_s),
                format!("{:.1}", 100.0 * ranked.outcome.mfu.unwrap_or_default()),
                format!("{:.1}", gib(ranked)),
                grouped(ranked.devices.into()),
            ];
            cells.extend(prices.then(|| four(ranked.usd_per_million_tokens)));
            cells.extend(powers.then(|| four(ranked.joules_per_token)));
            cells.extend(fields.iter().map(|field| ranked.settings.get(*field).map_or(String::new(), value)));
            PlotPoint { cells, command: run(ranked, report, workload), message: String::new() }
        })
        .collect();
    sheet.points("Ranking", "Best first, with the fields in which they differ.", &heads, &rows);
}

/// The command that runs a layout.
fn run(ranked: &RankedLayout, report: &SearchReport, workload: &str) -> String {
    let sets = ranked.sets.iter().map(|set| format!(" --set {}", quoted(set)));
    format!("stepsim run {} -t {}{}", quoted(workload), quoted(&report.topology), sets.collect::<String>())
}

/// The layouts that are worth measuring.
fn worth_measuring(sheet: &mut Sheet, report: &SearchReport) {
    let rows = report.worth_measuring().map(|ranked| {
        let lines = ranked.advice.as_ref().map_or(Vec::new(), |advice| advice.lines());
        vec![layout(&ranked.settings), lines.join("; ")]
    });
    let rows: Vec<_> = rows.collect();
    let note = "The best by the upper end of its range, and two that differ from it in kind: ten steps of each decide.";
    sheet.section("Worth measuring", note, |out| table(out, &["layout", "what is known"], 2, rows));
}

/// Where the step of the best goes, and what the next spend more on.
fn best(sheet: &mut Sheet, report: &SearchReport) {
    if let Some(bars) = &report.ranking[0].waterfall {
        let note = "The part of the devices' peak that is left as MFU, and the losses, mean of all ranks.";
        sheet.section("The best, from the peak to MFU", note, |out| out.push_str(&chart(bars)));
    }
    let more = |ranked: &RankedLayout| time(ranked) - time(&report.ranking[0]);
    let is_told = |ranked: &RankedLayout| {
        !ranked.slower_by.is_empty() && more(ranked) >= SEEN * time(&report.ranking[0])
    };
    for (place, ranked) in (1..).zip(&report.ranking).filter(|(_, ranked)| is_told(ranked)) {
        let more = more(ranked);
        let title = format!("Why number {place} is slower, by {}", seconds(more));
        let lines = ranked.slower_by.iter().take(REASONS).map(|reason| SignedBar {
            name: reason.what.clone(),
            value: reason.more_s,
            note: seconds(reason.more_s),
        });
        let lines: Vec<SignedBar> = lines.collect();
        let note = format!(
            "Seconds of a mean rank more (orange) or less (green) than the best. {}",
            layout(&ranked.settings)
        );
        sheet.section(&title, &note, |out| out.push_str(&signed("difference from the best", &lines)));
    }
}

/// Why layouts were not simulated, or have no result.
fn left_out(sheet: &mut Sheet, report: &SearchReport) {
    let pruned = report.pruned.iter().filter(|(_, count)| **count > 0);
    let pruned = pruned.map(|(reason, count)| vec![pruned_words(reason).to_owned(), grouped(*count)]);
    let unfit = report.unfit.iter();
    let unfit = unfit
        .map(|(reason, count)| vec![format!("simulated: {}", reason.replace('_', " ")), grouped(*count)]);
    let rows: Vec<_> = pruned.chain(unfit).collect();
    let note = format!(
        "The closed form was trusted within {:.0} %; it was at most {:.1} % of itself longer than the simulation.",
        100.0 * report.margin,
        100.0 * report.closed_form_longest
    );
    let simulating = report.simulating.iter().map(|simulating| format!(" The {}.", simulating.sentence()));
    let note = note + &simulating.collect::<String>();
    sheet.section("What was left out", &note, |out| table(out, &["why", "layouts"], 1, rows));
}

/// Reasons that are drawn of a layout.
const REASONS: usize = 8;

/// Milliseconds of a time.
fn ms(seconds: f64) -> String {
    format!("{:.3}", 1e3 * seconds)
}

fn time(ranked: &RankedLayout) -> f64 {
    ranked.outcome.step_time_s.unwrap_or_default()
}

fn gib(ranked: &RankedLayout) -> f64 {
    tables::gib(ranked.outcome.memory_peak_bytes.unwrap_or_default() as f64)
}
