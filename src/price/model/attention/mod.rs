//! The attention part of a layer: projections in, core (with its context-parallel communication), projection out.

mod copies;
mod core;
mod cross;
mod projection;

use core::{CORE, Core};
use projection::{QKV, projection};

use super::KernelClass;
use super::blocks::{Block, LayerBuilder};
use super::item::{CommGroup, CommOp, CommPoint, Direction, Item, Kernel};
use super::linear::{Linear, LinearSplit, products};
use crate::documents::Mask;
use stepsim_spec::model::{AttentionKernel, IndexerSpec, MlaSpec, QkNorm, qk_norm_and_sinks};
use stepsim_spec::recipe::CastRole;
use stepsim_spec::stack::FusedPart;
use stepsim_spec::workload::AdaptedMatrix::{Key, Projection, Query, Value};
use stepsim_spec::workload::{Dtype, Fp8Gemm, KernelFusion, RecomputeModule};

const PROJECTION: &[RecomputeModule] = &[RecomputeModule::Projection];

/// Adds projections, core and output projection.
pub(super) fn add(b: &mut LayerBuilder) {
    let (m, s) = (b.model, b.shard);
    let saved = s.saved_input(Fp8Gemm::Qkv);
    // Both down-projections keep a narrow copy of their own.
    let kept = if m.mla.is_some() && saved < s.act() { 2.0 } else { 1.0 };
    let tokens = if m.mla.is_some() { s.local_tokens() } else { s.kept_tokens() };
    let input = kept * s.copies_of_input(3) * tokens as f64 * m.hidden as f64 * saved;
    b.save_input("QKV input", input, &[RecomputeModule::Norm], &[Query, Key, Value]);
    match (m.mla, b.images) {
        (None, Some(images)) => cross::project(b, images),
        (None, None) => {
            let (queries, keys) = (m.query_width() / s.tensor, s.kv_heads(m) * m.head_size());
            let parts = vec![(Query, queries), (Key, keys), (Value, keys)];
            b.linear(projection(m, products!("qkv"), queries + 2 * keys, parts));
        }
        (Some(mla), _) => add_latent(b, mla),
    }
    let (q, k, v) = widths(b);
    copies::to_the_core(b, if b.images.is_some() { (q, 0, 0) } else { (q, k, v) });
    add_qk_norm(b);
    add_rotation(b);
    let (t, keys) = (s.tokens() as f64, key_tokens(b) as f64);
    b.save("query", t * q as f64 * s.act(), QKV, false);
    let key = [QKV, &[RecomputeModule::EverySecondMatrix]].concat();
    b.save("key", keys * k as f64 * s.act(), &key, false);
    b.save("value", keys * v as f64 * s.act(), QKV, false);
    if let (Some(indexer), Some(mla)) = (m.attention.indexer, m.mla) {
        add_indexer(b, indexer, mla);
    }
    add_core(b);
    copies::from_the_core(b);
    if m.attention.output_gate {
        add_output_gate(b);
    }
    let width = s.heads(m) * m.v_head_size();
    // The core's output serves its own backward and the projection's weight gradient: 16-bit for the former, unless the
    // recipe keeps it in a format of its own.
    let later = s.trained.keeps_input_of(&[Projection]);
    b.save("attention output", t * width as f64 * s.kept_bytes(CastRole::AttentionOutput), PROJECTION, later);
    if s.keeps_copy(Fp8Gemm::Projection) {
        let copy = t * width as f64 * s.saved_input(Fp8Gemm::Projection);
        b.save_input("narrow attention output", copy, PROJECTION, &[Projection]);
    }
    let [forward, backward] = s.casts_beside(CastRole::AttentionOutput, s.tokens() * width);
    b.push(Block::of(forward, backward, &[]));
    let cut = if m.parallel_block { LinearSplit::RowsUnsummed } else { LinearSplit::Rows };
    b.linear(Linear {
        biases: m.output_bias(),
        modules: PROJECTION,
        parts: vec![(Projection, m.hidden)],
        ..Linear::new(products!("projection"), width, m.hidden, cut, Fp8Gemm::Projection)
    });
}

/// Tokens whose keys and values this rank has.
fn key_tokens(b: &LayerBuilder) -> u64 {
    b.images.unwrap_or(b.shard).tokens()
}

/// Widths of query, key and value on this rank as the core reads them.
fn widths(b: &LayerBuilder) -> (u64, u64, u64) {
    let (m, s) = (b.model, b.shard);
    let kv = if m.mla.is_some() { s.heads(m) } else { s.kv_heads(m) };
    (s.heads(m) * m.qk_head_size(), kv * m.qk_head_size(), kv * m.v_head_size())
}

/// Latent attention: narrow projections on each rank's own tokens, then wide ones cut by heads.
fn add_latent(b: &mut LayerBuilder, mla: MlaSpec) {
    let (m, s) = (b.model, b.shard);
    let local = s.local_tokens();
    let heads = s.heads(m);
    let down = |names, outputs| Linear {
        biases: m.qkv_biases(),
        ..Linear::new(names, m.hidden, outputs, LinearSplit::No, Fp8Gemm::Qkv)
    };
    let up = |names, inputs, outputs| Linear { inputs, ..projection(m, names, outputs, Vec::new()) };
    let q_width = heads * m.qk_head_size();
    let latent_kv = mla.kv_lora_rank + mla.qk_rope_head_size;
    let kv_width = heads * (mla.qk_nope_head_size + mla.v_head_size);
    // Each is kept as it is projected; its norm runs again with the up-projections.
    let latent = |b: &mut LayerBuilder, name, width: u64| {
        b.parameters.dense += m.norm_parameters(width);
        b.save(name, local as f64 * width as f64 * s.act(), &[], s.trained.weights());
        let elements = local * width;
        b.save_input("latent after its norm", elements as f64 * s.saved_input(Fp8Gemm::Qkv), QKV, &[]);
        let forward = vec![s.pass(KernelClass::Norm, "latent norm", elements, 2.0)];
        let backward = vec![s.pass(KernelClass::NormBackward, "latent norm backward", elements, 3.0)];
        b.push(Block::of(forward, backward, QKV));
    };
    b.sum_of_branches(2);
    match mla.q_lora_rank {
        Some(rank) => {
            b.linear(down(products!("q down"), rank));
            latent(b, "query latent", rank);
            b.linear(up(products!("q up"), rank, q_width));
        }
        None => b.linear(up(products!("q"), m.hidden, q_width)),
    }
    b.linear(down(products!("kv down"), latent_kv));
    latent(b, "key-value latent", mla.kv_lora_rank);
    b.linear(up(products!("kv up"), mla.kv_lora_rank, kv_width));
    if m.attention.indexer.is_none() {
        heads_from_latents(b, mla);
    }
}

/// Keys and values of all heads put together from the up-projection and the one rotated part; backward, the gradient
/// of the projection, and the gradient of the rotated part summed over heads.
fn heads_from_latents(b: &mut LayerBuilder, mla: MlaSpec) {
    let (m, s) = (b.model, b.shard);
    let projected = mla.qk_nope_head_size + mla.v_head_size;
    let elements = s.tokens() * s.heads(m) * (projected + mla.qk_rope_head_size);
    let moved = (elements + s.tokens() * s.heads(m) * projected) as f64 * s.act();
    let copy = |name| vec![s.elementwise(KernelClass::Copy, name, elements, moved)];
    b.push(Block::of(copy("put keys and values together"), copy("split key and value gradients"), QKV));
}

/// Normalisation of queries and keys by heads; its weights (and sinks) are small and alike on all tensor-parallel
/// ranks.
fn add_qk_norm(b: &mut LayerBuilder) {
    let (m, s) = (b.model, b.shard);
    b.parameters.dense += qk_norm_and_sinks(m);
    if m.attention.qk_norm == QkNorm::None {
        return;
    }
    let elements = (s.tokens() * s.heads(m) + key_tokens(b) * s.kv_heads(m)) * m.head_size();
    b.save("query and key before their norm", elements as f64 * s.act(), QKV, false);
    let [ahead, back] = b.norm_passes();
    let pass = |class, name, times| s.made(FusedPart::Norm, s.stream_pass(class, name, elements, times));
    let mut forward = vec![pass(KernelClass::Norm, "query and key norm", ahead)];
    let mut backward = vec![pass(KernelClass::NormBackward, "query and key norm backward", back)];
    if m.attention.qk_norm == QkNorm::Full && s.tensor > 1 {
        // A sum of squares of each token, once for queries and once for keys.
        let bytes = 2.0 * 4.0 * s.tokens() as f64;
        let sum = |name| Item::Comm(CommPoint::new(name, CommGroup::Tensor, CommOp::AllReduce, bytes));
        forward.insert(0, sum("all-reduce query and key norm"));
        backward.insert(0, sum("all-reduce query and key norm gradient"));
    }
    b.push(Block::of(forward, backward, QKV));
}

/// Times that a rotation operation by operation reads and writes each 16-bit element where sines are fp32: products and
/// sums are wide then, and both ends are cast (Hugging Face's `apply_rotary_pos_emb` beside an fp32 stream).
const ROTATED_IN_FP32: [f64; 2] = [18.0, 27.0];

/// Rotation of queries and keys, in place.
fn add_rotation(b: &mut LayerBuilder) {
    let (m, s) = (b.model, b.shard);
    if !m.rotates() {
        return;
    }
    let per_token = match m.mla {
        // One rotated part of the keys for all heads.
        Some(mla) => (s.heads(m) + 1) * mla.qk_rope_head_size,
        None => (s.heads(m) + s.kv_heads(m)) * m.head_size(),
    };
    let elements = s.tokens() * per_token;
    // One kernel reads and writes each element once. In complex numbers (torchtitan, Meta's Llama), which compilers
    // leave alone, as much as seven passes; in halves that are turned and joined (Hugging Face), ten, and twelve
    // backward (Liger-Kernel's benchmarks of both).
    let [ahead, back] = match s.fusion {
        _ if s.has_kernel_of(FusedPart::Rotary) => [2.0; 2],
        KernelFusion::Compiled => [7.0; 2],
        KernelFusion::None if s.works_in_fp32() => ROTATED_IN_FP32,
        KernelFusion::None => [10.0, 12.0],
        _ => [2.0; 2],
    };
    let rotation =
        |name, passes| vec![s.made(FusedPart::Rotary, s.pass(KernelClass::Rotary, name, elements, passes))];
    b.push(Block::of(rotation("rotary", ahead), rotation("rotary backward", back), QKV));
}

/// Scores of the indexer over all tokens before, and the largest of them (DeepSeek-V3.2). Its own loss, which trains
/// it, is left out, so nothing of it runs backward; its weights are on every rank.
fn add_indexer(b: &mut LayerBuilder, indexer: IndexerSpec, mla: MlaSpec) {
    let (m, s) = (b.model, b.shard);
    let (t, heads, width) = (s.tokens(), indexer.heads, indexer.head_size);
    let from = mla.q_lora_rank.unwrap_or(m.hidden);
    b.parameters.dense += from * heads * width + m.hidden * (width + heads) + 2 * width;
    let gemm = |name, columns, inner| {
        Item::Kernel(Kernel::gemm(name, t, columns, inner, 1, s.gemm_dtype(Fp8Gemm::Qkv), s.act()))
    };
    let queries = s.sequence / s.context.size.max(1);
    let scored = s.documents.as_ref().and_then(|work| work.all(Mask::whole(&m.attention)));
    let keys = match scored {
        Some(pairs) => (pairs / (s.micro_batch * queries) as f64).ceil().max(1.0) as u64,
        None if m.attention.causal => s.sequence.div_ceil(2),
        None => s.sequence,
    };
    let narrow = s.gemm_dtype(Fp8Gemm::Qkv);
    let scores = Kernel::gemm("indexer scores", queries, keys, width, s.micro_batch * heads, narrow, 0.0);
    let pairs = t * keys;
    let bytes = 4.0 * pairs as f64;
    let top_k = Kernel::elementwise(KernelClass::Router, "indexer top-k", pairs, bytes, Dtype::Fp32);
    b.push(Block {
        forward: vec![
            gemm("indexer query", heads * width, from),
            gemm("indexer key", width + heads, m.hidden),
            Item::Kernel(scores.of(KernelClass::AttentionGemm)),
            Item::Kernel(top_k),
        ],
        modules: CORE.to_vec(),
        ..Block::default()
    });
}

/// The gate on the output: a product with a sigmoid, both kept.
fn add_output_gate(b: &mut LayerBuilder) {
    let (m, s) = (b.model, b.shard);
    let elements = s.tokens() * s.heads(m) * m.v_head_size();
    let moved = elements as f64 * s.act();
    b.save("output gate", moved, QKV, false);
    b.save_input("gated output", moved, &[], &[Projection]);
    let gate = |name, times| vec![s.pass(KernelClass::Activation, name, elements, times)];
    b.push(Block::of(gate("output gate", 3.0), gate("output gate backward", 5.0), &[]));
}

/// The core with its communication, as one block.
fn add_core(b: &mut LayerBuilder) {
    let core = Core::new(b);
    core.save(b);
    let mut forward = core.pass(Direction::Forward);
    let mut backward = core.pass(Direction::Backward);
    if !b.shard.fuses_gradients() && b.model.attention.kernel == AttentionKernel::Standard {
        // Heads are merged into rows for the projection, and the three gradients into one matrix.
        let (q, k, v) = widths(b);
        let (t, keys) = (b.shard.tokens(), key_tokens(b));
        let copy = |name, elements| b.shard.pass(KernelClass::Copy, name, elements, 2.0);
        forward.push(copy("merge heads", t * b.shard.heads(b.model) * b.model.v_head_size()));
        backward.push(copy("merge gradients", t * q + keys * (k + v)));
    }
    b.push(Block::of(forward, backward, CORE));
}
