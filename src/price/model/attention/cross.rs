//! Cross-attention: queries of a sequence's own tokens, keys and values of its image tokens (Llama 3.2 Vision).
//!
//! A rank has all image tokens of its sequences, n of them, as wide as the language model; tensor parallelism cuts
//! heads. With t tokens of text on the rank:
//! * queries: t rows through h × a·d; keys and values: n rows through h × 2·k·d, on every rank of context parallelism
//!   again;
//! * attention: each of the t queries sees all n keys, without a mask;
//! * backward: where a module in front is trained, the gradient of the image tokens is summed over tensor-parallel
//!   ranks and added to the gradient of the cross-attention layers behind, n·h elements.
//!
//! Layers of one stage read the same image tokens: the first of them keeps them ([`Shard::keeps_images`]).
//!
//! Source: transformers, `MllamaTextCrossAttention` and `MllamaCrossAttentionDecoderLayer`. There the text in front
//! of the first image is computed and masked; so it is here.

use super::projection::projection;
use crate::model::KernelClass;
use crate::model::blocks::{Block, LayerBuilder};
use crate::model::linear::products;
use crate::model::shard::Shard;
use stepsim_spec::workload::AdaptedMatrix::{Key, Query, Value};

/// Adds the projections: of queries from the stream, of keys and values from the images' share.
pub(super) fn project<'a>(b: &mut LayerBuilder<'a>, images: &'a Shard) {
    let (m, text) = (b.model, b.shard);
    let (queries, keys) = (m.query_width() / text.tensor, text.kv_heads(m) * m.head_size());
    b.linear(projection(m, products!("query"), queries, vec![(Query, queries)]));
    let tokens = images.tokens() * m.hidden;
    let bytes = tokens as f64 * text.act();
    if text.keeps_images {
        b.save_input("image tokens", bytes, &[], &[Key, Value]);
    }
    b.shard = images;
    if text.image_gradients {
        b.works_in(2.0 * bytes);
        sum_gradients(b, tokens);
    }
    let before = b.count();
    let parts = vec![(Key, keys), (Value, keys)];
    b.linear(projection(m, products!("image key and value"), 2 * keys, parts));
    if !text.image_gradients {
        b.spare_input_gradient(before);
    }
    b.shard = text;
}

/// Adds the gradient of the image tokens to the gradient of the layers behind.
fn sum_gradients(b: &mut LayerBuilder, elements: u64) {
    let sum = b.shard.pass(KernelClass::Residual, "add image token gradients", elements, 3.0);
    b.push(Block::of(Vec::new(), vec![sum], &[]));
}
