//! Cells of tables for people.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::core::units::Time;
pub(crate) use crate::core::units::grouped;

/// A table with numbers to the right under left-aligned names.
pub(crate) fn new_table(width: u16, head: Vec<String>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table.set_header(head);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A span with its unit, a dot for none.
pub(crate) fn seconds(s: f64) -> String {
    if s == 0.0 { "·".to_string() } else { Time::from_s(s).to_string() }
}

/// A fraction of one in percent, a dot for none.
pub(crate) fn percent(fraction: f64) -> String {
    if fraction == 0.0 { "·".to_string() } else { format!("{:.1} %", 100.0 * fraction) }
}
