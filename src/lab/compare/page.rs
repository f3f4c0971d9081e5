//! The page about a closed form and a simulation.

use serde_json::json;

use super::Comparison;
use crate::lab::page::lane::Looks;
use crate::lab::page::sheet::{Sheet, pairs, seconds, table};

/// The page: both sides term by term, and what makes the difference.
///
/// # Errors
/// If the comparison cannot be written as JSON.
pub fn page(c: &Comparison, command: &[String]) -> serde_json::Result<String> {
    let colours = [("a".to_owned(), "#8f8f8f"), ("b".to_owned(), "#0072b2")];
    let mut sheet = Sheet::new(&c.what, Looks::default(), &colours);
    let percent = |s: f64| format!("{:+.2} %", 100.0 * s / c.closed_form_s.max(f64::MIN_POSITIVE));
    sheet.facts(
        [
            (seconds(c.closed_form_s), "closed form"),
            (seconds(c.simulated_s), "simulated"),
            (percent(c.sum_s), "simulation less closed form"),
        ]
        .map(|(value, what)| (value, what.to_owned())),
    );
    let note = format!("Grey the closed form, blue what the compute stream of {} did or waited for.", c.rank);
    let terms: Vec<_> = c.terms.iter().filter(|t| t.closed_form_s != 0.0 || t.simulated_s != 0.0).collect();
    sheet.section("The step, term by term", &note, |out| {
        let both = |t: &&super::Term| [t.closed_form_s, t.simulated_s];
        let lines: Vec<_> = terms.iter().map(|t| (t.name, both(t), both(t).map(seconds))).collect();
        out.push_str(&pairs(&lines));
    });
    let note = "Each the difference of two simulations that differ in one switch, in this order; they add up exactly.";
    sheet.section("What makes the difference", note, |out| {
        let effects = c.effects.iter().map(|e| (e.name, e.switch, e.seconds));
        let rest = ("rest", "no switch: what the simplest run differs by", c.rest_s);
        let sum = ("sum", "simulation less closed form", c.sum_s);
        let rows = effects
            .chain([rest, sum])
            .map(|(name, switch, s)| vec![name.to_owned(), switch.to_owned(), seconds(s), percent(s)]);
        table(out, &["effect", "switched from → to", "time", "of the closed form"], 2, rows);
    });
    sheet.command(command, &json!(null), &[]);
    sheet.finish(json!({}), c)
}
