//! Pipeline: point-to-point transfers, chunk times, bubble (restatement §2.5, §2.7).

use super::block::BlockCosts;
use super::costs::{Costs, NetOp, net_time};
use super::offload::Offload;
use super::tensor_parallel::PerBlock;
use stepsim_bring::calculon::{Calculon, TensorComm};

/// Counts of the pipeline, as floats for arithmetic with times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Stages p.
    pub stages: f64,
    /// Model chunks per processor V.
    pub chunks: f64,
    /// Micro-batches M.
    pub microbatches: f64,
    /// Blocks per processor n = ⌈N / p⌉.
    pub blocks: f64,
    /// Blocks per chunk q = n / V.
    pub chunk_blocks: f64,
    /// Blocks that the last round lacks: p − N mod p, or 0.
    pub missing: f64,
    /// M mod p.
    pub remainder: f64,
}

impl Counts {
    /// The counts of `case`.
    pub fn new(case: &Calculon) -> Counts {
        let (p, v) = (case.exe.pipeline_par, case.exe.pipeline_interleaving);
        let (n, m) = (case.blocks_per_proc(), case.microbatches());
        let over = case.app.num_blocks % p;
        Counts {
            stages: p as f64,
            chunks: v as f64,
            microbatches: m as f64,
            blocks: n as f64,
            chunk_blocks: (n / v) as f64,
            missing: if over == 0 { 0.0 } else { (p - over) as f64 },
            remainder: (m % p) as f64,
        }
    }
    /// Seconds of a step for something that every chunk of every micro-batch has: M·V·((q − 1)·base + edge).
    pub fn step(&self, block: PerBlock<f64>) -> f64 {
        self.microbatches * self.chunks * block.chunk(self.chunk_blocks)
    }
}

/// The pipeline of one step.
#[derive(Clone, Copy, Debug, Default)]
pub struct CalculonPipeline {
    /// Counts.
    pub counts: Counts,
    /// Bytes sent forward by one micro-batch.
    pub forward_bytes: f64,
    /// Bytes sent backward.
    pub backward_bytes: f64,
    /// Seconds of one forward transfer c_f.
    pub forward_p2p: f64,
    /// Seconds of one backward transfer c_b; in inference the bare latency.
    pub backward_p2p: f64,
    /// Offload beside the blocks.
    pub offload: Offload,
    /// Seconds of a forward block with offload (bf, ef).
    pub forward: PerBlock<f64>,
    /// Seconds of a backward block with offload (bb, eb).
    pub backward: PerBlock<f64>,
    /// Bubble of the step.
    pub bubble: f64,
}

impl CalculonPipeline {
    /// The pipeline of `case`, made of blocks like `block`.
    pub fn new(case: &Calculon, costs: &Costs<'_>, block: &BlockCosts, published: bool) -> CalculonPipeline {
        let counts = Counts::new(case);
        let (forward_bytes, backward_bytes) = transfers(case);
        let forward_p2p = net_time(costs.nets[1], NetOp::P2p, forward_bytes, 2);
        let backward_p2p = net_time(costs.nets[1], NetOp::P2p, backward_bytes, 2);
        let mut forward_alone = block.forward_comm.exposed_time.map(|exposed| block.forward.time + exposed);
        forward_alone.edge += forward_p2p;
        let exposed = block.redo_comm.exposed_time.plus(block.agrad_comm.exposed_time);
        let compute = block.recompute.time + block.agrad.time + block.wgrad.time;
        let mut backward_alone = exposed.map(|exposed| compute + exposed);
        backward_alone.edge += backward_p2p;
        let offload = Offload::new(case, costs, block, forward_alone, backward_alone, published);
        let forward = forward_alone.plus(offload.forward_overhead);
        let backward = backward_alone.plus(offload.backward_overhead);
        let bubble = bubble(&counts, forward, backward);
        CalculonPipeline {
            counts,
            forward_bytes,
            backward_bytes,
            forward_p2p,
            backward_p2p,
            offload,
            forward,
            backward,
            bubble,
        }
    }
    /// Seconds of one chunk's backward pass C_B.
    pub fn chunk_backward(&self) -> f64 {
        self.backward.chunk(self.counts.chunk_blocks)
    }
    /// Exposed p2p of the step: M·V·(c_f + c_b); without a pipeline none, in inference forward only.
    pub fn p2p_time(&self, training: bool) -> f64 {
        if self.counts.stages == 1.0 {
            return 0.0;
        }
        let both = self.forward_p2p + if training { self.backward_p2p } else { 0.0 };
        self.counts.microbatches * self.counts.chunks * both
    }
}

/// Bytes of one micro-batch between stages, forward and backward: A·β, or 1/t of it when the edge block's output is
/// scattered over the tensor-parallel group. None without a pipeline.
fn transfers(case: &Calculon) -> (f64, f64) {
    let (app, exe) = (&case.app, &case.exe);
    if exe.pipeline_par == 1 {
        return (0.0, 0.0);
    }
    let tokens = exe.microbatch_size as f64 * app.seq_size as f64;
    let sent = match exe.tensor_par_comm_type {
        TensorComm::Ar => tokens,
        TensorComm::P2pRsAg | TensorComm::RsAg => (tokens / exe.tensor_par as f64).floor(),
    };
    let bytes = sent * app.hidden as f64 * exe.datatype.bytes() as f64;
    (bytes, if exe.training { bytes } else { 0.0 })
}

/// Bubble of (interleaved) 1F1B with chunks of C = C_F + C_B seconds: (p − 1)·C, plus (V − 1)(p − M mod p)·C when p
/// does not divide M, minus half a block pair for every block that the last round lacks (the whole edge pair when a
/// chunk is one block).
fn bubble(n: &Counts, forward: PerBlock<f64>, backward: PerBlock<f64>) -> f64 {
    let pair = forward.plus(backward);
    let chunk = pair.chunk(n.chunk_blocks);
    let extra = if n.remainder > 0.0 { (n.chunks - 1.0) * (n.stages - n.remainder) } else { 0.0 };
    let cut = n.missing * if n.chunk_blocks > 1.0 { (pair.base + pair.edge) / 2.0 } else { pair.edge };
    (n.stages - 1.0) * chunk + extra * chunk - cut
}
