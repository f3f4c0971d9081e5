//! The attention part of a layer: projections in, core (with its context-parallel communication), projection out.

use super::item::{CommGroup, CommOp, CommPoint, Direction, Item, Kernel, KernelShape};
use super::layer::{Block, Blocks, Cut, Linear};
use super::parameters;
use super::{KernelClass, Scaling};
use crate::spec::model::{AttentionKernel, AttentionSpec, IndexerSpec, MlaSpec, QkNorm};
use crate::spec::recipe::CastRole;
use crate::spec::workload::{ContextKind, Dtype, Fp8Gemm, RecomputeModule};

const QKV: &[RecomputeModule] = &[RecomputeModule::Qkv];
const CORE: &[RecomputeModule] = &[RecomputeModule::AttentionCore];

/// Adds projections, core and output projection.
pub(super) fn add(b: &mut Blocks) {
    let (m, s) = (b.model, b.shard);
    let saved = s.saved_input(Fp8Gemm::Qkv);
    // Both down-projections keep a narrow copy of their own.
    let copies = if m.mla.is_some() && saved < s.act() { 2.0 } else { 1.0 };
    let input = copies * s.local_tokens() as f64 * m.hidden as f64 * saved;
    b.save("QKV input", input, &[RecomputeModule::Norm], true);
    match m.mla {
        None => {
            let outputs = m.query_width() / s.tensor + 2 * s.kv_heads(m) * m.head_size();
            b.linear(Linear {
                name: "qkv",
                grad_names: ["qkv input gradient", "qkv weight gradient"],
                inputs: m.hidden,
                outputs,
                cut: Cut::Columns,
                biases: m.qkv_biases(),
                gemm: Fp8Gemm::Qkv,
                modules: QKV,
            });
        }
        Some(mla) => add_latent(b, mla),
    }
    add_qk_norm(b);
    add_rotation(b);
    let t = s.tokens() as f64;
    let (q, k, v) = widths(b);
    b.save("query", t * q as f64 * s.act(), QKV, false);
    b.save("key", t * k as f64 * s.act(), QKV, false);
    b.save("value", t * v as f64 * s.act(), QKV, false);
    if let (Some(indexer), Some(mla)) = (m.attention.indexer, m.mla) {
        add_indexer(b, indexer, mla);
    }
    add_core(b);
    if m.attention.output_gate {
        add_output_gate(b);
    }
    let width = s.heads(m) * m.v_head_size();
    // The core's output serves its own backward and the projection's weight gradient: 16-bit for the former, unless the
    // recipe keeps it in a format of its own.
    b.save("attention output", t * width as f64 * s.kept_bytes(CastRole::AttentionOutput), &[], true);
    if s.keeps_copy(Fp8Gemm::Projection) {
        let copy = t * width as f64 * s.saved_input(Fp8Gemm::Projection);
        b.save("narrow attention output", copy, &[], true);
    }
    let [forward, backward] = s.casts_beside(CastRole::AttentionOutput, s.tokens() * width);
    b.push(Block { forward, input_grad: backward.clone(), backward, ..Block::default() });
    b.linear(Linear {
        name: "projection",
        grad_names: ["projection input gradient", "projection weight gradient"],
        inputs: width,
        outputs: m.hidden,
        cut: if m.parallel_block { Cut::RowsUnsummed } else { Cut::Rows },
        biases: m.output_bias(),
        gemm: Fp8Gemm::Projection,
        modules: &[],
    });
}

/// Widths of query, key and value on this rank as the core reads them.
fn widths(b: &Blocks) -> (u64, u64, u64) {
    let (m, s) = (b.model, b.shard);
    let kv = if m.mla.is_some() { s.heads(m) } else { s.kv_heads(m) };
    (s.heads(m) * m.qk_head_size(), kv * m.qk_head_size(), kv * m.v_head_size())
}

/// Latent attention: narrow projections on each rank's own tokens, then wide ones cut by heads.
fn add_latent(b: &mut Blocks, mla: MlaSpec) {
    let (m, s) = (b.model, b.shard);
    let local = s.local_tokens();
    let heads = s.heads(m);
    let down = |name, grad_names, outputs| Linear {
        name,
        grad_names,
        inputs: m.hidden,
        outputs,
        cut: Cut::No,
        biases: m.qkv_biases(),
        gemm: Fp8Gemm::Qkv,
        modules: &[],
    };
    let up = |name, grad_names, inputs, outputs| Linear {
        name,
        grad_names,
        inputs,
        outputs,
        cut: Cut::Columns,
        biases: m.qkv_biases(),
        gemm: Fp8Gemm::Qkv,
        modules: QKV,
    };
    let q_width = heads * m.qk_head_size();
    let latent_kv = mla.kv_lora_rank + mla.qk_rope_head_size;
    let kv_width = heads * (mla.qk_nope_head_size + mla.v_head_size);
    // Each is kept as it is projected; its norm runs again with the up-projections.
    let latent = |b: &mut Blocks, name, width: u64| {
        b.parameters.dense += parameters::norm(m, width);
        b.save(name, local as f64 * width as f64 * s.act(), &[], true);
        let elements = local * width;
        b.save("latent after its norm", elements as f64 * s.saved_input(Fp8Gemm::Qkv), QKV, true);
        let norm = |class, name, times: f64| {
            let bytes = times * elements as f64 * s.act();
            vec![Item::Kernel(Kernel::elementwise(class, name, elements, bytes, s.compute))]
        };
        let backward = norm(KernelClass::NormBackward, "latent norm backward", 3.0);
        b.push(Block {
            forward: norm(KernelClass::Norm, "latent norm", 2.0),
            input_grad: backward.clone(),
            backward,
            modules: QKV.to_vec(),
            ..Block::default()
        });
    };
    b.sum_of_branches(2);
    match mla.q_lora_rank {
        Some(rank) => {
            b.linear(down("q down", ["q down input gradient", "q down weight gradient"], rank));
            latent(b, "query latent", rank);
            b.linear(up("q up", ["q up input gradient", "q up weight gradient"], rank, q_width));
        }
        None => b.linear(up("q", ["q input gradient", "q weight gradient"], m.hidden, q_width)),
    }
    b.linear(down("kv down", ["kv down input gradient", "kv down weight gradient"], latent_kv));
    latent(b, "key-value latent", mla.kv_lora_rank);
    b.linear(up("kv up", ["kv up input gradient", "kv up weight gradient"], mla.kv_lora_rank, kv_width));
    if m.attention.indexer.is_none() {
        heads_from_latents(b, mla);
    }
}

/// Keys and values of all heads put together from the up-projection and the one rotated part; backward the gradient of the
/// projection from theirs, and that of the rotated part summed over heads.
fn heads_from_latents(b: &mut Blocks, mla: MlaSpec) {
    let (m, s) = (b.model, b.shard);
    let projected = mla.qk_nope_head_size + mla.v_head_size;
    let elements = s.tokens() * s.heads(m) * (projected + mla.qk_rope_head_size);
    let moved = (elements + s.tokens() * s.heads(m) * projected) as f64 * s.act();
    let copy =
        |name| vec![Item::Kernel(Kernel::elementwise(KernelClass::Copy, name, elements, moved, s.compute))];
    let backward = copy("split key and value gradients");
    b.push(Block {
        forward: copy("put keys and values together"),
        input_grad: backward.clone(),
        backward,
        modules: QKV.to_vec(),
        ..Block::default()
    });
}

/// Normalisation of queries and keys by heads; its weights (and sinks) are small and alike on all tensor-parallel ranks.
fn add_qk_norm(b: &mut Blocks) {
    let (m, s) = (b.model, b.shard);
    b.parameters.dense += parameters::qk_norm_and_sinks(m);
    if m.attention.qk_norm == QkNorm::None {
        return;
    }
    let elements = s.tokens() * (s.heads(m) + s.kv_heads(m)) * m.head_size();
    let moved = elements as f64 * s.act();
    b.save("query and key before their norm", moved, QKV, false);
    let kernel = |class, name, times: f64| {
        Item::Kernel(Kernel::elementwise(class, name, elements, times * moved, s.compute))
    };
    let mut forward = vec![kernel(KernelClass::Norm, "query and key norm", 2.0)];
    let mut backward = vec![kernel(KernelClass::NormBackward, "query and key norm backward", 3.0)];
    if m.attention.qk_norm == QkNorm::Full && s.tensor > 1 {
        // A sum of squares of each token, once for queries and once for keys.
        let bytes = 2.0 * 4.0 * s.tokens() as f64;
        let sum = |name| Item::Comm(CommPoint::new(name, CommGroup::Tensor, CommOp::AllReduce, bytes));
        forward.insert(0, sum("all-reduce query and key norm"));
        backward.insert(0, sum("all-reduce query and key norm gradient"));
    }
    b.push(Block {
        forward,
        input_grad: backward.clone(),
        backward,
        modules: QKV.to_vec(),
        ..Block::default()
    });
}

/// Rotation of queries and keys, in place.
fn add_rotation(b: &mut Blocks) {
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
    // By itself: halves swapped, both products, their sum.
    let moved = if s.fuses_chains() { 2.0 } else { 2.0 + 2.0 + 2.0 + 3.0 };
    let bytes = moved * elements as f64 * s.act();
    let kernel =
        |name| Item::Kernel(Kernel::elementwise(KernelClass::Rotary, name, elements, bytes, s.compute));
    b.push(Block {
        forward: vec![kernel("rotary")],
        input_grad: vec![kernel("rotary backward")],
        backward: vec![kernel("rotary backward")],
        modules: QKV.to_vec(),
        ..Block::default()
    });
}

/// Scores of the indexer over all tokens before, and the largest of them (DeepSeek-V3.2). Its own loss, which trains it,
/// is left out, so nothing of it runs backward; its weights are on every rank.
fn add_indexer(b: &mut Blocks, indexer: IndexerSpec, mla: MlaSpec) {
    let (m, s) = (b.model, b.shard);
    let (t, heads, width) = (s.tokens(), indexer.heads, indexer.head_size);
    let from = mla.q_lora_rank.unwrap_or(m.hidden);
    b.parameters.dense += from * heads * width + m.hidden * (width + heads) + 2 * width;
    let gemm = |name, columns, inner| {
        Item::Kernel(Kernel::gemm(name, t, columns, inner, 1, s.gemm_dtype(Fp8Gemm::Qkv), s.act()))
    };
    let keys = if m.attention.causal { s.sequence.div_ceil(2) } else { s.sequence };
    let queries = s.sequence / s.context.size.max(1);
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
fn add_output_gate(b: &mut Blocks) {
    let (m, s) = (b.model, b.shard);
    let elements = s.tokens() * s.heads(m) * m.v_head_size();
    let moved = elements as f64 * s.act();
    b.save("output gate", moved, QKV, false);
    b.save("gated output", moved, &[], true);
    let kernel = |name, times: f64| {
        let class = KernelClass::Activation;
        Item::Kernel(Kernel::elementwise(class, name, elements, times * moved, s.compute))
    };
    let backward = vec![kernel("output gate backward", 5.0)];
    b.push(Block {
        forward: vec![kernel("output gate", 3.0)],
        input_grad: backward.clone(),
        backward,
        ..Block::default()
    });
}

/// The core with its communication, as one block.
fn add_core(b: &mut Blocks) {
    let core = Core::new(b);
    core.save(b);
    let mut forward = core.pass(Direction::Forward);
    let mut backward = core.pass(Direction::Backward);
    if !b.shard.fuses_gradients() && b.model.attention.kernel == AttentionKernel::Standard {
        // Heads are merged into rows for the projection, and the three gradients into one matrix.
        let (q, k, v) = widths(b);
        let (t, act) = (b.shard.tokens(), b.shard.act());
        let copy = |name, width: u64| {
            let elements = t * width;
            let bytes = 2.0 * elements as f64 * act;
            Item::Kernel(Kernel::elementwise(KernelClass::Copy, name, elements, bytes, b.shard.compute))
        };
        forward.push(copy("merge heads", b.shard.heads(b.model) * b.model.v_head_size()));
        backward.push(copy("merge gradients", q + k + v));
    }
    b.push(Block {
        forward,
        input_grad: backward.clone(),
        backward,
        modules: CORE.to_vec(),
        ..Block::default()
    });
}

/// The attention core of one rank.
struct Core<'a> {
    model: &'a crate::spec::model::ModelSpec,
    shard: &'a super::Shard,
    /// Query heads, key–value heads after any all-to-all over heads.
    heads: u64,
    kv_heads: u64,
    /// Query tokens of one sequence on this rank after any all-to-all.
    queries: u64,
    /// Ranks of the all-to-all over heads; 1 without.
    inner: u64,
    /// Ranks over which keys and values are spread when the core runs; 1 without.
    ring: u64,
}

impl<'a> Core<'a> {
    fn new(b: &Blocks<'a>) -> Core<'a> {
        let (model, shard) = (b.model, b.shard);
        let c = &shard.context;
        let inner = match c.kind {
            ContextKind::Ulysses => c.size,
            ContextKind::TwoLevel => c.ulysses_size.unwrap_or(1),
            ContextKind::Ring | ContextKind::AllGather => 1,
        };
        let kv = if model.mla.is_some() { shard.heads(model) } else { shard.kv_heads(model) };
        let ring = c.size / inner;
        Core {
            model,
            shard,
            heads: shard.heads(model) / inner,
            kv_heads: kv.div_ceil(inner),
            queries: shard.sequence / ring,
            inner,
            ring,
        }
    }

    fn tokens(&self) -> f64 {
        (self.shard.micro_batch * self.queries) as f64
    }
    /// Bytes of this rank's keys and values as the core reads them.
    fn kv_bytes(&self) -> f64 {
        let width = self.kv_heads * (self.model.qk_head_size() + self.model.v_head_size());
        self.tokens() * width as f64 * self.shard.act()
    }
    fn group(&self) -> CommGroup {
        if self.inner > 1 { CommGroup::ContextOuter } else { CommGroup::Context }
    }

    /// What the core keeps for its own backward.
    fn save(&self, b: &mut Blocks) {
        let rows = self.tokens() * self.heads as f64;
        match self.model.attention.kernel {
            // Log of the softmax's sum, one fp32 a row.
            AttentionKernel::Flash => b.save("softmax statistics", 4.0 * rows, CORE, false),
            AttentionKernel::Standard => {
                let square = rows * self.shard.sequence as f64;
                b.save("softmax", square * self.shard.act(), CORE, false);
                if self.model.dropout {
                    b.save("attention dropout mask", square, CORE, false);
                    b.save("attention dropout", square * self.shard.act(), CORE, false);
                }
            }
        }
    }

    /// All items of one direction.
    fn pass(&self, direction: Direction) -> Vec<Item> {
        let mut items = Vec::new();
        self.swap_heads(&mut items, direction, true);
        match (self.ring, self.shard.context.kind) {
            (1, _) => self.compute(&mut items, self.queries, self.model.attention.causal, direction),
            (_, ContextKind::AllGather) => self.gathered(&mut items, direction),
            _ => self.ring(&mut items, direction),
        }
        self.swap_heads(&mut items, direction, false);
        items
    }

    /// All-to-alls that turn a cut of the sequence into a cut of the heads (before) and back (after).
    fn swap_heads(&self, items: &mut Vec<Item>, direction: Direction, before: bool) {
        if self.inner == 1 {
            return;
        }
        let (m, t) = (self.model, self.tokens());
        let group = if self.ring > 1 { CommGroup::ContextInner } else { CommGroup::Context };
        let act = self.shard.act();
        let q = t * (self.heads * m.qk_head_size()) as f64 * act;
        let k = t * (self.kv_heads * m.qk_head_size()) as f64 * act;
        let v = t * (self.kv_heads * m.v_head_size()) as f64 * act;
        let out = t * (self.heads * m.v_head_size()) as f64 * act;
        let inputs = [("all-to-all query", q), ("all-to-all key", k), ("all-to-all value", v)];
        let output = [("all-to-all attention output", out)];
        let forward = direction == Direction::Forward;
        let list: &[(&'static str, f64)] = if before == forward { &inputs } else { &output };
        for &(name, bytes) in list {
            items.push(Item::Comm(CommPoint::new(name, group, CommOp::AllToAll, bytes)));
        }
    }

    /// Keys and values of all ranks gathered before; their gradients scattered after.
    fn gathered(&self, items: &mut Vec<Item>, direction: Direction) {
        let all = self.kv_bytes() * self.ring as f64;
        let comm = |name, op| Item::Comm(CommPoint::new(name, self.group(), op, all));
        items.push(comm("all-gather key and value", CommOp::AllGather));
        let (seen, causal) = self.share_of_square();
        self.compute(items, seen, causal, direction);
        if direction == Direction::Backward {
            items.push(comm("reduce-scatter key and value gradient", CommOp::ReduceScatter));
        }
    }
    /// Key tokens that one query sees on average on this rank, as an unmasked product.
    fn share_of_square(&self) -> (u64, bool) {
        let s = self.shard.sequence;
        if !self.model.attention.causal || self.model.attention.kernel == AttentionKernel::Standard {
            return (s, false);
        }
        if self.shard.context.zigzag {
            return (s / 2, false);
        }
        // Rank r sees r whole pieces and half of its own.
        let rank = self.shard.context_rank.min(self.ring - 1);
        ((2 * rank + 1) * self.queries / 2, false)
    }

    /// Key–value blocks around the ring, each sent on while attention works on it.
    fn ring(&self, items: &mut Vec<Item>, direction: Direction) {
        let block = self.kv_bytes();
        let send = |bytes: f64, behind: u32| {
            let name = match direction {
                Direction::Forward => "send key and value",
                Direction::Backward => "send key, value and gradients",
            };
            Item::Comm(CommPoint::new(name, self.group(), CommOp::SendRecv, bytes).behind(behind))
        };
        let backward = direction == Direction::Backward;
        for step in 0..self.ring {
            // The block at hand moves on, and in backward the gradients that the step before added to.
            let keys = if step + 1 < self.ring { block } else { 0.0 };
            let gradients = if backward && step > 0 { block } else { 0.0 };
            let before = items.len();
            self.ring_step(items, step, direction);
            let kernels = (items.len() - before) as u32;
            if keys + gradients > 0.0 {
                items.insert(before, send(keys + gradients, kernels));
            }
        }
        if backward {
            items.push(send(block, 0));
        }
    }
    /// Attention on the block that arrives in a step of the ring.
    fn ring_step(&self, items: &mut Vec<Item>, step: u64, direction: Direction) {
        let causal = self.model.attention.causal && self.model.attention.kernel == AttentionKernel::Flash;
        match (causal, self.shard.context.zigzag, step) {
            (false, _, _) => self.compute(items, self.queries, false, direction),
            (true, _, 0) => self.compute(items, self.queries, true, direction),
            // Half of the queries see the whole block, or all of them see its first half.
            (true, true, _) => self.compute(items, self.queries / 2, false, direction),
            // Without zigzag, rank r sees the blocks of the r ranks before it.
            (true, false, _) if step <= self.shard.context_rank.min(self.ring - 1) => {
                self.compute(items, self.queries, false, direction);
            }
            (true, false, _) => {}
        }
    }

    /// Keys that a window, chunks or an indexer leave of `keys`: a fused kernel works on whole tiles at both borders.
    fn left(&self, keys: u64, causal: bool) -> (u64, bool) {
        const TILE: f64 = 128.0;
        let (a, s) = (&self.model.attention, self.shard.sequence);
        let kept = a.indexer.map(|x| x.top_k);
        let masked = AttentionSpec { window: kept.or(a.window), ..*a };
        let (all, pairs) =
            (AttentionSpec { causal: true, ..AttentionSpec::default() }.pairs(s), masked.pairs(s));
        if pairs >= all {
            return (keys, causal);
        }
        let seen = if causal { keys as f64 / 2.0 } else { keys as f64 };
        let border = if kept.is_some() { 0.0 } else { TILE };
        let left = (seen * pairs / all + border * seen * 2.0 / s as f64).min(seen);
        (left.ceil().max(1.0) as u64, false)
    }

    /// The kernels of attention of this rank's queries on `keys` key tokens of each sequence.
    fn compute(&self, items: &mut Vec<Item>, keys: u64, causal: bool, direction: Direction) {
        let (keys, causal) = self.left(keys, causal);
        match self.model.attention.kernel {
            AttentionKernel::Flash => items.push(Item::Kernel(self.flash(keys, causal, direction))),
            AttentionKernel::Standard => self.standard(items, keys, direction),
        }
    }

    /// One fused kernel. Forward reads Q, K, V and writes O and the row statistics; backward reads these and dO and
    /// writes dQ, dK, dV. Backward runs five products where forward runs two.
    fn flash(&self, keys: u64, causal: bool, direction: Direction) -> Kernel {
        let (m, s) = (self.model, self.shard);
        // With an indexer all heads read the same few latents.
        let (qk, v, kv_heads) = match m.mla.filter(|_| m.attention.indexer.is_some()) {
            Some(mla) => (mla.kv_lora_rank + mla.qk_rope_head_size, mla.kv_lora_rank, 1),
            None => (m.qk_head_size(), m.v_head_size(), self.kv_heads),
        };
        let pairs = (s.micro_batch * self.heads) as f64 * self.queries as f64 * keys as f64;
        let seen = if causal { 0.5 } else { 1.0 };
        let forward_flops = 2.0 * pairs * seen * (qk + v) as f64;
        let t = self.tokens();
        let rows = t * self.heads as f64;
        let q_bytes = rows * qk as f64 * s.act();
        let o_bytes = rows * v as f64 * s.act();
        let kv_bytes = (s.micro_batch * keys * kv_heads * (qk + v)) as f64 * s.act();
        let (class, name, flops, bytes) = match direction {
            Direction::Forward => {
                let moved = q_bytes + kv_bytes + o_bytes + 4.0 * rows;
                (KernelClass::AttentionForward, "attention", forward_flops, moved)
            }
            Direction::Backward => {
                let moved = 2.0 * (q_bytes + kv_bytes + o_bytes) + 4.0 * rows;
                (KernelClass::AttentionBackward, "attention backward", 2.5 * forward_flops, moved)
            }
        };
        let shape = KernelShape::Attention {
            batch: s.micro_batch,
            queries: self.queries,
            keys,
            heads: self.heads,
            kv_heads,
            qk_size: qk,
            v_size: v,
            causal,
            direction,
            generation: s.attention,
        };
        Kernel { name, class, shape, flops, bytes, dtype: s.compute, scaling: Scaling::Tensor }
    }

    /// Scores, softmax (with dropout), values as kernels of their own; backward twice the products.
    fn standard(&self, items: &mut Vec<Item>, keys: u64, direction: Direction) {
        let (m, s) = (self.model, self.shard);
        let batch = s.micro_batch * self.heads;
        let (q, qk, v) = (self.queries, m.qk_head_size(), m.v_head_size());
        let square = (batch * q * keys) as f64;
        let act = s.act();
        let gemm = |name, rows, columns, inner| {
            let gemm = Kernel::gemm(name, rows, columns, inner, batch, s.compute, act);
            Item::Kernel(gemm.of(KernelClass::AttentionGemm))
        };
        let pointwise = |name, bytes: f64| {
            let elements = square as u64;
            Item::Kernel(Kernel::elementwise(KernelClass::Softmax, name, elements, bytes, s.compute))
        };
        let mask = if m.dropout { square } else { 0.0 };
        match direction {
            Direction::Forward => {
                items.push(gemm("attention scores", q, keys, qk));
                items.push(pointwise("softmax", 2.0 * square * act));
                if m.dropout {
                    items.push(pointwise("attention dropout", 2.0 * square * act + mask));
                }
                items.push(gemm("attention over values", q, v, keys));
            }
            Direction::Backward => {
                items.push(gemm("value gradient", keys, v, q));
                items.push(gemm("attention gradient", q, keys, v));
                if m.dropout {
                    items.push(pointwise("attention dropout backward", 2.0 * square * act + mask));
                }
                items.push(pointwise("softmax backward", 3.0 * square * act));
                items.push(gemm("query gradient", q, qk, keys));
                items.push(gemm("key gradient", keys, qk, q));
            }
        }
    }
}
