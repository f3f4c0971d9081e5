//! The attention work of one micro-batch on one rank.

use super::Dealt;
use super::shards::{SequenceShares, SequenceSplit, VisibleKeys};
use stepsim_core::known::number_of;
use stepsim_spec::model::{AttentionSpec, ModelSpec};
use stepsim_spec::workload::ContextSpec;

/// The keys that the queries of a layer see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask(pub VisibleKeys);

impl Mask {
    /// Of a layer, with its window, chunks or the keys that an indexer keeps.
    pub fn of(attention: &AttentionSpec) -> Mask {
        let kept = attention.indexer.map(|x| x.top_k).or(attention.window);
        Mask(match (kept, attention.chunk) {
            (Some(window), _) => VisibleKeys::Window(window),
            (None, Some(chunk)) if attention.causal => VisibleKeys::Chunk(chunk),
            (None, Some(chunk)) => VisibleKeys::WholeChunk(chunk),
            (None, None) => Mask::whole(attention).0,
        })
    }
    /// The same without window or chunks.
    pub fn whole(attention: &AttentionSpec) -> Mask {
        Mask(if attention.causal { VisibleKeys::Causal } else { VisibleKeys::All })
    }
    /// All masks of a model.
    pub fn of_model(model: &ModelSpec) -> Vec<Mask> {
        let mut masks = Vec::new();
        for (layer, _) in model.layer_counts() {
            let both = [Mask::whole(&layer.attention), Mask::of(&layer.attention)];
            for mask in both.into_iter().filter(|_| layer.mixer.is_attention()) {
                number_of(&mut masks, mask);
            }
        }
        masks
    }
}

/// Pairs of queries and keys of one micro-batch on one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionPairs {
    /// By mask, by step of the ring of key blocks (one step where there is none): pairs, the diagonal by half, so that
    /// one document of s tokens has s²/2.
    areas: Vec<(Mask, Vec<f64>)>,
    /// Tokens of the document that a token is in, on average.
    pub document: f64,
}

impl AttentionPairs {
    /// Of the ranks of a ring, for the sequences of one micro-batch.
    pub(super) fn of(
        sequences: &[&[u64]],
        ranks: u64,
        cut: SequenceSplit,
        masks: &[Mask],
    ) -> Vec<AttentionPairs> {
        let tokens: f64 = sequences.iter().flat_map(|s| s.iter()).map(|l| *l as f64).sum();
        let squares: f64 = sequences.iter().flat_map(|s| s.iter()).map(|l| (*l as f64).powi(2)).sum();
        let nothing = masks.iter().map(|m| (*m, vec![0.0; ranks as usize])).collect();
        let mut all =
            vec![AttentionPairs { areas: nothing, document: squares / tokens.max(1.0) }; ranks as usize];
        for (i, mask) in masks.iter().enumerate() {
            for sequence in sequences {
                let shares = SequenceShares::of(sequence, ranks, cut, mask.0);
                for ((work, pairs), tokens) in all.iter_mut().zip(&shares.pairs).zip(&shares.tokens) {
                    let areas = &mut work.areas[i].1;
                    areas.iter_mut().zip(pairs).for_each(|(area, pairs)| *area += *pairs as f64);
                    if mask.0.is_causal() {
                        areas[0] -= *tokens as f64 / 2.0;
                    }
                }
            }
        }
        all
    }

    /// Pairs under a mask in a step of the ring, the diagonal by half; `None` of a mask that no layer has.
    pub fn area(&self, mask: Mask, step: usize) -> Option<f64> {
        self.areas.iter().find(|a| a.0 == mask).and_then(|a| a.1.get(step)).copied()
    }
    /// The same of all steps.
    pub fn all(&self, mask: Mask) -> Option<f64> {
        self.areas.iter().find(|a| a.0 == mask).map(|a| a.1.iter().sum())
    }
    /// So many times as many pairs.
    pub fn times(&self, factor: f64) -> AttentionPairs {
        let mut work = self.clone();
        work.areas.iter_mut().flat_map(|a| &mut a.1).for_each(|area| *area *= factor);
        work
    }

    /// Combines figure by figure.
    fn with(&mut self, other: &AttentionPairs, combine: impl Fn(f64, f64) -> f64) {
        self.document = combine(self.document, other.document);
        for (mine, its) in self.areas.iter_mut().zip(&other.areas) {
            mine.1.iter_mut().zip(&its.1).for_each(|(a, b)| *a = combine(*a, *b));
        }
    }
}

/// The work of each rank in each micro-batch.
#[derive(Clone, Debug)]
pub struct Works {
    works: Vec<AttentionPairs>,
    ring: usize,
    micro_batches: usize,
}

/// Most rectangles of queries and keys that are counted: some seconds.
const MOST: f64 = 1e9;

impl Works {
    /// Of a step whose sequences are dealt; `None` where that would take minutes.
    pub fn new(dealt: &Dealt, model: &ModelSpec, context: &ContextSpec) -> Option<Works> {
        let ring = context.size / context.inner();
        let cut = match (context.per_document, context.zigzag && model.attention.causal) {
            _ if ring == 1 => SequenceSplit::Contiguous,
            (true, _) => SequenceSplit::PerDocument,
            (false, true) => SequenceSplit::Zigzag,
            (false, false) => SequenceSplit::Contiguous,
        };
        let masks = Mask::of_model(model);
        let documents: usize = dealt.sequences.iter().map(Vec::len).sum();
        let pieces = if cut == SequenceSplit::PerDocument { (2 * ring).pow(2) } else { 4 };
        if documents as f64 * pieces as f64 * masks.len() as f64 > MOST {
            return None;
        }
        let all = (0..dealt.ranks()).flat_map(|r| (0..dealt.micro_batches()).map(move |m| (r, m)));
        let works =
            all.flat_map(|(r, m)| AttentionPairs::of(&dealt.micro_batch(r, m), ring, cut, &masks)).collect();
        Some(Works { works, ring: ring as usize, micro_batches: dealt.micro_batches() })
    }

    /// Of every micro-batch of a rank.
    pub fn of_rank(&self, data: usize, context: usize, spec: &ContextSpec) -> Vec<&AttentionPairs> {
        let position = context / spec.inner() as usize;
        let first = data * self.micro_batches * self.ring + position;
        self.works[first..].iter().step_by(self.ring).take(self.micro_batches).collect()
    }

    /// The mean over micro-batches of what the fullest of the ranks that share a sequence has in each step of the ring:
    /// they wait for each other in every layer.
    pub fn usual(&self) -> Option<AttentionPairs> {
        let mut sum: Option<AttentionPairs> = None;
        for ranks in self.works.chunks(self.ring) {
            let mut fullest = ranks[0].clone();
            ranks[1..].iter().for_each(|rank| fullest.with(rank, f64::max));
            match &mut sum {
                None => sum = Some(fullest),
                Some(sum) => sum.with(&fullest, |a, b| a + b),
            }
        }
        let count = (self.works.len() / self.ring) as f64;
        let mean = |mut work: AttentionPairs| {
            let zero = work.times(0.0);
            work.with(&zero, |a, _| a / count);
            work
        };
        sum.map(mean)
    }
}
