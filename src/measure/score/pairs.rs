//! Pairs of measured steps of one source and model that differ in one thing: layouts are chosen by their ratio.
//!
//! The sign and the size of a change are judged where it is measured beyond rounding; a pair goes from its
//! faster to its slower step, hence a measured change is above zero.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::outcome::{RowOutcome, RowStatus};
use super::rows::PublishedRow;

/// The columns of rows that tell what differs between two (`pairs.json`).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PairColumns {
    kinds: Vec<KindColumns>,
    /// Columns that name a row, say its origin or hold measurements.
    aside: Vec<String>,
}

/// A change: the columns that differ, and those that follow from them and may differ too.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KindColumns {
    kind: String,
    columns: Vec<String>,
    follow: Vec<String>,
}

static COLUMNS: LazyLock<PairColumns> = LazyLock::new(|| {
    serde_json::from_str(include_str!("pairs.json")).expect("the shipped columns are well formed")
});

/// Printed figures are rounded: a change below it has no sign.
const ROUNDING: f64 = 0.015;

/// Two steps that differ in one thing, from the faster to the slower as they were measured.
#[derive(Clone, Debug)]
pub struct StepPair {
    /// The change between them.
    pub kind: String,
    /// Their source.
    pub source: String,
    /// Both rows.
    pub ids: [String; 2],
    /// Measured time of the second over the time of the first.
    pub measured: f64,
    /// The same in simulated time.
    pub simulated: f64,
}

impl StepPair {
    /// All pairs of steps that were simulated as they ran.
    pub fn of(rows: &[PublishedRow], outcomes: &[RowOutcome]) -> Vec<StepPair> {
        let done = rows.iter().zip(outcomes).filter(|(_, o)| o.status == RowStatus::Done);
        StepPair::among(done.filter_map(|(row, o)| Some((row, o.case.as_ref()?.measured_s, o.predicted_s?))))
    }

    /// All pairs among rows with their measured and simulated seconds.
    pub fn among<'a>(steps: impl Iterator<Item = (&'a PublishedRow, f64, f64)>) -> Vec<StepPair> {
        let mut blocks: BTreeMap<[&str; 2], Vec<Entry<'_>>> = BTreeMap::new();
        for (row, measured_s, simulated_s) in steps {
            let Ok(columns) = &row.columns else { continue };
            let entry = Entry { row, columns, measured_s, simulated_s };
            blocks.entry([row.text("source"), row.text("model")]).or_default().push(entry);
        }
        let of_block = |block: &Vec<Entry<'_>>| {
            let later = |i: usize| block[i + 1..].iter().filter_map(move |b| block[i].against(b));
            (0..block.len()).flat_map(later).collect::<Vec<_>>()
        };
        blocks.values().flat_map(of_block).collect()
    }

    /// The change has a sign, and the simulated one has the same.
    fn sign(&self) -> Option<bool> {
        (self.measured > 1.0 + ROUNDING).then_some(self.simulated > 1.0)
    }

    /// The change has a size, and the simulated one is within a third of it.
    fn size(&self) -> Option<bool> {
        let (measured, simulated) = (self.measured.ln(), self.simulated.ln());
        (self.measured > 1.0 + ROUNDING).then_some((simulated / measured - 1.0).abs() <= 1.0 / 3.0)
    }

    fn off(&self) -> f64 {
        self.simulated / self.measured - 1.0
    }
}

/// A row with its times.
struct Entry<'a> {
    row: &'a PublishedRow,
    columns: &'a Map<String, Value>,
    measured_s: f64,
    simulated_s: f64,
}

impl Entry<'_> {
    fn against(&self, other: &Entry<'_>) -> Option<StepPair> {
        let kind = self.kind(other)?;
        let (first, second) = if self.measured_s <= other.measured_s { (self, other) } else { (other, self) };
        Some(StepPair {
            kind,
            source: self.row.text("source").to_string(),
            ids: [first.row.id.clone(), second.row.id.clone()],
            measured: second.measured_s / first.measured_s,
            simulated: second.simulated_s / first.simulated_s,
        })
    }

    /// The one change between two rows; none where they differ in several things.
    fn kind(&self, other: &Entry<'_>) -> Option<String> {
        let has = |list: &[String], name: &str| list.iter().any(|own| own == name);
        let value =
            |columns: &'_ Map<String, Value>, name: &str| columns.get(name).filter(|v| !v.is_null()).cloned();
        let differ: BTreeSet<&str> = self
            .columns
            .keys()
            .chain(other.columns.keys())
            .map(String::as_str)
            .filter(|name| !has(&COLUMNS.aside, name) && !name.contains("_per_") && !name.contains("tflops"))
            .filter(|name| value(self.columns, name) != value(other.columns, name))
            .collect();
        let named = |of: &&KindColumns| {
            of.columns.iter().all(|name| differ.contains(name.as_str()))
                && differ.iter().all(|name| has(&of.columns, name) || has(&of.follow, name))
        };
        let alone = || (differ.len() == 1).then(|| differ.iter().copied().collect());
        COLUMNS.kinds.iter().find(named).map(|of| of.kind.clone()).or_else(alone)
    }
}

/// Pairs by change and source: signs, sizes, mean changes, and the pair that is farthest off.
pub fn pairs(pairs: &[StepPair]) -> String {
    let mut groups: BTreeMap<[&str; 2], Vec<&StepPair>> = BTreeMap::new();
    for pair in pairs {
        groups.entry([&pair.kind, ""]).or_default().push(pair);
        groups.entry([&pair.kind, &pair.source]).or_default().push(pair);
    }
    let mut text = String::from(
        "| what differs | source | pairs | sign as measured | within a third | measured, mean | simulated, mean | \
         off, mean | farthest off |\n|--|--|--|--|--|--|--|--|--|\n",
    );
    for ([kind, source], of) in &groups {
        let mean =
            |part: fn(&StepPair) -> f64| 100.0 * of.iter().map(|p| part(p)).sum::<f64>() / of.len() as f64;
        let share = |part: fn(&StepPair) -> Option<bool>| {
            let told: Vec<bool> = of.iter().filter_map(|p| part(p)).collect();
            format!("{} of {}", told.iter().filter(|right| **right).count(), told.len())
        };
        let Some(farthest) = of.iter().max_by(|a, b| a.off().abs().total_cmp(&b.off().abs())) else {
            continue;
        };
        let _ = writeln!(
            text,
            "| {kind} | {} | {} | {} | {} | {:+.1} % | {:+.1} % | {:.1} % | {} to {}: {:+.1} for {:+.1} % |",
            if source.is_empty() { "all" } else { source },
            of.len(),
            share(StepPair::sign),
            share(StepPair::size),
            mean(|p| p.measured - 1.0),
            mean(|p| p.simulated - 1.0),
            mean(|p| p.off().abs()),
            farthest.ids[0],
            farthest.ids[1],
            100.0 * (farthest.simulated - 1.0),
            100.0 * (farthest.measured - 1.0),
        );
    }
    if groups.is_empty() { String::new() } else { format!("\n{text}") }
}
