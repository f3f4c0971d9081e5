//! The waterfall as a report holds it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bar, Waterfall};

/// From the peak to MFU, mean over all ranks and by stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaterfallReport {
    /// Mean over all ranks.
    pub mean: BarsReport,
    /// Mean over the ranks of each pipeline stage, in order.
    pub stages: Vec<BarsReport>,
}

/// One waterfall: `mfu` and the shares of all bars sum to 1, the peak.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BarsReport {
    /// What is left of the peak.
    pub mfu: f64,
    /// What took the rest, in the order of the waterfall.
    pub bars: Vec<BarReport>,
}

/// One bar.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BarReport {
    /// `kernel efficiency`, `memory-bound kernels`, `recomputation`, `interference`, `stragglers`, `host`, `exposed
    /// communication`, `bubble`, `optimizer`, `tail`, `beyond the model`, `attention as counted`.
    pub group: String,
    /// Class of kernels, kind of communication, sort of bubble; empty where the group says all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// Of communication: `bandwidth`, `latency`, `contention`, `late peer`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub part: String,
    /// Seconds of a rank. Negative where MFU counts more than ran.
    pub time_s: f64,
    /// Of the peak over the step, and so of the step.
    pub share: f64,
}

impl From<&Waterfall> for BarsReport {
    fn from(w: &Waterfall) -> BarsReport {
        let bar = |(bar, &ps): (&Bar, &i128)| {
            let (what, part) = bar.names();
            BarReport {
                group: bar.group().into(),
                what: what.into(),
                part: part.into(),
                time_s: w.seconds(ps),
                share: w.share(ps),
            }
        };
        BarsReport { mfu: w.share(w.model), bars: w.bars.iter().filter(|b| *b.1 != 0).map(bar).collect() }
    }
}

impl WaterfallReport {
    /// Means of the waterfalls of ranks, each with its weight and stage.
    pub fn of(ranks: &[(Waterfall, u64, u32)]) -> WaterfallReport {
        let mean = |wanted: &dyn Fn(u32) -> bool| {
            let mut sum = Waterfall::default();
            ranks.iter().filter(|r| wanted(r.2)).for_each(|(w, weight, _)| sum.add(w, *weight));
            BarsReport::from(&sum)
        };
        let mut stages: Vec<u32> = ranks.iter().map(|r| r.2).collect();
        stages.sort_unstable();
        stages.dedup();
        WaterfallReport {
            mean: mean(&|_| true),
            stages: stages.into_iter().map(|stage| mean(&|s| s == stage)).collect(),
        }
    }
}

impl BarsReport {
    /// The groups in the order of the waterfall, each with its share and its bars.
    pub fn groups(&self) -> Vec<(&str, f64, &[BarReport])> {
        let group = |bars: &'_ [BarReport]| bars.iter().map(|b| b.share).sum::<f64>();
        self.bars.chunk_by(|a, b| a.group == b.group).map(|g| (g[0].group.as_str(), group(g), g)).collect()
    }
}
