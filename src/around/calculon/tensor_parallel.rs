//! Tensor-parallel communication of one layer: which collective, its time on the link, what of it is exposed
//! (restatement §2.4).
//!
//! A block has two sides: F gathers its input, G reduces its output. With sequence parallelism (`rs_ag`), and in the
//! edge block of `p2p_rs_ag`, the two are all-gather and reduce-scatter; otherwise G all-reduces forward and F
//! all-reduces backward. Every operation moves A·β bytes.

use super::costs::{Costs, NetOp, net_time};
use super::kinds::{AGRAD, EngineKind, FORWARD, LayerShape, WGRAD};
use stepsim_bring::calculon::{Calculon, CalculonOverlap, NetworkTier, TensorComm};

/// A value for base blocks and for the edge block that ends a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PerBlock<T> {
    /// Every block of a chunk but the last.
    pub base: T,
    /// The last block of a chunk: its output goes to the next stage.
    pub edge: T,
}

impl PerBlock<f64> {
    /// Sum over a chunk of q blocks: (q − 1) · base + edge.
    pub fn chunk(&self, q: f64) -> f64 {
        (q - 1.0) * self.base + self.edge
    }
    /// Both values changed alike.
    pub fn map(self, f: impl Fn(f64) -> f64) -> PerBlock<f64> {
        PerBlock { base: f(self.base), edge: f(self.edge) }
    }
    /// Sum by block kind.
    pub fn plus(self, other: PerBlock<f64>) -> PerBlock<f64> {
        PerBlock { base: self.base + other.base, edge: self.edge + other.edge }
    }
}

/// One collective of one layer and stage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TensorCollective {
    /// Message size in bytes.
    pub bytes: f64,
    /// Seconds on the link, with the reduction.
    pub link_time: f64,
    /// Seconds that compute does not hide.
    pub exposed_time: f64,
}

/// The collectives of one layer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerComm {
    /// Forward pass.
    pub forward: PerBlock<TensorCollective>,
    /// With the activation gradient.
    pub agrad: PerBlock<TensorCollective>,
    /// Repeated in the backward pass.
    pub redo: PerBlock<TensorCollective>,
}

/// The end of the tensor-parallel region that a layer stands at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionSide {
    /// F: gathers the region's input.
    Gather,
    /// G: reduces the region's output.
    Reduce,
}

/// The collective of a side, if it has one: forward (and redo) or backward, split into reduce-scatter and all-gather
/// or not.
fn operation(side: RegionSide, backward: bool, split: bool) -> Option<NetOp> {
    match ((side == RegionSide::Gather) != backward, split) {
        (true, true) => Some(NetOp::AllGather),
        (true, false) => None,
        (false, true) => Some(NetOp::ReduceScatter),
        (false, false) => Some(NetOp::AllReduce),
    }
}

/// The tensor-parallel group and what its layers need to know of the execution.
#[derive(Clone, Copy, Debug)]
pub struct TensorGroup<'a> {
    /// Elementary costs.
    pub costs: Costs<'a>,
    /// Group size t.
    pub t: u64,
    /// Elements of the exchanged activation A.
    pub elements: f64,
    /// Bytes of it.
    pub bytes: f64,
    /// Collective type.
    pub comm: TensorComm,
    /// Tiled overlap.
    pub overlap: CalculonOverlap,
    published: bool,
}

impl<'a> TensorGroup<'a> {
    /// The group of `case`.
    pub fn new(
        case: &Calculon,
        costs: Costs<'a>,
        elements: f64,
        beta: f64,
        published: bool,
    ) -> TensorGroup<'a> {
        let exe = &case.exe;
        TensorGroup {
            costs,
            t: exe.tensor_par,
            elements,
            bytes: elements * beta,
            comm: exe.tensor_par_comm_type,
            overlap: exe.tensor_par_overlap,
            published,
        }
    }
    fn net(&self) -> &'a NetworkTier {
        self.costs.nets[0]
    }
    /// True if a block of this kind splits its all-reduces.
    fn splits(&self) -> PerBlock<bool> {
        let all = self.comm == TensorComm::RsAg;
        PerBlock { base: all, edge: all || self.comm == TensorComm::P2pRsAg }
    }
    fn op(&self, side: RegionSide, backward: bool, split: bool) -> Option<NetOp> {
        if self.t > 1 { operation(side, backward, split) } else { None }
    }

    /// A collective that runs alone: T_net + Combine(T_vec(reduction FLOP), T_mem(bytes)), all of it exposed. `compute`
    /// is the layer's own Combine by stage; a repeated collective has none.
    pub fn alone(&self, side: RegionSide, recommunicated: bool, compute: [f64; 3]) -> LayerComm {
        let one = |backward: bool, split: bool, compute: f64| {
            self.op(side, backward, split).map_or(TensorCollective::default(), |op| {
                let time = net_time(self.net(), op, self.bytes, self.t) + compute;
                TensorCollective { bytes: self.bytes, link_time: time, exposed_time: time }
            })
        };
        let both = |backward: bool, compute: f64| {
            let PerBlock { base, edge } = self.splits();
            PerBlock { base: one(backward, base, compute), edge: one(backward, edge, compute) }
        };
        LayerComm {
            forward: both(false, compute[FORWARD]),
            agrad: both(true, compute[AGRAD]),
            redo: if recommunicated { both(false, compute[WGRAD]) } else { PerBlock::default() },
        }
    }

    /// T_net, and the reduction of what arrives: T_vec(A (t − 1) / t).
    fn tiled_comm(&self, op: Option<NetOp>, reduction: bool) -> TensorCollective {
        let Some(op) = op else { return TensorCollective::default() };
        let mut link_time = net_time(self.net(), op, self.bytes, self.t);
        if reduction && op.reduces() {
            let t = self.t as f64;
            link_time += self.costs.vector.time(self.elements * (t - 1.0) / t);
        }
        TensorCollective { bytes: self.bytes, link_time, exposed_time: 0.0 }
    }

    /// A GEMM in t tiles that overlaps its collective. Returns processing time by stage and the collectives.
    pub fn tiled(&self, side: RegionSide, recommunicated: bool, shape: &LayerShape) -> ([f64; 3], LayerComm) {
        assert_eq!(shape.unit, EngineKind::Matrix);
        let stage = |backward: bool, redo: bool, index: usize| {
            let PerBlock { base, edge } = self.splits();
            let comm = |split| {
                if redo && !recommunicated {
                    return TensorCollective::default();
                }
                self.tiled_comm(self.op(side, backward, split), !redo)
            };
            self.tiled_stage(shape.flops[index], shape.bytes[index], comm(base), comm(edge))
        };
        let (forward_time, forward) = stage(false, false, FORWARD);
        let (agrad_time, agrad) = stage(true, false, AGRAD);
        let (wgrad_time, mut redo) = stage(false, true, WGRAD);
        if recommunicated && self.published {
            redo.base.exposed_time = forward.base.exposed_time;
            redo.edge.exposed_time = forward.edge.exposed_time;
        }
        ([forward_time, agrad_time, wgrad_time], LayerComm { forward, agrad, redo })
    }

    /// Processing time of one stage (the base block's for both kinds) and its collective with the exposed part.
    fn tiled_stage(
        &self,
        flops: f64,
        bytes: f64,
        base: TensorCollective,
        edge: TensorCollective,
    ) -> (f64, PerBlock<TensorCollective>) {
        let (time, base_exposed) = self.tile(flops, bytes, base.link_time);
        let edge_exposed =
            if self.published { base_exposed } else { self.tile(flops, bytes, edge.link_time).1 };
        let exposed = |comm: TensorCollective, exposed_time| TensorCollective { exposed_time, ..comm };
        (time, PerBlock { base: exposed(base, base_exposed), edge: exposed(edge, edge_exposed) })
    }

    /// Processing and exposed seconds of a GEMM in t tiles beside a collective of `nt` seconds, with
    /// F = T_mat(FLOP), Fs = F / (1 − u) slowed by the share u of compute that communication takes, C and Cs their
    /// Combine with memory time:
    ///
    /// * nt = 0: C, nothing exposed
    /// * nt > Fs: C/t + (t − 1)·Cs/t, exposed (t − 1)(nt − Fs)/t
    /// * else: C + (t − 1)·u·nt/t, nothing exposed
    ///
    /// `pipe` exposes one tile more, nt/t, which the published form adds to the processing time too.
    fn tile(&self, flops: f64, bytes: f64, nt: f64) -> (f64, f64) {
        let memory = self.costs.memory.time(bytes);
        let compute = self.costs.matrix.time(flops);
        let alone = self.costs.combine(compute, memory);
        if nt == 0.0 {
            return (alone, 0.0);
        }
        let (t, usage) = (self.t as f64, self.net().processor_usage);
        let slowed = compute / (1.0 - usage);
        let (mut time, mut exposed) = if nt > slowed {
            let slowed_layer = self.costs.combine(slowed, memory);
            (alone / t + (t - 1.0) * slowed_layer / t, (t - 1.0) * (nt - slowed) / t)
        } else {
            (alone + (t - 1.0) * usage * nt / t, 0.0)
        };
        if self.overlap == CalculonOverlap::Pipe {
            exposed += nt / t;
            if self.published {
                time += nt / t;
            }
        }
        (time, exposed)
    }

    /// Bandwidth in B/s at which a tile's transfer takes as long as its slowed GEMM: (volume / t) / (Fs / t).
    pub fn bandwidth_to_hide(&self, flops: f64, comm: &TensorCollective) -> f64 {
        let slowed = self.costs.matrix.time(flops) / (1.0 - self.net().processor_usage);
        if slowed > 0.0 { comm.bytes / slowed } else { 0.0 }
    }
}
