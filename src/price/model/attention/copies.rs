//! Copies of heads between the layout of their projection and the layout of attention, where software makes them.
//!
//! nanotron (src/nanotron/models/llama.py, `CausalSelfAttention.forward`) lays queries, keys and values of a sequence
//! side by side (`permute` and `contiguous`), joins keys and values (`torch.cat`) and orders them for the rotary
//! kernel (`contiguous`). Autograd goes the same way back: gradients of keys and values are joined, the three
//! stacked, and ordered as the projection wrote them. Of several sequences the rows that attention writes are ordered
//! by token again for the output projection. Each is a kernel that reads and writes what it copies.
//!
//! Queries are rotated in place (flash_attn/layers/rotary.py, `RotaryEmbedding.forward`, `inplace=True`). With as many
//! key heads as query heads they are a third of the tensor of all three, and all of it stays for the backward pass of
//! attention, beside the keys and values that were joined.

use super::super::KernelClass;
use super::super::blocks::{Block, LayerBuilder};
use super::super::item::Item;
use super::projection::QKV;

/// Kernels that copy the given elements of each token.
fn copies(b: &LayerBuilder, of: &[(&'static str, u64)]) -> Vec<Item> {
    let s = b.shard;
    of.iter().map(|(name, width)| s.pass(KernelClass::Copy, name, s.tokens() * width, 2.0)).collect()
}

/// Between the projection and the core; of queries, keys and values of these widths.
pub(super) fn to_the_core(b: &mut LayerBuilder, (q, k, v): (u64, u64, u64)) {
    if b.shard.copies_heads {
        let forward = copies(
            b,
            &[
                ("lay out heads", q + k + v),
                ("join keys and values", k + v),
                ("order keys and values", k + v),
            ],
        );
        let backward = copies(
            b,
            &[
                ("join key and value gradients", k + v),
                ("stack gradients of heads", q + k + v),
                ("order gradients of heads", q + k + v),
            ],
        );
        b.push(Block::of(forward, backward, QKV));
        if b.model.kv_heads() == b.model.heads {
            let bytes = (b.shard.tokens() * (k + v)) as f64 * b.shard.act();
            b.save("keys and values as laid out", bytes, QKV, false);
        }
    }
}

/// Between the core and the output projection.
pub(super) fn from_the_core(b: &mut LayerBuilder) {
    let width = b.shard.heads(b.model) * b.model.v_head_size();
    if b.shard.copies_heads && b.shard.micro_batch > 1 {
        let forward = copies(b, &[("order attended rows", width)]);
        let backward = copies(b, &[("order gradients of attended rows", width)]);
        b.push(Block::of(forward, backward, QKV));
    }
}
