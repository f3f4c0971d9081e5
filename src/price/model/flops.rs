//! FLOPs of a training step as MFU and HFU count them.
//!
//! * **Model FLOPs** (the numerator of MFU): matrix products that the model's mathematics asks for, forward once and
//!   backward twice, whatever is recomputed or skipped. Attention is counted in full, 4·b·s²·a·d forward, as in the
//!   PaLM and Megatron papers; [`StepFlops::model_causal`] counts it by half where the mask is causal. Of a window or
//!   chunks, full is both sides of the diagonal; where an indexer chooses keys, both counts are of the keys that it
//!   keeps, and of its own products, which run forward alone. In cross-attention each token sees all image tokens of
//!   its sequence, whose keys and values count once a sequence.
//! * **Hardware FLOPs** (the numerator of HFU) are those executed, recomputation included: the sum over the kernels
//!   that ran ([`super::LayerPlan::flops`]).
//!
//! The **peak** that both are held against is the peak of the format in which the workload computes. Where a recipe
//! runs part of the products in narrower formats, each format's FLOPs are held to its own peak: the device's peak is
//! then all FLOPs, attention by half where the mask is causal, over the time that they would take at the peaks of their
//! formats ([`NarrowFlops`]), so that no utilisation of what is executed exceeds 1.
//!
//! Element-wise work (convolutions, scans without products, scalar gates), the embedding lookup and the optimizer are
//! in neither. Padding, dropped tokens and the vocabulary rounded up to the tensor-parallel degree are no model
//! FLOPs.

use std::collections::BTreeMap;

use super::item::Item;
use super::layer_count::adapter_weights;
use super::{LayerPlan, Shard};
use crate::documents::Dealt;
use stepsim_spec::model::{Mixer, MixingFlops, MlpKind, ModelSpec};
use stepsim_spec::workload::{Dtype, TrainedWeights, TrainingSpec, WorkloadSpec};

/// Model FLOPs of one training step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepFlops {
    /// Attention in full.
    pub model: f64,
    /// Attention by half where the mask is causal.
    pub model_causal: f64,
    /// The part of `model` that multiplies tokens with one another.
    pub mixing: f64,
}

impl StepFlops {
    /// Forward and backward of `sequences` sequences of `sequence` tokens.
    pub fn of(model: &ModelSpec, sequences: u64, sequence: u64) -> StepFlops {
        let tokens = sequences as f64 * sequence as f64;
        let forward = TokenFlops::of(model, sequence);
        let [products, mixed] = forward.alone;
        let step = |mixing: f64| tokens * (3.0 * (forward.matrices + mixing) - 2.0 * (products + mixed));
        StepFlops {
            model: step(forward.mixing),
            model_causal: step(forward.mixing_causal),
            mixing: tokens * (3.0 * forward.mixing - 2.0 * mixed),
        }
    }
}

impl StepFlops {
    /// So many steps.
    pub fn times(self, steps: f64) -> StepFlops {
        StepFlops {
            model: self.model * steps,
            model_causal: self.model_causal * steps,
            mixing: self.mixing * steps,
        }
    }
    /// The same where not all weights are trained: products with frozen weights have no weight gradient, those of
    /// adapters count as any, and what runs forward alone counts once, a reference model too. `below` tells whether
    /// something in front of the model is trained.
    pub fn of_training(
        model: &ModelSpec,
        training: &TrainingSpec,
        below: bool,
        sequences: u64,
        sequence: u64,
    ) -> StepFlops {
        let mut sum = StepFlops::of_trained(model, training, below, sequences, sequence);
        if training.reference {
            // It has no prediction modules: their losses train the policy alone.
            let forward = TokenFlops::of(&ModelSpec { prediction_modules: 0, ..model.clone() }, sequence);
            let tokens = sequences as f64 * sequence as f64;
            sum += StepFlops {
                model: tokens * (forward.matrices + forward.mixing),
                model_causal: tokens * (forward.matrices + forward.mixing_causal),
                mixing: tokens * forward.mixing,
            };
        }
        sum
    }
    fn of_trained(
        model: &ModelSpec,
        training: &TrainingSpec,
        below: bool,
        sequences: u64,
        sequence: u64,
    ) -> StepFlops {
        let cross = model.has_cross();
        if training.is_whole() && !cross {
            return StepFlops::of(model, sequences, sequence);
        }
        let mut sum = StepFlops::default();
        let tokens = sequences as f64 * sequence as f64;
        let mut of_images = 0.0;
        let mut add = |trained: &TrainedWeights,
                       own: f64,
                       adapters: f64,
                       mixed_flops: MixingFlops,
                       alone: [f64; 2],
                       spared: Spared| {
            let (products, mixed) = match trained {
                _ if spared.mixing => (2.0, 1.0),
                TrainedWeights::Weights => (3.0, 3.0),
                TrainedWeights::Adapters(_) | TrainedWeights::Through => (2.0, 3.0),
                TrainedWeights::Nothing => (1.0, 1.0),
            };
            let once = [(products - 1.0) * alone[0], (mixed - 1.0) * alone[1]];
            let matrices = products * own - once[0] + 3.0 * adapters - spared.products;
            let mixing = |all: f64| mixed * all - once[1];
            sum.model += tokens * (matrices + mixing(mixed_flops.full));
            sum.model_causal += tokens * (matrices + mixing(mixed_flops.causal));
            sum.mixing += tokens * mixing(mixed_flops.full);
        };
        for number in 0..model.layers {
            let (layer, trained) = (model.layer(number), training.of_layer(model, number, below));
            if layer.is_left_out() {
                continue;
            }
            let own = 2.0 * (mixer_weights(&layer) + mlp_weights(&layer));
            let products = 1.0 + f64::from(u8::from(trained.weights())) + f64::from(u8::from(below));
            of_images += products * image_products(&layer, sequence);
            let adapters = 2.0 * adapter_weights(&layer, &trained);
            let spared = if training.is_lowest(model, number, below) {
                Spared::of(&layer, &trained)
            } else {
                Spared::default()
            };
            add(&trained, own, adapters, mixing(&layer, sequence), alone(&layer, sequence), spared);
        }
        let none = Spared::default();
        let (head, h) = (training.of_head(model), model.hidden as f64);
        add(&head, 2.0 * h * model.vocabulary as f64, 0.0, MixingFlops::default(), [0.0; 2], none);
        for _ in 0..model.prediction_modules {
            let layer = model.layer(model.layers.saturating_sub(1));
            let weights =
                mixer_weights(&layer) + mlp_weights(&layer) + h * (2.0 * h + model.vocabulary as f64);
            add(&head, 2.0 * weights, 0.0, mixing(&layer, sequence), alone(&layer, sequence), none);
        }
        sum.model += tokens * of_images;
        sum.model_causal += tokens * of_images;
        sum
    }
    /// Forward and backward of sequences of documents, whose tokens attend to their own document alone: attention in
    /// full is the whole square of each.
    pub fn of_documents(
        model: &ModelSpec,
        training: &TrainingSpec,
        below: bool,
        sequences: &[Vec<u64>],
    ) -> StepFlops {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for length in sequences.iter().flatten() {
            *counts.entry(*length).or_default() += 1;
        }
        let mut sum = StepFlops::default();
        for (length, count) in counts {
            sum += StepFlops::of_training(model, training, below, count, length);
        }
        sum
    }
}

/// The work that the lowest trained layer skips, since its input needs no gradient.
#[derive(Clone, Copy, Debug, Default)]
struct Spared {
    /// FLOPs of input gradients, for each token.
    products: f64,
    /// True if attention has no backward pass either.
    mixing: bool,
}

impl Spared {
    fn of(layer: &ModelSpec, trained: &TrainedWeights) -> Spared {
        let plan = |lowest| {
            let shard = Shard { trained: trained.clone(), lowest, ..Shard::whole(layer) };
            LayerPlan::transformer(layer, &shard).backward
        };
        let (all, few) = (plan(false), plan(true));
        let products = |items: &[Item]| -> f64 {
            items.iter().filter_map(Item::kernel).filter(|k| k.class.is_gemm()).map(|k| k.flops).sum()
        };
        let mixes = |items: &[Item]| items.iter().filter_map(Item::kernel).any(|k| k.class.mixes());
        Spared {
            products: (products(&all) - products(&few)) / layer.sequence as f64,
            mixing: mixes(&all) && !mixes(&few),
        }
    }
}

/// The parts of a step's model FLOPs that run in formats narrower than the workload computes in, attention by half
/// where the mask is causal, as it is executed: none where all products run in `precision.compute` (or a wider format,
/// as the router's, which is held to the same peak).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NarrowFlops(pub Vec<(Dtype, f64)>);

impl NarrowFlops {
    /// Of a step on `devices`.
    pub fn of(workload: &WorkloadSpec, model: &ModelSpec, devices: u64) -> NarrowFlops {
        let wide = workload.precision.compute;
        if workload.precision.narrow().is_none() {
            return NarrowFlops::default();
        }
        // By whether tokens are multiplied with one another: FLOPs of all kernels, and in narrow formats.
        let mut all = [0.0; 2];
        let mut narrow: BTreeMap<Dtype, [f64; 2]> = BTreeMap::new();
        let mut count = |plan: &LayerPlan, times: u64| {
            for k in plan.forward.iter().chain(&plan.backward).filter_map(Item::kernel) {
                let mixes = usize::from(k.class.mixes());
                let flops = if mixes == 1 || k.class.is_gemm() { k.flops * times as f64 } else { 0.0 };
                all[mixes] += flops;
                if k.dtype.bytes() < wide.bytes() {
                    narrow.entry(k.dtype).or_default()[mixes] += flops;
                }
            }
        };
        let (training, below) = (&workload.training, workload.trains_modules());
        let shard = Shard::new(workload, model);
        let trained = |trained| Shard { trained, ..shard.clone() };
        if training.is_whole() {
            model.layer_counts().iter().for_each(|(own, n)| count(&LayerPlan::transformer(own, &shard), *n));
        } else {
            for number in 0..model.layers {
                let shard = trained(training.of_layer(model, number, below));
                count(&LayerPlan::transformer(&model.layer(number), &shard), 1);
            }
        }
        count(&LayerPlan::head(model, &trained(training.of_head(model)), true), 1);
        // The plan refuses documents that cannot be dealt.
        let dealt = Dealt::new(workload, model, devices).ok().flatten();
        let counted = StepFlops::of_step(workload, model, workload.batch.global, dealt.as_ref());
        let modules = StepFlops::of_modules(workload, model, workload.batch.global).model;
        let mixing = counted.mixing - (counted.model - counted.model_causal);
        let of_kind = [counted.model_causal - mixing - modules, mixing];
        let part = |flops: [f64; 2]| -> f64 {
            (0..2).map(|i| flops[i] / all[i].max(1.0) * of_kind[i] / counted.model_causal).sum()
        };
        let parts = narrow.into_iter().map(|(format, flops)| (format, part(flops)));
        NarrowFlops(parts.filter(|(_, part)| *part > 0.0).collect())
    }
}

/// FLOPs of one token's forward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TokenFlops {
    /// Products with weights, the LM head's included.
    pub matrices: f64,
    /// Products of tokens with one another (attention scores and values, scans), plain causal masks in full.
    pub mixing: f64,
    /// The same, plain causal masks by half.
    pub mixing_causal: f64,
    /// The parts of `matrices` and `mixing` that run forward alone.
    pub alone: [f64; 2],
}

impl TokenFlops {
    /// Of a token in sequences of `sequence`.
    pub fn of(model: &ModelSpec, sequence: u64) -> TokenFlops {
        let mut flops = TokenFlops {
            matrices: 2.0 * (model.hidden as f64 * model.vocabulary as f64),
            ..TokenFlops::default()
        };
        for (layer, layers) in model.layer_counts() {
            if layer.is_left_out() {
                continue;
            }
            let n = layers as f64;
            flops.matrices += 2.0 * n * (mixer_weights(&layer) + mlp_weights(&layer));
            flops.matrices += n * image_products(&layer, sequence);
            flops.add_mixing(n, &layer, sequence);
        }
        if model.prediction_modules > 0 {
            let (n, h) = (model.prediction_modules as f64, model.hidden as f64);
            let layer = model.layer(model.layers.saturating_sub(1));
            let weights =
                mixer_weights(&layer) + mlp_weights(&layer) + h * (2.0 * h + model.vocabulary as f64);
            flops.matrices += 2.0 * n * weights;
            flops.add_mixing(n, &layer, sequence);
        }
        flops
    }

    fn add_mixing(&mut self, layers: f64, layer: &ModelSpec, sequence: u64) {
        let of_layer = mixing(layer, sequence);
        self.mixing += layers * of_layer.full;
        self.mixing_causal += layers * of_layer.causal;
        let alone = alone(layer, sequence);
        self.alone.iter_mut().zip(alone).for_each(|(sum, more)| *sum += layers * more);
    }
}

/// Weights that multiply each token between mixers.
fn mlp_weights(m: &ModelSpec) -> f64 {
    let h = m.hidden as f64;
    let matrices = if m.gated_mlp { 3.0 } else { 2.0 };
    match &m.moe {
        Some(moe) => {
            let width = moe.width(m) as f64;
            let visited = moe.visited() * matrices * width * moe.ffn.unwrap_or(m.ffn) as f64;
            let shared = moe.shared_width(m) as f64;
            let latent = moe.latent.map_or(0.0, |latent| 2.0 * h * latent as f64);
            h * moe.experts as f64 + visited + matrices * h * shared + latent
        }
        None if m.mlp == MlpKind::None => 0.0,
        None => matrices * h * m.ffn as f64,
    }
}

/// FLOPs of keys and values of the image tokens that a layer of cross-attention reads, for each token of a sequence.
fn image_products(m: &ModelSpec, sequence: u64) -> f64 {
    let images = m.attention.image_tokens.filter(|_| m.is_cross()).unwrap_or(0);
    let width = 2 * m.kv_heads() * m.head_size();
    2.0 * (m.hidden * width) as f64 * images as f64 / sequence as f64
}

/// Weights of a mixer that multiply each token.
fn mixer_weights(m: &ModelSpec) -> f64 {
    Mixer::of(m).map_or(0.0, |mixer| mixer.weights(m.hidden))
}

/// Products of tokens with one another, for each token.
fn mixing(m: &ModelSpec, sequence: u64) -> MixingFlops {
    Mixer::of(m).map_or_else(MixingFlops::default, |mixer| mixer.mixing(sequence))
}

/// The parts of a mixer's products that run forward alone, for each token.
fn alone(m: &ModelSpec, sequence: u64) -> [f64; 2] {
    Mixer::of(m).map_or([0.0; 2], |mixer| mixer.forward_alone(m.hidden, sequence))
}
