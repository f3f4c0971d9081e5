//! The reading of layers.

use std::collections::BTreeMap;

use super::{LayerReport, layers, sums};
use crate::analysis::reading::{Lines, Measure, Reading, Report, Run};

/// Time of ops by layer and kind.
pub struct LayersReading;

impl Reading for LayersReading {
    fn read(&self, run: &mut Run<'_, '_>, report: &mut Report) {
        if run.slack.is_some() {
            let sums = sums(run.causes, &run.weights, &run.turn.recurring);
            report.layers = layers(sums, run.ranks_of_job());
        }
    }

    fn compare(&self, a: &Report, b: &Report, lines: &mut Lines) {
        if a.layers.len() == b.layers.len() {
            lines.section("layers");
            lines.all(Measure::Seconds, &named(a), &named(b));
        }
    }
}

fn named(r: &Report) -> BTreeMap<String, f64> {
    let of_layer = |l: &LayerReport| {
        let name = l.layer.map_or("no layer".to_string(), |n| format!("layer {n:>3}"));
        let kinds: Vec<_> =
            l.by_kind_s.iter().map(|(kind, s)| (format!("{name}: {}", kind.name()), *s)).collect();
        kinds
    };
    r.layers.iter().flat_map(of_layer).collect()
}
