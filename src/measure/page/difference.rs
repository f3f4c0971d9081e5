//! The page about two steps side by side.

use serde_json::json;

use super::profile::Lanes;
use crate::profile::RankEvents;
use stepsim_read::analysis::cost::joules_in_words;
use stepsim_read::analysis::lines::{Line, Measure};
use stepsim_read::page::bars;
use stepsim_read::page::lane::Looks;
use stepsim_read::page::sheet::{Sheet, gib, seconds, table};

/// Most lines in a section's drawing: the ones that changed most.
const DRAWN: usize = 16;

/// The page about a comparison of `names`; `different` is what differs in the inputs, `measured` the profiles among
/// the sides.
///
/// # Errors
/// If the lines cannot be written as JSON.
pub fn page(
    names: [&str; 2],
    lines: &[Line],
    different: &[String],
    measured: &[RankEvents],
    command: &[String],
) -> serde_json::Result<String> {
    let lanes = (!measured.is_empty()).then(|| Lanes::of(measured));
    let looks = lanes.as_ref().map_or_else(Looks::default, |lanes| lanes.looks.clone());
    let colours = [("a".to_owned(), "#8f8f8f"), ("b".to_owned(), "#0072b2")];
    let mut sheet = Sheet::new(&format!("A: {} — B: {}", names[0], names[1]), looks, &colours);
    let headline = lines.iter().filter(|line| line.section == "step").take(4);
    sheet.facts(headline.map(|line| {
        (format!("{} → {}", show(line.a, line.unit), show(line.b, line.unit)), line.what.clone())
    }));
    if !different.is_empty() {
        sheet.section("What differs in the inputs", "", |out| {
            table(out, &["field: A → B"], 1, different.iter().map(|line| vec![line.clone()]));
        });
    }
    if let Some(lanes) = lanes {
        let note =
            "Kernels by the work that they do, below them why the device stood still, and communication.";
        sheet.timeline("What was measured, over time", note, lanes.end_ns, lanes.rows);
    }
    for section in lines.chunk_by(|a, b| a.section == b.section) {
        let mut sorted: Vec<&Line> = section.iter().collect();
        if section[0].section != "step" {
            sorted.sort_by(|a, b| b.change().abs().total_cmp(&a.change().abs()));
        }
        sheet.section(&section[0].section, "Grey A, blue B; what changed most comes first.", |out| {
            for unit in [Measure::Seconds, Measure::Fraction, Measure::Bytes, Measure::Count] {
                let of_unit: Vec<_> = sorted.iter().filter(|line| line.unit == unit).take(DRAWN).collect();
                let pairs =
                    of_unit.iter().map(|l| (l.what.as_str(), [l.a, l.b], [show(l.a, unit), show(l.b, unit)]));
                if of_unit.len() > 1 {
                    out.push_str(&bars::pairs(&pairs.collect::<Vec<_>>()));
                }
            }
            table(out, &["", "A", "B", "B − A", "change"], 1, sorted.iter().map(|line| cells(line)));
        });
    }
    sheet.command(command, &json!(null), &[]);
    sheet.finish(json!({}), &lines)
}

fn cells(line: &Line) -> Vec<String> {
    let sign = if line.change() < 0.0 { "−" } else { "+" };
    let change = match line.a {
        0.0 => "new".to_owned(),
        a => format!("{:+.1} %", 100.0 * line.change() / a),
    };
    let difference = match line.change() {
        0.0 => "·".to_owned(),
        change => format!("{sign}{}", show(change.abs(), line.unit)),
    };
    vec![line.what.clone(), show(line.a, line.unit), show(line.b, line.unit), difference, change]
}

fn show(value: f64, unit: Measure) -> String {
    match unit {
        _ if value == 0.0 => "·".to_owned(),
        Measure::Seconds => seconds(value),
        Measure::Bytes => gib(value),
        Measure::TokensPerSecond => format!("{value:.0}"),
        Measure::Fraction => format!("{:.1} %", 100.0 * value),
        Measure::Count => format!("{}", (value * 10.0).round() / 10.0),
        Measure::Dollars => format!("{value:.4} $"),
        Measure::Joules => joules_in_words(value),
        Measure::Watts => format!("{value:.0} W"),
    }
}
