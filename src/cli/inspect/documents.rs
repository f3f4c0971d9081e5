//! The documents of a step: how unevenly attention falls on ranks, and what each cut of a sequence would make of it.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use stepsim_plan::step::Packs;
use stepsim_price::documents::shards::{SequenceShares, SequenceSplit, VisibleKeys};
use stepsim_price::documents::{Dealt, expected};
use stepsim_read::analysis::dynamic_context::{DynamicContextReport, text};
pub use stepsim_read::analysis::table::{grouped, new_table};
use stepsim_simulate::Inputs;
use stepsim_spec::SpecError;

/// Documents for readers.
#[derive(Debug, Serialize)]
pub(super) struct DocumentsView {
    documents: usize,
    mean_tokens: f64,
    longest: u64,
    /// Causal pairs of queries and keys over the pairs of undivided sequences.
    pairs_of_one_document: f64,
    /// Attention of the micro-batch that has most, over the mean.
    micro_batches_max_over_mean: f64,
    /// Attention of the data-parallel rank that has most in the step, over the mean.
    ranks_max_over_mean: f64,
    /// The same by the law of order statistics, of sequences that come as they are packed.
    ranks_expected_over_mean: f64,
    /// Ways to cut a sequence among context-parallel ranks.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    cuts: BTreeMap<&'static str, CutView>,
    /// Their cut by dynamic context parallelism.
    #[serde(skip_serializing_if = "Option::is_none")]
    dynamic: Option<DynamicContextReport>,
}

/// A way to cut a sequence, on average over sequences.
#[derive(Debug, Default, Serialize)]
struct CutView {
    max_over_mean: f64,
    ring_over_mean: f64,
    foreign_keys: f64,
}

/// Sequences that are cut for the table.
const SHOWN: usize = 64;

impl DocumentsView {
    pub fn of(inputs: &Inputs) -> Result<Option<DocumentsView>, SpecError> {
        let (workload, model) = (&inputs.workload.value, &inputs.model);
        let devices = u64::from(inputs.machine.devices());
        let Some(dealt) = Dealt::new(workload, model, devices)? else { return Ok(None) };
        let costs = dealt.costs();
        let each = dealt.micro_batches();
        let sums: Vec<f64> = costs.chunks(each).map(|rank| rank.iter().sum()).collect();
        let over_mean = |values: &[f64]| {
            values.iter().copied().fold(0.0, f64::max) * values.len() as f64 / values.iter().sum::<f64>()
        };
        let documents: usize = dealt.sequences.iter().map(Vec::len).sum();
        let tokens = workload.sequence(model) as f64 * dealt.sequences.len() as f64;
        let ranks = sums.len() as u64;
        let context = workload.parallelism.context.size;
        Ok(Some(DocumentsView {
            documents,
            mean_tokens: tokens / documents as f64,
            longest: dealt.sequences.iter().flatten().copied().max().unwrap_or(0),
            pairs_of_one_document: costs.iter().sum::<f64>() / (tokens * workload.sequence(model) as f64),
            micro_batches_max_over_mean: over_mean(&costs),
            ranks_max_over_mean: over_mean(&sums),
            ranks_expected_over_mean: match each {
                1 => expected::of_values(&costs, ranks),
                _ => expected::of_sums(&costs, ranks, each as u64),
            },
            cuts: if context > 1 { cuts(&dealt, context) } else { BTreeMap::new() },
            dynamic: Packs::new(workload, model, devices)?
                .dynamic()
                .map(stepsim_simulate::dynamic_context::section),
        }))
    }

    /// True if each document has a degree of context parallelism of its own.
    pub fn are_dynamic(&self) -> bool {
        self.dynamic.is_some()
    }

    pub fn text(&self, out: &mut String, width: u16) {
        let _ = writeln!(
            out,
            "\n  {} documents: {} tokens on average, {} the longest; attention is {:.1} % of that of undivided \
             sequences",
            grouped(self.documents as u64),
            grouped(self.mean_tokens.round() as u64),
            grouped(self.longest),
            100.0 * self.pairs_of_one_document,
        );
        if let Some(dynamic) = &self.dynamic {
            out.push_str(&text(dynamic, width));
            return;
        }
        let _ = writeln!(
            out,
            "  attention of the fullest over the mean: micro-batch {:.2}, data-parallel rank {:.2} (expected as packed \
             {:.2})",
            self.micro_batches_max_over_mean, self.ranks_max_over_mean, self.ranks_expected_over_mean,
        );
        if self.cuts.is_empty() {
            return;
        }
        let head = ["  a sequence cut", "gathered keys", "ring", "keys of other ranks"];
        let mut table = new_table(width, head.map(String::from).to_vec());
        for (name, cut) in &self.cuts {
            table.add_row(vec![
                format!("  {name}"),
                format!("{:.2}", cut.max_over_mean),
                format!("{:.2}", cut.ring_over_mean),
                grouped(cut.foreign_keys.round() as u64),
            ]);
        }
        let _ = writeln!(
            out,
            "\n  attention of the fullest context-parallel rank over the mean (first {SHOWN} sequences)\n{table}"
        );
    }
}

/// The effect of each cut on the first sequences.
fn cuts(dealt: &Dealt, ranks: u64) -> BTreeMap<&'static str, CutView> {
    let shown = &dealt.sequences[..dealt.sequences.len().min(SHOWN)];
    let all = [
        ("contiguous", SequenceSplit::Contiguous),
        ("zigzag", SequenceSplit::Zigzag),
        ("per document", SequenceSplit::PerDocument),
    ];
    let view = |(name, cut)| {
        let mut view = CutView::default();
        for sequence in shown {
            let shares = SequenceShares::of(sequence, ranks, cut, VisibleKeys::Causal);
            view.max_over_mean += shares.max_over_mean() / shown.len() as f64;
            view.ring_over_mean += shares.ring_over_mean() / shown.len() as f64;
            let most = shares.foreign_keys.iter().copied().max().unwrap_or(0);
            view.foreign_keys += most as f64 / shown.len() as f64;
        }
        (name, view)
    };
    all.into_iter().map(view).collect()
}
