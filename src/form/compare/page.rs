//! The page about a closed form and a simulation.

use serde_json::json;

use super::{Comparison, Term};
use stepsim_core::ids::RankId;
use stepsim_core::units::Time;
use stepsim_read::palette;
use stepsim_simulate::Simulation;
use stepsim_simulate::behaviour::DrawnRank;
use stepsim_simulate::page::lane::{ItemStyle, LaneItem, Looks, TimeRow};
use stepsim_simulate::page::sheet::{Sheet, pairs, seconds, table};
use stepsim_simulate::page::{gather, step_looks as looks};

/// The simulated rank over time, as the page of its run draws it.
#[derive(Debug)]
pub struct RankDrawing {
    end_ns: u64,
    row: TimeRow,
}

impl RankDrawing {
    /// A rank of a run.
    pub fn of(run: &Simulation, rank: RankId) -> RankDrawing {
        let mut shown = gather(run, &DrawnRank::asked([rank]));
        RankDrawing { end_ns: shown.step_ns, row: shown.rows.remove(0) }
    }

    /// That rank, under it the closed form, and below that the same terms as they were simulated.
    fn rows(self, terms: &[Term]) -> (u64, Vec<TimeRow>) {
        let first = looks().passes.len();
        let end_of = |seconds: fn(&Term) -> f64| terms.iter().map(seconds).map(|s| s.max(0.0)).sum::<f64>();
        let end = self.end_ns.max(Time::from_s(end_of(|t| t.closed_form_s)).round_ns());
        let row = |name: &str, seconds: fn(&Term) -> f64| {
            let mut before = 0.0;
            let items = terms.iter().zip(first..).map(|(term, kind)| {
                let start = Time::from_s(before).round_ns();
                before += seconds(term).max(0.0);
                LaneItem { start, end: Time::from_s(before).round_ns(), kind: kind as u32, tag: 0 }
            });
            TimeRow::new(name.to_owned(), end, 1, [items.collect(), Vec::new(), Vec::new()], None)
        };
        let form = row("closed form", |t| t.closed_form_s);
        let simulated = row("as simulated", |t| t.simulated_s);
        (end, vec![self.row, form, simulated])
    }
}

/// Looks of passes, and of the terms.
fn with_terms(terms: &[Term]) -> Looks {
    let mut looks = looks();
    let colours = (0..).map(palette::number);
    looks
        .passes
        .extend(terms.iter().zip(colours).map(|(t, colour)| ItemStyle { name: t.name.to_owned(), colour }));
    looks
}

/// The page: the simulated rank over time where it is given, both sides term by term, and what makes the difference,
/// by class.
///
/// # Errors
/// If the comparison cannot be written as JSON.
pub fn page(c: &Comparison, drawing: Option<RankDrawing>, command: &[String]) -> serde_json::Result<String> {
    let colours = [("a".to_owned(), "#8f8f8f"), ("b".to_owned(), "#0072b2")];
    let looks = if drawing.is_some() { with_terms(&c.terms) } else { Looks::default() };
    let mut sheet = Sheet::new(&c.what, looks, &colours);
    let percent = |s: f64| format!("{:+.2} %", 100.0 * s / c.closed_form_s.max(f64::MIN_POSITIVE));
    sheet.facts(
        [
            (seconds(c.closed_form_s), "closed form"),
            (seconds(c.simulated_s), "simulated"),
            (percent(c.sum_s), "simulation less closed form"),
            (percent(c.own_error.seconds), "the form's own error"),
        ]
        .map(|(value, what)| (value, what.to_owned())),
    );
    if let Some(drawing) = drawing {
        let (end, rows) = drawing.rows(&c.terms);
        let note = "The simulated rank; under it the closed form, its terms one after another, and the same \
                    terms as they were simulated.";
        sheet.timeline("The step over time", note, end, rows);
    }
    let note = format!("Grey the closed form, blue what the compute stream of {} did or waited for.", c.rank);
    let terms: Vec<_> = c.terms.iter().filter(|t| t.closed_form_s != 0.0 || t.simulated_s != 0.0).collect();
    sheet.section("The step, term by term", &note, |out| {
        let both = |t: &&super::Term| [t.closed_form_s, t.simulated_s];
        let lines: Vec<_> = terms.iter().map(|t| (t.name, both(t), both(t).map(seconds))).collect();
        out.push_str(&pairs(&lines));
    });
    if let Some(formula) = &c.formula {
        let note = format!("{} Seconds by the formula, in closed form, and as simulated.", formula.source);
        sheet.section(&format!("The formula {}, term by term", formula.name), &note, |out| {
            let there = formula.terms.iter().filter(|t| t.formula_s != 0.0 || t.closed_form_s != 0.0);
            let rows = there.map(|t| {
                let all = [t.formula_s, t.closed_form_s, t.simulated_s].map(seconds);
                let percent = format!("{:+.2} %", t.percent);
                std::iter::once(t.name.to_owned()).chain(all).chain([percent]).collect::<Vec<_>>()
            });
            let header =
                ["term", "formula", "closed form", "simulated", "formula less closed form, of the step"];
            table(out, &header, 1, rows);
        });
    }
    let note = "Own error: subjects that the form has a term for, one on top of another. Effects: subjects \
                without a term, each by itself. Rest: the part that no switch explains. They add up exactly.";
    sheet.section("What makes the difference", note, |out| {
        let own = ("", "own error", "what the form claims: the sum of its terms", c.own_error.seconds);
        let sum = ("", "sum", "simulation less closed form", c.sum_s);
        let all = c.differences().map(|(class, name, switch, s)| (class.name(), name, switch, s));
        let rows = std::iter::once(own).chain(all).chain([sum]).map(|(class, name, switch, s)| {
            vec![class.to_owned(), name.to_owned(), switch.to_owned(), seconds(s), percent(s)]
        });
        table(out, &["class", "what", "switched from → to", "time", "of the closed form"], 3, rows);
        out.push_str(&format!("<p>{}.</p>", c.worth_simulating()));
    });
    sheet.command(command, &json!(null), &[]);
    sheet.finish(json!({}), c)
}
