//! Relative throughput of pipeline schedules within blocks of rows that differ in nothing else.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::rows::Row;
use crate::table::Outcome;

/// One schedule of a block: name, measured and simulated step seconds.
pub type Entry = (String, f64, f64);

/// Rows of one model, number of devices and batch, by table of the paper.
pub fn blocks(outcomes: &[(Row, Outcome)]) -> BTreeMap<String, Vec<Entry>> {
    let mut blocks: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    for (row, outcome) in outcomes.iter().filter(|(row, _)| row.source() == "zero-bubble") {
        let Outcome::Done { simulated, measured } = outcome else { continue };
        // Each table of the paper has blocks of its own, with other micro-batches.
        let key = format!(
            "{} on {}, {} sequences ({})",
            row.text("model"),
            row.degree("n_devices"),
            row.degree("gbs_seqs"),
            row.text("source_ref").rsplit(' ').next().unwrap_or_default(),
        );
        let name = row.text("pp_schedule").to_string();
        blocks.entry(key).or_default().push((name, *measured, *simulated));
    }
    blocks
}

/// Ratios to 1F1B, measured and simulated.
pub fn table(outcomes: &[(Row, Outcome)]) -> String {
    let mut text = String::from(
        "| block | schedule | throughput over 1F1B, measured | simulated | off |\n|--|--|--|--|--|\n",
    );
    let (mut ordered, mut all, mut within, mut ratios) = (0, 0, 0, 0);
    for (key, entries) in blocks(outcomes) {
        let Some(base) = entries.iter().find(|e| e.0 == "1F1B").cloned() else { continue };
        all += 1;
        ordered += usize::from(same_order(&entries));
        for (name, measured, simulated) in entries.iter().filter(|e| e.0 != "1F1B") {
            let (m, s) = (base.1 / measured, base.2 / simulated);
            ratios += 1;
            within += usize::from((s / m - 1.0).abs() <= 0.03);
            let _ = writeln!(text, "| {key} | {name} | {m:.3} | {s:.3} | {:+.1} % |", 100.0 * (s / m - 1.0));
        }
    }
    let _ =
        writeln!(text, "\nSame order in {ordered} of {all} blocks; {within} of {ratios} ratios within 3 %.");
    text
}

/// Whether two schedules whose measured times differ by more than rounding (0.6 %) are in the same order simulated.
pub fn same_order(entries: &[Entry]) -> bool {
    entries.iter().all(|a| entries.iter().all(|b| a.1 >= b.1 * 0.994 || a.2 < b.2))
}
