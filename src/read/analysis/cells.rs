//! Cells of tables for people.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::core::units::Time;

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

/// With commas between thousands.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(999), "999");
    }
}
