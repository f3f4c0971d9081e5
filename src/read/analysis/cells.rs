//! Cells of tables for people.

#[cfg(feature = "tables")]
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use stepsim_core::units::Time;
pub use stepsim_core::units::grouped;

/// A table with numbers to the right under left-aligned names; without the feature `tables` a line a row, cells apart
/// by tabs.
#[cfg(feature = "tables")]
pub fn new_table(width: u16, head: Vec<String>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table.set_header(head);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(not(feature = "tables"))]
pub(crate) fn new_table(_: u16, head: Vec<String>) -> Table {
    Table(head.join("\t"))
}

#[cfg(not(feature = "tables"))]
pub(crate) struct Table(String);

#[cfg(not(feature = "tables"))]
impl Table {
    pub fn add_row<T: ToString>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells = cells.into_iter().map(|cell| cell.to_string());
        self.0 += &format!("\n{}", cells.collect::<Vec<_>>().join("\t"));
    }
}

#[cfg(not(feature = "tables"))]
impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A span with its unit, a dot for none.
pub fn seconds(s: f64) -> String {
    if s == 0.0 { "·".to_string() } else { Time::from_s(s).to_string() }
}

/// A fraction of one in percent, a dot for none.
pub fn percent(fraction: f64) -> String {
    if fraction == 0.0 { "·".to_string() } else { format!("{:.1} %", 100.0 * fraction) }
}

/// Links and ranks shown.
pub(crate) const MOST_LINKS: usize = 5;
/// Rows of a table by stage; of more, the first, the last and evenly many in between are shown.
pub(crate) const MOST_ROWS: usize = 16;

/// Stalls of less than this part of the step are shown as one.
pub(crate) const SMALL: f64 = 0.0005;

/// `fraction` of `width` columns, in eighths of a column.
pub fn bar(fraction: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (fraction.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// Items with commas between, on as many lines as the width asks for.
pub(crate) fn write_list(out: &mut String, items: &[String], width: u16) {
    let last = items.len().saturating_sub(1);
    let items = items.iter().enumerate();
    let words: Vec<_> = items.map(|(i, item)| format!("{item}{}", if i < last { "," } else { "" })).collect();
    write_words(out, &words, width);
}

/// Words, on as many indented lines as the width asks for.
pub(crate) fn write_words(out: &mut String, words: &[String], width: u16) {
    wrap(out, words.iter().map(String::as_str), "  ", " ", width);
}

/// Words with `gap` between, on as many lines as the width asks for; the first is indented by `indent`, the others by
/// two.
pub(super) fn wrap<'a>(
    out: &mut String,
    words: impl IntoIterator<Item = &'a str>,
    mut indent: &'a str,
    gap: &'a str,
    width: u16,
) {
    let mut line = String::new();
    for word in words {
        if !line.is_empty() && line.chars().count() + gap.len() + word.chars().count() > usize::from(width) {
            *out += &std::mem::take(&mut line);
            out.push('\n');
            indent = "  ";
        }
        line += if line.is_empty() { indent } else { gap };
        line += word;
    }
    *out += &line;
    out.push('\n');
}

/// Rows of stages that are alike, one behind the other, become one with the cells of the first: `2–5`.
pub fn merged<K>(
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
pub(crate) fn shown(rows: &[(String, Vec<String>)]) -> Vec<&(String, Vec<String>)> {
    let (n, most) = (rows.len(), MOST_ROWS.min(rows.len()));
    (0..most).map(|i| &rows[if most > 1 { i * (n - 1) / (most - 1) } else { 0 }]).collect()
}

pub(crate) fn omitted(shown: usize, all: usize) -> String {
    if shown < all { format!(", {shown} of {all} rows") } else { String::new() }
}

/// 10¹² FLOP/s in a unit that leaves at most four digits before the point.
pub(crate) fn flop_rate(tflops: f64) -> (f64, &'static str) {
    match tflops {
        t if t < 1e4 => (t, "TFLOP/s"),
        t if t < 1e7 => (t / 1e3, "PFLOP/s"),
        t => (t / 1e6, "EFLOP/s"),
    }
}
