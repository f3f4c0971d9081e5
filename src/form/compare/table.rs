//! A comparison for people.

use comfy_table::{CellAlignment, Table, presets};

use super::{Comparison, DifferenceOrigin, FormulaReading, not_claimed};

fn new<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Two tables: terms on both sides, then own error, effects and rest with their sum.
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

    let mut differences = new(["what makes the difference", "switched from -> to", "seconds", "percent"]);
    if let Some(column) = differences.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Left);
    }
    let percent = |s: f64| format!("{:+.3}", 100.0 * s / c.closed_form_s);
    let mut row = |name: &str, what: &str, s: f64| {
        differences.add_row([name.to_string(), what.to_string(), signed(s), percent(s)]);
    };
    let claim = match c.not_claimed.is_empty() {
        true => "what the form claims: the sum of its terms",
        false => "not claimed",
    };
    row("own error", claim, c.own_error.seconds);
    for (class, name, what, seconds) in c.differences() {
        let name = if class == DifferenceOrigin::OwnError { format!("  {name}") } else { name.to_string() };
        row(&name, what, seconds);
    }
    row("sum", "simulated - closed form", c.sum_s);
    let mut text = format!("{}\nsimulated terms: {}\n\n{}\n\n", c.what, c.rank, terms.trim_fmt());
    text.push_str(&format!("{}\n", differences.trim_fmt()));
    if let Some(formula) = &c.formula {
        text.push_str(&format!("\n{}\n", formula_table(formula, c.closed_form_s, c.simulated_s)));
    }
    if let Some(sentence) = not_claimed(&c.not_claimed) {
        text.push_str(&format!("\n{sentence}\n"));
    }
    text + &format!("\n{}\n", c.worth_simulating())
}

/// A formula term by term, beside the closed form and the simulated rank.
fn formula_table(formula: &FormulaReading, closed_form_s: f64, simulated_s: f64) -> String {
    let mut table = new([
        formula.name.as_str(),
        "formula",
        "closed form",
        "simulated",
        "formula - simulated",
        "% of the step",
    ]);
    let seconds = |s: f64| format!("{s:.6}");
    for term in formula.terms.iter().filter(|t| [t.formula_s, t.closed_form_s, t.simulated_s] != [0.0; 3]) {
        let off = term.formula_s - term.simulated_s;
        let [own, form, played] = [term.formula_s, term.closed_form_s, term.simulated_s].map(seconds);
        let percent = format!("{:+.2}", 100.0 * off / simulated_s);
        table.add_row([term.name.to_string(), own, form, played, format!("{off:+.6}"), percent]);
    }
    let [off, percent] =
        [format!("{:+.6}", formula.off * simulated_s), format!("{:+.2}", 100.0 * formula.off)];
    let [own, form, played] = [formula.total_s, closed_form_s, simulated_s].map(seconds);
    table.add_row(["total".to_string(), own, form, played, off, percent]);
    table.trim_fmt()
}
