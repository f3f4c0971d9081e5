//! Time of ops by layer of the model and kind.

mod reading;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cause::Causes;
use super::kind::OpKind;
use super::turns::Recurring;
pub use reading::LayersReading;
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::units::PS_PER_S;

/// Ops of one layer and kind, mean of a rank: a layer that lies on one of four stages counts a quarter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerReport {
    /// Number of the layer in the model; absent for what belongs to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<u32>,
    /// Time of its ops by kind, side by side or not.
    pub by_kind_s: BTreeMap<OpKind, f64>,
}

/// Picoseconds by layer and kind, over all ranks.
pub(crate) type TimeByLayer = BTreeMap<Option<u32>, BTreeMap<OpKind, u128>>;

/// The sums of all layers. Rank `r` of the world stands for `weights[r]`.
pub(crate) fn sums(causes: &Causes, weights: &[u64], recurring: &Recurring) -> TimeByLayer {
    let mut sums = TimeByLayer::new();
    for (rank, &weight) in (0..).map(RankId).zip(weights) {
        let program = causes.world().program_of(rank);
        let times = recurring.of_rank(rank, program);
        // Micro-batches share infos, so there are few of them; `None` where no op is.
        let mut of_info = vec![[None; OpKind::ALL.len()]; program.infos.len()];
        for ((op, is), &kind) in (0..).map(OpId).zip(&program.ops).zip(&causes.index_of(rank).kinds) {
            let (start, end) = causes.span(rank, op);
            *of_info[is.info as usize][kind as usize].get_or_insert(0) += times(op) * (end - start).0;
        }
        for (info, kinds) in program.infos.iter().zip(of_info) {
            for (kind, ps) in OpKind::ALL.into_iter().zip(kinds).filter_map(|(kind, ps)| Some((kind, ps?))) {
                *sums.entry(info.layer).or_default().entry(kind).or_default() +=
                    u128::from(weight) * u128::from(ps);
            }
        }
    }
    sums
}

/// All layers in order, ops without a layer first: means of `ranks` ranks.
pub(crate) fn layers(sums: TimeByLayer, ranks: u64) -> Vec<LayerReport> {
    let ranks = ranks.max(1) as f64;
    let seconds = |(kind, ps): (OpKind, u128)| (kind, ps as f64 / ranks / PS_PER_S);
    let layer = |(layer, kinds): (Option<u32>, BTreeMap<OpKind, u128>)| LayerReport {
        layer,
        by_kind_s: kinds.into_iter().map(seconds).collect(),
    };
    sums.into_iter().map(layer).collect()
}
