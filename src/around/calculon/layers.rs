//! The layers of one transformer block with the cost of each (restatement §2.3).
//!
//! One block is attention and MLP: fork, layer norm, the tensor-parallel region between F and G, dropout, residual.
//! With tiled overlap F, the fork and the GEMMs after it are one layer, and so are the GEMM before G and G.

use super::costs::Costs;
use super::kinds::{AGRAD, EngineKind, FORWARD, LayerShape, LayerShapes, WGRAD};
use super::tensor_parallel::{LayerComm, RegionSide, TensorGroup};
use stepsim_bring::calculon::{AttentionProjections, Calculon, CalculonOverlap, Recompute, TensorComm};

/// One stage of one layer: what it computes and moves, and how long that takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerPass {
    /// FLOP.
    pub flops: f64,
    /// Bytes read from and written to HBM.
    pub bytes: f64,
    /// Seconds of compute alone.
    pub flops_time: f64,
    /// Seconds of memory traffic alone.
    pub memory_time: f64,
    /// Seconds of processing: both combined, plus what overlapped communication slows it down. Zero for a collective
    /// that runs alone: its compute counts as communication.
    pub time: f64,
}

/// The treatment of a layer by recomputation and storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Computed again in the backward pass.
    pub recomputed: bool,
    /// Communicates again in the backward pass.
    pub recommunicated: bool,
    /// Its activation does not count as working space.
    pub not_working: bool,
    /// Its activation is not stored.
    pub not_stored: bool,
    /// Its output is dropped and recomputed.
    pub output_dropped: bool,
}

/// One layer of a block, for one micro-batch on one processor.
#[derive(Clone, Copy, Debug)]
pub struct CalculonLayer {
    /// Calculon's name of the layer.
    pub name: &'static str,
    /// Counts.
    pub shape: LayerShape,
    /// Recomputation and storage.
    pub flags: Flags,
    /// Forward pass.
    pub forward: LayerPass,
    /// Activation gradient.
    pub agrad: LayerPass,
    /// Weight gradient.
    pub wgrad: LayerPass,
    /// Optimizer, once per step.
    pub optimizer: LayerPass,
    /// Tensor-parallel collectives.
    pub comm: LayerComm,
    /// True if it computes in tiles that overlap its collective.
    pub tiled: bool,
    /// Weight bytes.
    pub weight_bytes: f64,
    /// Gradient bytes in the number format, over D.
    pub weight_grad_bytes: f64,
    /// Gradient bytes of the fp32 working copy.
    pub weight_grad_fp32_bytes: f64,
    /// Optimizer state bytes over D: 8 a parameter, and 4 for the master copy of formats below four bytes.
    pub optimizer_bytes: f64,
    /// Bytes of its output.
    pub output_bytes: f64,
}

/// The sizes that all layers of a block are made from.
struct BlockInputs<'a> {
    kinds: LayerShapes,
    costs: Costs<'a>,
    group: TensorGroup<'a>,
    /// Ranks over which the optimizer is sharded, D.
    shards: f64,
    list: Vec<CalculonLayer>,
}

/// Sizes that the layer list is written in.
struct LayerSizes {
    hidden: f64,
    feedforward: f64,
    seq: f64,
    heads: f64,
    head: f64,
    /// Tokens of a micro-batch, x = b·s.
    tokens: f64,
    batch: f64,
    t: f64,
    /// A = x·h.
    act: f64,
    /// A' = (x div t)·h with sequence parallelism, else A.
    act_seq: f64,
}

/// The layers of one block in order of the forward pass, `published` or repaired.
pub fn layers(case: &Calculon, published: bool) -> Vec<CalculonLayer> {
    let (app, exe) = (&case.app, &case.exe);
    let tokens = exe.microbatch_size as f64 * app.seq_size as f64;
    let (hidden, t) = (app.hidden as f64, exe.tensor_par as f64);
    let act = tokens * hidden;
    let rs_ag = exe.tensor_par_comm_type == TensorComm::RsAg;
    let sizes = LayerSizes {
        hidden,
        feedforward: app.feedforward as f64,
        seq: app.seq_size as f64,
        heads: app.attn_heads as f64,
        head: app.attn_size as f64,
        tokens,
        batch: exe.microbatch_size as f64,
        t,
        act,
        act_seq: if rs_ag { (tokens / t).floor() * hidden } else { act },
    };
    let beta = exe.datatype.bytes() as f64;
    let costs = Costs::new(case);
    let mut block = BlockInputs {
        kinds: LayerShapes { beta },
        costs,
        group: TensorGroup::new(case, costs, act, beta, published),
        shards: if exe.optimizer_sharding { exe.data_par as f64 } else { 1.0 },
        list: Vec::with_capacity(24),
    };
    let flags = Recomputation::new(case);
    block.attention(case, &sizes, &flags);
    block.mlp(case, &sizes, &flags);
    block.list
}

/// The three conditions that flags of layers depend on.
struct Recomputation {
    /// Full recomputation.
    full: bool,
    /// Full or selective recomputation.
    attention: bool,
    /// All-gather repeated.
    redo: bool,
}

impl Recomputation {
    fn new(case: &Calculon) -> Recomputation {
        let exe = &case.exe;
        Recomputation {
            full: exe.activation_recompute == Recompute::Full,
            attention: exe.activation_recompute != Recompute::None,
            redo: exe.seq_par_ag_redo,
        }
    }
    /// Kept and recomputed with the whole block.
    fn kept(&self) -> Flags {
        Flags { recomputed: self.full, ..Flags::default() }
    }
    /// As `kept`, but neither working space nor stored: its input stands in for it.
    fn passing(&self) -> Flags {
        Flags { not_stored: true, not_working: true, ..self.kept() }
    }
    /// Recomputed with full and with selective recomputation.
    fn selective(&self) -> Flags {
        Flags { recomputed: self.attention, ..Flags::default() }
    }
    /// A collective at the end of a region.
    fn reduction(&self) -> Flags {
        Flags { recommunicated: self.full, not_stored: true, ..Flags::default() }
    }
}

impl BlockInputs<'_> {
    /// Adds a layer that does not communicate.
    fn push(&mut self, name: &'static str, shape: LayerShape, flags: Flags) {
        let stages = self.stages(&shape);
        self.add(name, shape, flags, stages, LayerComm::default(), false);
    }
    /// Adds a collective that runs alone: its compute is part of the communication.
    fn push_collective(&mut self, name: &'static str, elements: f64, side: RegionSide, flags: Flags) {
        let rs_ag = self.group.comm == TensorComm::RsAg;
        let shape = self.kinds.collective(elements, self.group.t as f64, side == RegionSide::Gather, rs_ag);
        let stages = self.stages(&shape);
        let comm = self.group.alone(side, flags.recommunicated, stages.map(|stage| stage.time));
        let stages = stages.map(|stage| LayerPass { time: 0.0, ..stage });
        self.add(name, shape, flags, stages, comm, false);
    }
    /// Adds a GEMM in tiles that overlaps its collective.
    fn push_tiled(&mut self, name: &'static str, (m, n, k): (f64, f64, f64), side: RegionSide, flags: Flags) {
        let t = self.group.t as f64;
        let rs_ag = self.group.comm == TensorComm::RsAg;
        let shape = match (side, rs_ag) {
            (RegionSide::Gather, true) => self.kinds.linear_keeping(m, n, k, (m * n / t).floor(), m * k),
            (RegionSide::Gather, false) => self.kinds.linear_keeping(m, n, k, m * n, 0.0),
            (RegionSide::Reduce, true) => {
                self.kinds.linear_keeping(m, n, k, m * n, 2.0 * (m * k / t).floor())
            }
            (RegionSide::Reduce, false) => self.kinds.linear_keeping(m, n, k, 0.0, 2.0 * m * k),
        };
        let (times, comm) = self.group.tiled(side, flags.recommunicated, &shape);
        let mut stages = self.stages(&shape);
        for (stage, time) in stages.iter_mut().zip(times) {
            stage.time = time;
        }
        self.add(name, shape, flags, stages, comm, true);
    }

    /// Forward and both gradients of a layer that has the processor to itself.
    fn stages(&self, shape: &LayerShape) -> [LayerPass; 3] {
        let engine = match shape.unit {
            EngineKind::Matrix => &self.costs.matrix,
            EngineKind::Vector => &self.costs.vector,
        };
        [FORWARD, AGRAD, WGRAD].map(|index| {
            let (flops, bytes) = (shape.flops[index], shape.bytes[index]);
            let (flops_time, memory_time) = (engine.time(flops), self.costs.memory.time(bytes));
            let time = self.costs.combine(flops_time, memory_time);
            LayerPass { flops, bytes, flops_time, memory_time, time }
        })
    }

    fn add(
        &mut self,
        name: &'static str,
        shape: LayerShape,
        flags: Flags,
        [forward, agrad, wgrad]: [LayerPass; 3],
        comm: LayerComm,
        tiled: bool,
    ) {
        let beta = self.kinds.beta;
        let optimizer = self.adam(shape.weights);
        self.list.push(CalculonLayer {
            name,
            shape,
            flags,
            forward,
            agrad,
            wgrad,
            optimizer,
            comm,
            tiled,
            weight_bytes: shape.weights * beta,
            weight_grad_bytes: shape.weights * beta / self.shards,
            weight_grad_fp32_bytes: shape.weights * 4.0,
            optimizer_bytes: optimizer.bytes,
            output_bytes: shape.outputs * beta,
        });
    }

    /// Adam on w weights over D shards: 11 FLOP a weight; 8 bytes of moments, and 4 of master copy below fp32.
    fn adam(&self, weights: f64) -> LayerPass {
        if weights == 0.0 {
            return LayerPass::default();
        }
        let state = if self.kinds.beta < 4.0 { 12.0 } else { 8.0 };
        let (flops, bytes) = (11.0 * weights / self.shards, state * weights / self.shards);
        let (flops_time, memory_time) = (self.costs.vector.time(flops), self.costs.memory.time(bytes));
        LayerPass { flops, bytes, flops_time, memory_time, time: self.costs.combine(flops_time, memory_time) }
    }

    fn attention(&mut self, case: &Calculon, s: &LayerSizes, r: &Recomputation) {
        let k = self.kinds;
        let scores = s.heads / s.t * s.seq * s.seq * s.batch;
        let heads = s.batch * s.heads / s.t;
        self.push("AttnBlock_Fork", k.fork(s.act_seq, 2.0), r.kept());
        self.push("AttnBlock_LayerNorm", k.layer_norm(s.act_seq, s.hidden), r.passing());
        self.attention_input(case, s, r);
        self.push(
            "AttnBlock_Multihead_Key_Query",
            k.batch_matmul(heads, s.seq, s.head, s.seq),
            Flags { output_dropped: r.attention, ..r.selective() },
        );
        self.push(
            "AttnBlock_Multihead_SoftMax",
            k.softmax(scores),
            Flags { output_dropped: r.attention, ..r.selective() },
        );
        self.push(
            "AttnBlock_Multihead_DropOut",
            k.dropout(scores),
            Flags { not_stored: r.attention, ..r.selective() },
        );
        self.push("AttnBlock_Multihead_Attn", k.batch_matmul(heads, s.seq, s.seq, s.head), r.kept());
        let (rows, inner) = (s.tokens, s.heads * s.head / s.t);
        if self.group.overlap == CalculonOverlap::None {
            self.push("AttnBlock_MLP", k.linear(rows, inner, s.hidden), r.kept());
            self.push_collective("AttnBlock_G", s.act, RegionSide::Reduce, r.reduction());
        } else {
            let flags = Flags { recommunicated: r.full, ..r.kept() };
            self.push_tiled("AttnBlock_MLP_RS", (rows, inner, s.hidden), RegionSide::Reduce, flags);
        }
        self.push("AttnBlock_DropOut", k.dropout(s.act_seq), r.kept());
        self.push("AttnBlock_Residual", k.add(s.act_seq), r.passing());
    }

    /// From F to the query, key and value projections.
    fn attention_input(&mut self, case: &Calculon, s: &LayerSizes, r: &Recomputation) {
        let k = self.kinds;
        let multiquery = case.exe.attention_type == AttentionProjections::Multiquery;
        let (rows, heads) = (s.tokens, s.heads * s.head / s.t);
        let key = if multiquery { s.head } else { heads };
        let again = r.attention || r.redo;
        let fork = Flags { recomputed: again, not_stored: again, ..Flags::default() };
        if self.group.overlap == CalculonOverlap::None {
            let gather = Flags { recommunicated: again, ..Flags::default() };
            self.push_collective("AttnBlock_F", s.act, RegionSide::Gather, gather);
            self.push("AttnBlock_Multihead_Fork", k.fork(s.act, 3.0), fork);
            self.push("AttnBlock_Query", k.linear(rows, s.hidden, heads), r.passing());
        } else {
            let flags = Flags { recommunicated: again, ..r.kept() };
            if !multiquery {
                self.push_tiled("AttnBlock_QKV_AG", (rows, s.hidden, 3.0 * heads), RegionSide::Gather, flags);
                return;
            }
            self.push_tiled("AttnBlock_Query_AG", (rows, s.hidden, heads), RegionSide::Gather, flags);
            self.push("AttnBlock_Multihead_Fork", k.fork(s.act, 2.0), fork);
        }
        self.push("AttnBlock_Key", k.linear(rows, s.hidden, key), r.passing());
        self.push("AttnBlock_Value", k.linear(rows, s.hidden, key), r.passing());
    }

    fn mlp(&mut self, case: &Calculon, s: &LayerSizes, r: &Recomputation) {
        let k = self.kinds;
        let (rows, inner) = (s.tokens, s.feedforward / s.t);
        let again = r.full || r.redo;
        let tiled = self.group.overlap != CalculonOverlap::None;
        self.push("MlpBlock_Fork", k.fork(s.act_seq, 2.0), r.kept());
        self.push("MlpBlock_LayerNorm", k.layer_norm(s.act_seq, s.hidden), r.passing());
        if tiled {
            let flags = Flags { recommunicated: again, ..r.kept() };
            self.push_tiled("MlpBlock_Mlp1_AG", (rows, s.hidden, inner), RegionSide::Gather, flags);
        } else {
            let gather = Flags { recommunicated: again, ..Flags::default() };
            self.push_collective("MlpBlock_F", s.act, RegionSide::Gather, gather);
            let flags = Flags { not_stored: again, ..r.kept() };
            self.push("MlpBlock_Mlp1", k.linear(rows, s.hidden, inner), flags);
        }
        self.push(
            "MlpBlock_GeLU",
            k.gelu(s.feedforward * s.tokens / s.t, case.exe.fused_activation),
            r.kept(),
        );
        if tiled {
            let flags = Flags { recommunicated: r.full, ..r.kept() };
            self.push_tiled("MlpBlock_Mlp2_RS", (rows, inner, s.hidden), RegionSide::Reduce, flags);
        } else {
            self.push("MlpBlock_Mlp2", k.linear(rows, inner, s.hidden), r.kept());
            self.push_collective("MlpBlock_G", s.act, RegionSide::Reduce, r.reduction());
        }
        self.push("MlpBlock_DropOut", k.dropout(s.act_seq), r.kept());
        self.push("MlpBlock_Residual", k.add(s.act_seq), r.passing());
    }
}
