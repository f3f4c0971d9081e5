//! The core of attention: kernels of each direction, and context-parallel communication around them.

use crate::documents::{AttentionPairs, Mask};
use crate::model::blocks::LayerBuilder;
use crate::model::item::{CommGroup, CommOp, CommPoint, Direction, Item, Kernel, KernelShape};
use crate::model::{KernelClass, Shard};
use stepsim_spec::facts::facts;
use stepsim_spec::kernel::AttentionGeneration;
use stepsim_spec::model::{AttentionKernel, AttentionSpec, ModelSpec};
use stepsim_spec::recipe::CastRole;
use stepsim_spec::stack::FusedPart;
use stepsim_spec::workload::{ContextKind, RecomputeModule};

/// The recomputation that repeats the core.
pub(super) const CORE: &[RecomputeModule] = &[RecomputeModule::AttentionCore];

/// Rows of a tile of a fused kernel.
const TILE: f64 = 128.0;

/// The step of a ring where there is none: all keys have been gathered.
const GATHERED: u64 = u64::MAX;

/// The operands of a fused kernel.
struct Square {
    batch: u64,
    queries: u64,
    keys: u64,
    /// Keys that some query sees.
    key_rows: u64,
    causal: bool,
    /// Queries with the keys that each sees, over the batch; of one head.
    pairs: f64,
}

/// The attention core of one rank.
pub(super) struct Core<'a> {
    model: &'a ModelSpec,
    shard: &'a Shard,
    /// Query heads, key–value heads after any all-to-all over heads.
    heads: u64,
    kv_heads: u64,
    /// Query tokens of one sequence on this rank after any all-to-all.
    queries: u64,
    /// Ranks of the all-to-all over heads; 1 without.
    inner: u64,
    /// Ranks over which keys and values are spread when the core runs; 1 without.
    ring: u64,
    /// Image tokens of a sequence, where queries see those: all are on the rank.
    images: Option<u64>,
}

impl<'a> Core<'a> {
    pub(super) fn new(b: &LayerBuilder<'a>) -> Core<'a> {
        let (model, shard) = (b.model, b.shard);
        let c = &shard.context;
        let images = b.images.map(|images| images.sequence);
        let inner = if images.is_some() { 1 } else { c.inner() };
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
            images,
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
        if self.inner > 1 { CommGroup::ContextOuter } else { self.shard.context_group }
    }

    /// The tensors that the core keeps for its own backward.
    pub(super) fn save(&self, b: &mut LayerBuilder) {
        let rows = self.tokens() * self.heads as f64;
        match self.model.attention.kernel {
            // Log of the softmax's sum, one fp32 a row.
            AttentionKernel::Flash => b.save("softmax statistics", 4.0 * rows, CORE, false),
            AttentionKernel::Standard => {
                let square = rows * self.images.unwrap_or(self.shard.sequence) as f64;
                b.save("softmax", square * self.shard.act(), CORE, false);
                if self.is_eager() {
                    b.save("softmax in fp32", 4.0 * square, CORE, false);
                }
                if self.model.dropout {
                    b.save("attention dropout mask", square, CORE, false);
                    b.save("attention dropout", square * self.shard.act(), CORE, false);
                }
            }
        }
    }

    /// All items of one direction.
    pub(super) fn pass(&self, direction: Direction) -> Vec<Item> {
        let mut items = Vec::new();
        if let Some(images) = self.images {
            self.on_images(&mut items, images, direction);
            return items;
        }
        if self.model.attention.kernel == AttentionKernel::Flash {
            items.extend(self.casts(direction));
        }
        self.swap_heads(&mut items, direction, true);
        match (self.ring, self.shard.context.kind) {
            (1, _) => self.compute(&mut items, 0, self.queries, self.model.attention.causal, direction),
            (_, ContextKind::AllGather) => self.gathered(&mut items, direction),
            _ => self.ring(&mut items, direction),
        }
        self.swap_heads(&mut items, direction, false);
        items
    }

    /// Each query sees all image tokens of its sequence.
    fn on_images(&self, items: &mut Vec<Item>, keys: u64, direction: Direction) {
        if self.model.attention.kernel == AttentionKernel::Standard {
            return self.standard(items, keys, direction);
        }
        let (batch, queries) = (self.shard.micro_batch, self.queries);
        let pairs = (batch * queries * keys) as f64;
        let square = Square { batch, queries, keys, key_rows: keys, causal: false, pairs };
        items.push(Item::Kernel(self.flash(square, direction)));
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
        self.compute(items, GATHERED, seen, causal, direction);
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
            (false, _, _) => self.compute(items, step, self.queries, false, direction),
            (true, _, 0) => self.compute(items, step, self.queries, true, direction),
            // The documents decide which keys have work.
            _ if self.shard.documents.is_some() => {
                self.compute(items, step, self.queries, false, direction);
            }
            // Half of the queries see the whole block, or all of them see its first half.
            (true, true, _) => self.compute(items, step, self.queries / 2, false, direction),
            // Without zigzag, rank r sees the blocks of the r ranks before it.
            (true, false, _) if step <= self.shard.context_rank.min(self.ring - 1) => {
                self.compute(items, step, self.queries, false, direction);
            }
            (true, false, _) => {}
        }
    }

    /// Keys that a window, chunks or an indexer leave of `keys`: a fused kernel works on whole tiles at both borders.
    fn left(&self, keys: u64, causal: bool) -> (u64, bool) {
        let (a, s) = (&self.model.attention, self.shard.sequence);
        let kept = a.indexer.map(|x| x.top_k);
        let masked = AttentionSpec { window: kept.or(a.window), ..*a };
        let (all, pairs) =
            (AttentionSpec { causal: true, ..AttentionSpec::default() }.pairs(s), masked.pairs(s));
        let seen = if causal { keys as f64 / 2.0 } else { keys as f64 };
        let left = match kept {
            // A list of keys, the token's own among them.
            Some(_) => seen * pairs / (0.5 * (s as f64).powi(2)),
            None if pairs >= all => return (keys, causal),
            None => (seen * pairs / all + TILE * seen * 2.0 / s as f64).min(seen),
        };
        (left.ceil().max(1.0) as u64, false)
    }

    /// The kernels of attention of this rank's queries on `keys` key tokens of each sequence, in a step of the ring.
    fn compute(&self, items: &mut Vec<Item>, step: u64, keys: u64, causal: bool, direction: Direction) {
        if self.model.attention.kernel == AttentionKernel::Standard {
            // A mask hides scores that were computed; only keys that an indexer chose are fewer.
            let chosen = self.model.attention.indexer.is_some();
            let keys = if chosen { self.left(keys, causal).0 } else { keys };
            return self.standard(items, keys, direction);
        }
        let square = match &self.shard.documents {
            Some(work) => self.in_documents(work, step, causal),
            None => Some(self.in_one_document(keys, causal)),
        };
        items.extend(square.map(|square| Item::Kernel(self.flash(square, direction))));
    }
    /// True if its mask is a tensor: kernels skip nothing of it.
    fn reads_mask(&self) -> bool {
        let (a, s) = (&self.model.attention, self.shard);
        s.mask_is_tensor || (s.window_is_mask && a.window.is_some_and(|window| window < s.sequence))
    }
    fn in_one_document(&self, keys: u64, causal: bool) -> Square {
        if let Some(windows) = self.in_windows(causal) {
            return windows;
        }
        let key_rows = keys;
        let (keys, causal) = if self.reads_mask() { (keys, false) } else { self.left(keys, causal) };
        let (batch, queries) = (self.shard.micro_batch, self.queries);
        let seen = if causal { 0.5 } else { 1.0 };
        let pairs = batch as f64 * queries as f64 * keys as f64 * seen;
        Square { batch, queries, keys, key_rows, causal, pairs }
    }
    /// Whole squares, one for each chunk, where attention is not causal: a kernel of variable lengths runs them one
    /// by one.
    fn in_windows(&self, causal: bool) -> Option<Square> {
        let (a, s) = (&self.model.attention, self.queries);
        let chunk = a.chunk.filter(|chunk| !causal && !a.causal && self.ring == 1 && *chunk < s)?;
        let batch = self.shard.micro_batch * s.div_ceil(chunk);
        let pairs = self.shard.micro_batch as f64 * a.pairs(s);
        Some(Square { batch, queries: chunk, keys: chunk, key_rows: chunk, causal, pairs })
    }
    /// As many documents of one length as have the pairs of those that there are, and about their length; `None`
    /// where no query sees a key.
    fn in_documents(&self, work: &AttentionPairs, step: u64, causal: bool) -> Option<Square> {
        let a = &self.model.attention;
        let (whole, own) = (Mask::whole(a), Mask::of(a));
        let area = |mask| match step {
            GATHERED => work.all(mask),
            step => work.area(mask, step as usize),
        };
        let rows = self.tokens();
        let seen = area(whole).unwrap_or(0.0) / rows;
        let chosen = a.indexer.is_some();
        let border = if chosen { 0.0 } else { TILE * 2.0 * seen / work.document.max(1.0) };
        let kept = match area(own).unwrap_or(0.0) / rows {
            // A list of keys, the token's own among them; areas behind a token have the diagonal by half.
            kept if chosen && kept > 0.0 => kept + 0.5,
            kept if own == whole || kept >= seen => seen,
            kept if kept > 0.0 => (kept + border).min(seen),
            none => none,
        };
        if kept <= 0.0 {
            return None;
        }
        let rows_of = |seen: f64| (if causal { 2.0 * seen } else { seen }).ceil().max(1.0) as u64;
        let documents = (self.queries as f64 / (2.0 * seen)).round().max(1.0);
        let batch = self.shard.micro_batch * documents as u64;
        let queries = (rows / batch as f64).ceil().max(1.0) as u64;
        let key_rows = rows_of(seen).max(queries);
        let (keys, causal) = if kept == seen { (rows_of(kept), causal) } else { (kept.ceil() as u64, false) };
        Some(Square { batch, queries, keys, key_rows, causal, pairs: rows * kept })
    }

    /// One fused kernel. Forward reads Q, K, V and writes O and the row statistics; backward reads these and dO and
    /// writes dQ, dK, dV. Backward runs five products where forward runs two.
    fn flash(&self, square: Square, direction: Direction) -> Kernel {
        let Square { batch, queries, keys, key_rows, causal, pairs } = square;
        let (m, s) = (self.model, self.shard);
        // With an indexer all heads read the same few latents.
        let (qk, v, kv_heads) = match m.mla.filter(|_| m.attention.indexer.is_some()) {
            Some(mla) => (mla.kv_lora_rank + mla.qk_rope_head_size, mla.kv_lora_rank, 1),
            None => (m.qk_head_size(), m.v_head_size(), self.kv_heads),
        };
        let forward_flops = 2.0 * pairs * self.heads as f64 * (qk + v) as f64;
        let t = self.tokens();
        let rows = t * self.heads as f64;
        let q_bytes = rows * qk as f64 * s.act();
        let o_bytes = rows * v as f64 * s.act();
        let kv_bytes = (batch * keys * kv_heads * (qk + v)) as f64 * s.act();
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
            batch,
            queries,
            keys,
            key_rows,
            heads: self.heads,
            kv_heads,
            qk_size: qk,
            v_size: v,
            causal,
            direction,
            // cuDNN's kernels take 1.4 times as long where they read a mask (docs/developers/one-gpu.md), as long as
            // FlashAttention 2.
            generation: if self.reads_mask() { Some(AttentionGeneration::Flash2) } else { s.attention },
        };
        let dtype = s.attention_dtype();
        Kernel { name, class, shape, flops, bytes, dtype, scaling: s.scaling(dtype), tuned: false }
    }
    /// The casts of what a narrow kernel reads: queries, keys and values, which are kept wide and cast again backward
    /// (Transformer Engine, dot_product_attention/utils.py, `combine_and_quantize`), and the gradient of its output.
    fn casts(&self, direction: Direction) -> Vec<Item> {
        let (m, s) = (self.model, self.shard);
        if s.attention_dtype() == s.compute {
            return Vec::new();
        }
        let tokens = s.micro_batch * self.queries;
        let read = self.heads * m.qk_head_size() + self.kv_heads * (m.qk_head_size() + m.v_head_size());
        let [forward, again] = s.casts_beside(CastRole::InputKept, tokens * read);
        let [_, gradient] = s.casts_beside(CastRole::OutputGradient, tokens * self.heads * m.v_head_size());
        match direction {
            Direction::Forward => forward,
            Direction::Backward => [again, gradient].concat(),
        }
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
        let pointwise = |name, bytes| s.elementwise(KernelClass::Softmax, name, square as u64, bytes);
        let mask = if m.dropout { square } else { 0.0 };
        let [softmax, softmax_back] = self.softmax_bytes().map(|bytes| bytes * square);
        match direction {
            Direction::Forward => {
                items.push(gemm("attention scores", q, keys, qk));
                items.push(pointwise("softmax", softmax));
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
                items.push(pointwise("softmax backward", softmax_back));
                items.push(gemm("query gradient", q, qk, keys));
                items.push(gemm("key gradient", keys, qk, q));
            }
        }
    }

    /// Bytes that a softmax moves for a score, forward and backward: in one kernel, or operation by operation (scale,
    /// mask, cast, softmax in fp32, cast back; transformers models/llama/modeling_llama.py, eager_attention_forward;
    /// backward the gradient times the result is a kernel of its own, aten/src/ATen/native/cuda/SoftMax.cu).
    fn softmax_bytes(&self) -> [f64; 2] {
        let (act, wide) = (self.shard.act(), 4.0);
        if !self.is_eager() {
            return [2.0 * act, 3.0 * act];
        }
        let (scale, mask, cast) = (2.0 * act, 2.0 * act, act + wide);
        let casts = *facts().wider_casts * cast + cast;
        [scale + mask + casts + 2.0 * wide, casts + 6.0 * wide + scale]
    }
    /// True if scores are made into a softmax operation by operation.
    fn is_eager(&self) -> bool {
        self.shard.eager.contains(&FusedPart::Softmax) && !self.shard.has_kernel_of(FusedPart::Softmax)
    }
}
