//! How far off steps are that were anchored to smaller ones: `stepsim score --anchor`.
//!
//! Within a source, a software and a device, the rows of a model on the fewest devices are given. They predict its
//! rows on more devices; the first of them predicts the others on as many; and the model's rows on the fewest devices
//! predict the other models. A model is a name with its layers and width, since some sources have one name for all.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::anchor::{Anchor, AnchorRow, Reach};
use super::outcome::RowOutcome;
use super::statistics::Statistics;

/// Errors of predicted rows before and after anchoring.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AnchoredErrors {
    /// By kind of model and reach.
    pub groups: Vec<AnchoredGroup>,
    /// Up to 8 times the devices, by source.
    pub sources: BTreeMap<String, BeforeAfter>,
    /// Each prediction.
    pub rows: Vec<AnchoredRow>,
}

/// Predictions of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct AnchoredGroup {
    /// `dense` or `moe`.
    pub model: &'static str,
    /// The reach of the prediction from the given rows.
    pub reach: &'static str,
    /// Their errors.
    #[serde(flatten)]
    pub errors: BeforeAfter,
}

/// Errors without the measured rows, and with them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct BeforeAfter {
    /// Of the simulation.
    pub before: Statistics,
    /// Of the anchored one.
    pub after: Statistics,
}

/// One prediction.
#[derive(Clone, Debug, Serialize)]
pub struct AnchoredRow {
    /// The row.
    pub id: String,
    /// Its source.
    pub source: String,
    /// True if the model has experts.
    pub moe: bool,
    /// How far it is from what was given.
    pub reach: Reach,
    /// The rows that were given.
    pub given: Vec<String>,
    /// The factors that they tell.
    pub factors: [f64; 4],
    /// Predicted over measured without them, less one.
    pub before: f64,
    /// And with them.
    pub after: f64,
}

/// A row that may be given or predicted.
#[derive(Clone, Copy)]
struct AnchorCase<'a> {
    outcome: &'a RowOutcome,
    row: AnchorRow,
    devices: f64,
    moe: bool,
}

impl<'a> AnchorCase<'a> {
    fn of(outcome: &'a RowOutcome) -> Option<(&'a str, &'a str, AnchorCase<'a>)> {
        outcome.error()?;
        let case = outcome.case.as_ref()?;
        let row = AnchorRow { parts: outcome.parts?, measured_s: case.measured_s };
        let known = AnchorCase { outcome, row, devices: case.devices?, moe: case.moe };
        Some((&case.family, &case.model, known))
    }

    fn predicted(&self, given: &[AnchorCase], reach: Reach) -> AnchoredRow {
        let rows: Vec<AnchorRow> = given.iter().map(|known| known.row).collect();
        let anchor = Anchor::fit(&rows, reach.own(self.moe));
        let off = |seconds: f64| seconds / self.row.measured_s - 1.0;
        AnchoredRow {
            id: self.outcome.id.clone(),
            source: self.outcome.source.clone(),
            moe: self.moe,
            reach,
            given: given.iter().map(|known| known.outcome.id.clone()).collect(),
            factors: anchor.factors,
            before: off(self.row.parts.iter().sum()),
            after: off(anchor.seconds(&self.row.parts)),
        }
    }
}

/// The rows of one model, those on the fewest devices first.
struct ModelRows<'a> {
    rows: Vec<AnchorCase<'a>>,
    given: usize,
}

impl<'a> ModelRows<'a> {
    fn of(mut rows: Vec<AnchorCase<'a>>) -> ModelRows<'a> {
        rows.sort_by(|a, b| a.devices.total_cmp(&b.devices));
        let given = rows.iter().take_while(|row| row.devices == rows[0].devices).count();
        ModelRows { rows, given }
    }

    fn given(&self) -> &[AnchorCase<'a>] {
        &self.rows[..self.given]
    }

    /// Its rows on more devices from those on the fewest, and of these the others from the first.
    fn predicted(&self) -> impl Iterator<Item = AnchoredRow> + '_ {
        let fewest = self.rows[0].devices;
        let more = self.rows[self.given..]
            .iter()
            .map(move |row| row.predicted(self.given(), Reach::of_devices(row.devices / fewest)));
        let layouts = self.given()[1..].iter().map(|row| row.predicted(&self.rows[..1], Reach::Layout));
        more.chain(layouts)
    }

    /// All other models from this one.
    fn others(&self, models: &[ModelRows]) -> impl Iterator<Item = AnchoredRow> {
        let others = models.iter().filter(|other| !std::ptr::eq(*other, self));
        others.flat_map(|model| &model.rows).map(|row| row.predicted(self.given(), Reach::Model))
    }
}

impl AnchoredErrors {
    /// Anchors whatever rows have others to be anchored to.
    pub fn of(outcomes: &[RowOutcome]) -> AnchoredErrors {
        let mut families: BTreeMap<&str, BTreeMap<&str, Vec<AnchorCase>>> = BTreeMap::new();
        for (family, model, known) in outcomes.iter().filter_map(AnchorCase::of) {
            families.entry(family).or_default().entry(model).or_default().push(known);
        }
        let mut rows = Vec::new();
        for models in families.into_values() {
            let models: Vec<ModelRows> = models.into_values().map(ModelRows::of).collect();
            rows.extend(models.iter().flat_map(ModelRows::predicted));
            let smallest = models.iter().min_by_key(|model| (model.rows[0].devices * 1e3) as u64);
            rows.extend(smallest.into_iter().flat_map(|smallest| smallest.others(&models)));
        }
        AnchoredErrors { groups: groups(&rows), sources: sources(&rows), rows }
    }

    /// The tables.
    pub fn text(&self) -> String {
        let mut text = String::from("| anchored: model | prediction | ") + COLUMNS;
        text += "--|--|--|--|--|--|--|--|\n";
        for group in &self.groups {
            let _ = writeln!(text, "| {} | {} {}", group.model, group.reach, group.errors.cells());
        }
        text += &(String::from("\n| anchored, up to 8 times the devices: source | ") + COLUMNS);
        text += "--|--|--|--|--|--|--|\n";
        for (source, errors) in &self.sources {
            let _ = writeln!(text, "| {source} {}", errors.cells());
        }
        text
    }
}

const COLUMNS: &str =
    "rows | mean abs. error before | anchored | median before | anchored | p90 before | anchored |\n|";

fn groups(rows: &[AnchoredRow]) -> Vec<AnchoredGroup> {
    let mut groups = Vec::new();
    for (model, moe) in [("dense", false), ("moe", true)] {
        let mut add = |reach: &'static str, fits: &dyn Fn(Reach) -> bool| {
            let errors = BeforeAfter::of(rows.iter().filter(|row| row.moe == moe && fits(row.reach)));
            if errors.before.rows > 0 {
                groups.push(AnchoredGroup { model, reach, errors });
            }
        };
        add("more devices, up to 8 times", &near);
        Reach::ALL.iter().for_each(|reach| add(reach.name(), &|of| of == *reach));
    }
    groups
}

fn near(reach: Reach) -> bool {
    matches!(reach, Reach::Twice | Reach::Eight)
}

fn sources(rows: &[AnchoredRow]) -> BTreeMap<String, BeforeAfter> {
    let mut sources: BTreeMap<String, Vec<&AnchoredRow>> = BTreeMap::new();
    for row in rows.iter().filter(|row| near(row.reach)) {
        sources.entry(row.source.clone()).or_default().push(row);
    }
    sources.into_iter().map(|(name, rows)| (name, BeforeAfter::of(rows.into_iter()))).collect()
}

impl BeforeAfter {
    fn of<'a>(rows: impl Iterator<Item = &'a AnchoredRow>) -> BeforeAfter {
        let (before, after): (Vec<f64>, Vec<f64>) = rows.map(|row| (row.before, row.after)).unzip();
        BeforeAfter {
            before: Statistics::of(before.len(), &before),
            after: Statistics::of(after.len(), &after),
        }
    }

    fn cells(&self) -> String {
        let percent = |x: Option<f64>| x.map_or(String::new(), |x| format!("{:.1} %", 100.0 * x));
        let pair = |of: fn(&Statistics) -> Option<f64>| [percent(of(&self.before)), percent(of(&self.after))];
        let cells = [pair(|s| s.mean_abs_error), pair(|s| s.median_abs_error), pair(|s| s.p90_abs_error)];
        format!("| {} | {} |", self.before.rows, cells.concat().join(" | "))
    }
}
