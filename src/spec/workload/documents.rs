//! Documents that are packed into sequences.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Attachment;
use crate::problem::Problems;

/// Documents packed into sequences; attention stays inside a document. One of `lengths`, `file` and `drawn` says how
/// long they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DocumentsSpec {
    /// Tokens of each document in the order in which they are packed; the list begins again where it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lengths: Option<Vec<u64>>,
    /// The same in a JSON file of its own, a path relative to the workload; or a list of such lists, one a sequence,
    /// each as long as a sequence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Attachment>,
    /// A seeded log-normal distribution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drawn: Option<DrawnLengths>,
    /// The fate of the rest of a document that does not fit in its sequence.
    pub rest: CutDocument,
    /// The data-parallel rank of each sequence of the global batch.
    pub order: SequenceOrder,
}

/// Log-normal lengths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrawnLengths {
    /// Median in tokens.
    pub median: f64,
    /// Standard deviation of the logarithm; 0: all alike.
    pub sigma: f64,
    /// Shortest length in tokens; shorter draws are raised to it.
    #[serde(default = "shortest")]
    pub shortest: u64,
    /// Longest length in tokens; longer draws are cut to it; default: no limit but the sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<u64>,
    /// Seed.
    #[serde(default)]
    pub seed: u64,
}

fn shortest() -> u64 {
    16
}

/// The fate of the rest of a document that does not fit in its sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CutDocument {
    /// It begins the next sequence, as a document of its own (Megatron-LM's and most others' packing).
    #[default]
    Carried,
    /// It is left out.
    Dropped,
}

/// The data-parallel rank of each sequence of the global batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SequenceOrder {
    /// In the order in which they are packed: micro-batch after micro-batch, in each rank after rank.
    #[default]
    Packed,
    /// Sorted by their cost in attention, so that the micro-batches that run at one time are alike.
    Sorted,
    /// The costliest first, each to the rank that has least so far: ranks have about as much to do over the step.
    Balanced,
}

impl SequenceOrder {
    /// True for the usual order.
    pub fn is_packed(&self) -> bool {
        *self == SequenceOrder::Packed
    }
}

/// Most documents of a list.
const MOST: usize = 1_000_000;

impl DocumentsSpec {
    pub(super) fn check(&self, p: &mut Problems, sequence: u64) {
        let ways = [self.lengths.is_some(), self.file.is_some(), self.drawn.is_some()];
        if ways.iter().filter(|given| **given).count() != 1 {
            let given: Vec<&str> =
                ["lengths", "file", "drawn"].into_iter().zip(ways).filter(|w| w.1).map(|w| w.0).collect();
            p.add(
                "documents",
                if given.is_empty() { "none".into() } else { given.join(" and ") },
                "one of lengths, file and drawn",
                "lengths is a list of tokens; drawn a log-normal distribution: {\"median\": 4096, \"sigma\": 1.5}",
            );
        }
        if let Some(lengths) = &self.lengths {
            if lengths.is_empty() || lengths.len() > MOST {
                let allowed = format!("1 to {MOST}");
                let hint = "the list begins again where it ends";
                p.add("documents.lengths", format!("{} lengths", lengths.len()), allowed, hint);
            }
            for (i, length) in lengths.iter().enumerate().take(MOST) {
                p.size(format!("documents.lengths[{i}]"), *length, 1_000_000_000);
            }
        }
        let Some(drawn) = &self.drawn else { return };
        if !(1.0..=1e9).contains(&drawn.median) {
            let hint = "half of the documents are longer";
            p.add("documents.drawn.median", drawn.median, "1 to 1e9 tokens", hint);
        }
        if !(0.0..=10.0).contains(&drawn.sigma) {
            let hint = "1 to 2 for text of the web: a document in six is e to e² times as long as the median";
            p.add("documents.drawn.sigma", drawn.sigma, "0 to 10", hint);
        }
        if drawn.shortest == 0 || drawn.shortest > sequence {
            let allowed = format!("1 to {sequence}, the sequence");
            p.add("documents.drawn.shortest", drawn.shortest, allowed, "a document has tokens");
        }
        if let Some(longest) = drawn.longest.filter(|l| *l < drawn.shortest) {
            let allowed = format!("at least documents.drawn.shortest ({})", drawn.shortest);
            p.add("documents.drawn.longest", longest, allowed, "leave it out for no limit but the sequence");
        }
    }
}
