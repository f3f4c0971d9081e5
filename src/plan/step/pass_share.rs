//! One rank's share of a pass where each document has its own degree of context parallelism.

use std::sync::Arc;

use stepsim_price::documents::{AttentionPairs, Dealt, DynamicContext, Mask, PackedPass, Room};
use stepsim_price::model::flops::TokenFlops;
use stepsim_price::model::{CommGroup, Shard};
use stepsim_spec::SpecError;
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::{ContextSpec, WorkloadSpec};

/// A rank's share of a pass of dynamic context parallelism.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PassShare {
    /// Ranks of its group.
    degree: u64,
    /// Tokens of the pass.
    tokens: u64,
    /// The attention work of the rank.
    work: Arc<AttentionPairs>,
}

impl PassShare {
    /// Tokens on the rank.
    pub fn tokens(&self) -> u64 {
        self.tokens / self.degree
    }
    /// The share of a rank in a pass of these.
    pub fn onto(&self, shard: &Shard) -> Shard {
        let context = ContextSpec { size: self.degree, zigzag: true, per_document: true, ..shard.context };
        Shard {
            micro_batch: 1,
            sequence: self.tokens,
            context,
            context_group: CommGroup::ContextOf(self.degree.ilog2() as u8),
            documents: Some(self.work.clone()),
            ..shard.clone()
        }
    }
}

/// The documents of a step as samples on groups of the ranks of data × context.
pub(super) fn scheduled(
    dealt: &Dealt,
    workload: &WorkloadSpec,
    model: &ModelSpec,
    devices: u64,
) -> Result<DynamicContext, SpecError> {
    let p = &workload.parallelism;
    let ranks = workload.data_parallel(devices) * p.context.size;
    let tokens_per_rank = workload.tokens_per_rank(model);
    let lengths: Vec<u64> = dealt.sequences.iter().flatten().copied().collect();
    let longest = lengths.iter().copied().max().unwrap_or(0);
    if longest > tokens_per_rank.saturating_mul(ranks) {
        let at = "parallelism.context.dynamic.tokens_per_rank";
        let needed = longest.div_ceil(ranks);
        return Err(SpecError::at(at, format!("{tokens_per_rank} is not allowed"))
            .allowed(format!("at least {needed}: {ranks} ranks hold the longest document ({longest} tokens)"))
            .hint("raise it, or shorten documents (documents.drawn.longest)"));
    }
    let multiple = 2 * ranks * if p.sequence_parallel { p.tensor } else { 1 };
    let room = Room { ranks, tokens_per_rank, multiple };
    let cost = |tokens: u64| {
        let of_token = TokenFlops::of(model, tokens);
        (tokens as f64 * (of_token.matrices + of_token.mixing_causal)) as u128
    };
    Ok(DynamicContext::new(&lengths, room, cost))
}

/// The share of the first rank of its group in a pass: ranks differ by a window's borders at most.
pub fn share_of_pass(pass: &PackedPass, model: &ModelSpec, shard: &Shard) -> Shard {
    shares(pass, &Mask::of_model(model))[0].onto(shard)
}

/// The share of each rank of its group in a pass; equal shares once.
pub(super) fn shares(pass: &PackedPass, masks: &[Mask]) -> Vec<Arc<PassShare>> {
    let mut shares: Vec<Arc<PassShare>> = Vec::new();
    for work in pass.works(masks) {
        let (degree, tokens, work) = (pass.degree, pass.tokens(), Arc::new(work));
        let share = Arc::new(PassShare { degree, tokens, work });
        let old = shares.iter().find(|old| **old == share).cloned();
        shares.push(old.unwrap_or(share));
    }
    shares
}
