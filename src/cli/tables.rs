//! Tables: numbers to the right, terms with their shares.

use comfy_table::{CellAlignment, Table, presets};

/// Bytes in units of 2³⁰.
pub(super) fn gib(bytes: f64) -> f64 {
    bytes / (1u64 << 30) as f64
}

/// A table whose columns but the first stand to the right.
pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    right(&mut table, 1..header.len());
    table
}

/// Sets these columns of a table to the right.
pub(super) fn right(table: &mut Table, columns: impl IntoIterator<Item = usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Terms in seconds, each with its share of their sum.
pub(super) fn term_table(terms: &[(&str, f64)]) -> Table {
    let total: f64 = terms.iter().map(|term| term.1).sum();
    let mut table = table(&["step", "seconds", "share"]);
    for (name, seconds) in terms.iter().chain(&[("total", total)]) {
        table.add_row([
            name.to_string(),
            format!("{seconds:.6}"),
            format!("{:.2} %", 100.0 * seconds / total),
        ]);
    }
    table
}
