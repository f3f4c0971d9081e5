//! Where and why a formula is off over a study: by term, and by what the points set.

use std::collections::BTreeMap;

use super::formula_columns::{FARTHEST, OFF, term_column};
use super::rows::Row;
use super::space::set_text;
use stepsim_form::analytic::KEYS;

/// Most values of a field that are told apart.
const MOST_VALUES: usize = 16;

/// Percents over some points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Errors {
    /// How many points.
    pub points: usize,
    /// Their mean.
    pub mean: f64,
    /// The farthest from zero, and the number of its point.
    pub most: f64,
    /// See `most`.
    pub most_at: u64,
}

impl Errors {
    fn of(percents: impl Iterator<Item = (u64, f64)>) -> Errors {
        let (mut errors, mut sum) = (Errors::default(), 0.0);
        for (point, percent) in percents {
            errors.points += 1;
            sum += percent;
            if percent.abs() > errors.most.abs() {
                (errors.most, errors.most_at) = (percent, point);
            }
        }
        errors.mean = sum / errors.points.max(1) as f64;
        errors
    }
    fn cells(&self) -> [String; 4] {
        let percent = |x: f64| format!("{x:+.2}");
        [self.points.to_string(), percent(self.mean), percent(self.most), self.most_at.to_string()]
    }
}

/// A table: its headings, and its rows.
pub type Cells = (Vec<&'static str>, Vec<Vec<String>>);

/// A formula over the points of a study that have a result.
#[derive(Clone, Debug, PartialEq)]
pub struct FormulaMap {
    /// Its step less the points' own, in percent of these.
    pub off: Errors,
    /// By term, those that are farthest on most points first: on how many, and its error in percent of the closed
    /// form's step.
    pub terms: Vec<(&'static str, usize, Errors)>,
    /// By setting: as text, how far the step is off, and the term that is farthest on most of its points.
    pub settings: Vec<(String, Errors, String)>,
}

impl FormulaMap {
    /// The map of rows that have the columns of a formula; `None` where none has.
    pub fn of(rows: &[Row]) -> Option<FormulaMap> {
        let read: Vec<&Row> = rows.iter().filter(|row| number(row, OFF).is_some()).collect();
        let off = off(&read);
        (off.points > 0).then(|| FormulaMap { off, terms: terms(&read), settings: settings(&read) })
    }

    /// The map by term.
    pub fn by_term(&self) -> Cells {
        let heads = vec!["term", "farthest on", "points", "mean, %", "most, %", "at point"];
        let cells = |(name, farthest, errors): &(&'static str, usize, Errors)| {
            [name.to_string(), farthest.to_string()].into_iter().chain(errors.cells()).collect()
        };
        (heads, self.terms.iter().map(cells).collect())
    }

    /// The map by what the points set.
    pub fn by_setting(&self) -> Cells {
        let heads = vec!["setting", "farthest term", "points", "off, mean %", "most, %", "at point"];
        let cells = |(setting, errors, term): &(String, Errors, String)| {
            [setting.clone(), term.clone()].into_iter().chain(errors.cells()).collect()
        };
        (heads, self.settings.iter().map(cells).collect())
    }

    /// Where it is off, in a sentence.
    pub fn sentence(&self) -> String {
        let Errors { points, mean, most, most_at } = self.off;
        let term = self.terms.first().filter(|(_, farthest, _)| *farthest > 0);
        let term = term.map_or("; no term differs from the closed form's".to_string(), |(name, on, _)| {
            format!("; {name} is the farthest term on {on}")
        });
        format!(
            "the formula over {points} points: {mean:+.2} % on the mean, {most:+.2} % at point {most_at}{term}"
        )
    }
}

fn number(row: &Row, column: &str) -> Option<f64> {
    row.outcome.columns.get(column)?.as_f64()
}

fn farthest(row: &Row) -> &str {
    row.outcome.columns.get(FARTHEST).and_then(|name| name.as_str()).unwrap_or_default()
}

fn off(rows: &[&Row]) -> Errors {
    Errors::of(rows.iter().filter_map(|row| Some((row.point, number(row, OFF)?))))
}

fn terms(rows: &[&Row]) -> Vec<(&'static str, usize, Errors)> {
    let of = |key: &'static str| {
        let column = term_column(key);
        let errors = Errors::of(rows.iter().filter_map(|row| Some((row.point, number(row, &column)?))));
        (key, rows.iter().filter(|row| farthest(row) == key).count(), errors)
    };
    let mut terms: Vec<_> = KEYS.into_iter().map(of).filter(|(.., errors)| errors.points > 0).collect();
    terms.sort_by(|a, b| b.1.cmp(&a.1).then(b.2.most.abs().total_cmp(&a.2.most.abs())));
    terms
}

/// Fields that take several values, each value with its points, the worst value of a field first.
fn settings(rows: &[&Row]) -> Vec<(String, Errors, String)> {
    let mut fields: BTreeMap<&String, BTreeMap<String, Vec<&Row>>> = BTreeMap::new();
    for row in rows {
        for (path, value) in &row.settings {
            fields.entry(path).or_default().entry(set_text(path, value)).or_default().push(row);
        }
    }
    let told = fields.into_values().filter(|values| (2..=MOST_VALUES).contains(&values.len()));
    told.flat_map(|values| {
        let of = |(text, rows): (String, Vec<&Row>)| (text, off(&rows), most_often(&rows));
        let mut values: Vec<_> = values.into_iter().map(of).collect();
        values.sort_by(|a, b| b.1.mean.abs().total_cmp(&a.1.mean.abs()));
        values
    })
    .collect()
}

/// The term that is farthest on most rows; of several the first by name.
fn most_often(rows: &[&Row]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        *counts.entry(farthest(row)).or_default() += 1;
    }
    let most = counts.values().max().copied().unwrap_or(0);
    counts.iter().find(|(_, count)| **count == most).map_or_else(String::new, |(name, _)| name.to_string())
}
