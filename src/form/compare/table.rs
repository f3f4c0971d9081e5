//! A comparison for people.

use comfy_table::{CellAlignment, Table, presets};

use super::Comparison;

fn new(header: [&str; 4]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Two tables: terms on both sides, then the effects with their sum.
pub fn table(c: &Comparison) -> String {
    let seconds = |s: f64| format!("{s:.6}");
    let signed = |s: f64| if s == 0.0 { "0".to_string() } else { format!("{s:+.6}") };
    let mut terms = new(["step, seconds", "closed form", "simulated", "difference"]);
    for t in c.terms.iter().filter(|t| t.closed_form_s != 0.0 || t.simulated_s != 0.0) {
        terms.add_row([
            t.name.to_string(),
            seconds(t.closed_form_s),
            seconds(t.simulated_s),
            signed(t.simulated_s - t.closed_form_s),
        ]);
    }
    let total = signed(c.sum_s);
    terms.add_row(["total".to_string(), seconds(c.closed_form_s), seconds(c.simulated_s), total]);

    let mut effects = new(["what makes the difference", "switched from -> to", "seconds", "percent"]);
    if let Some(column) = effects.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Left);
    }
    let percent = |s: f64| format!("{:+.3}", 100.0 * s / c.closed_form_s);
    for e in &c.effects {
        effects.add_row([e.name.to_string(), e.switch.to_string(), signed(e.seconds), percent(e.seconds)]);
    }
    let rest = "no switch: what the simplest run differs by".to_string();
    effects.add_row(["rest".to_string(), rest, signed(c.rest_s), percent(c.rest_s)]);
    let sum = "simulated - closed form".to_string();
    effects.add_row(["sum".to_string(), sum, signed(c.sum_s), percent(c.sum_s)]);
    format!("{}\nsimulated terms: {}\n\n{}\n\n{}\n", c.what, c.rank, terms.trim_fmt(), effects.trim_fmt())
}
