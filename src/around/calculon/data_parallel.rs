//! Data-parallel communication: link time, what the backward pass hides, bandwidth that would hide all (restatement
//! §2.8).
//!
//! Each block's gradients cross the network once per step, the chunk's blocks one by one while the last micro-batch
//! runs backward. One block is always exposed. The form hides reduce-scatter and all-gather alike behind the backward
//! pass, although the all-gather can only follow the optimizer step.

use super::block::BlockCosts;
use super::costs::{Costs, NetOp, factor, net_time};
use super::pipeline::CalculonPipeline;
use super::tensor_parallel::PerBlock;
use stepsim_bring::calculon::Calculon;

/// Data-parallel communication of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DataParallel {
    /// Bytes of one block.
    pub block_bytes: f64,
    /// Seconds on the link for one block, T_dp.
    pub block_time: f64,
    /// Seconds on the link for the step.
    pub link_time: f64,
    /// Seconds not hidden.
    pub exposed_time: f64,
    /// B/s that hide all chunks but the last.
    pub chunk_bandwidth: f64,
    /// B/s that hide the last chunk, its first block excepted.
    pub tail_bandwidth: f64,
}

impl DataParallel {
    /// None in inference and for one replica.
    pub fn new(
        case: &Calculon,
        costs: &Costs<'_>,
        block: &BlockCosts,
        pipeline: &CalculonPipeline,
        published: bool,
    ) -> DataParallel {
        let exe = &case.exe;
        if !exe.training || exe.data_par == 1 {
            return DataParallel::default();
        }
        let ops: &[NetOp] = if exe.optimizer_sharding {
            &[NetOp::ReduceScatter, NetOp::AllGather]
        } else {
            &[NetOp::AllReduce]
        };
        let (net, bytes) = (costs.nets[2], block.bytes.weights);
        let block_time = ops.iter().map(|&op| net_time(net, op, bytes, exe.data_par)).sum();
        let link_time = pipeline.counts.blocks * block_time;
        let mut dp = DataParallel {
            block_bytes: bytes,
            block_time,
            link_time,
            exposed_time: link_time,
            ..DataParallel::default()
        };
        if exe.data_par_overlap {
            let traffic: f64 = ops.iter().map(|&op| factor(net, op).0).sum();
            dp.overlap(&HidingWindows::new(case, costs, block, pipeline, published), bytes * traffic);
        }
        dp
    }

    /// exposed = T_dp + x1 + x2: one block, the first V − 1 chunks, the last chunk. In each chunk the excess g over its
    /// window counts, and where there is none, only the compute that communication takes, T·u.
    fn overlap(&mut self, w: &HidingWindows, traffic: f64) {
        let excess = |g: f64, link: f64| if g > 0.0 { g } else { link * w.usage };
        let chunk_link = w.q * self.block_time;
        let collisions =
            if w.shares_pipeline { (chunk_link / w.chunk_backward).floor().min(w.senders) } else { 0.0 };
        let window = w.p * w.chunk - collisions * w.p2p;
        let first = (w.chunks - 1.0) * excess(chunk_link - window + w.compute * w.usage, chunk_link);
        let tail_link = (w.q - 1.0) * self.block_time;
        let last = excess(tail_link + w.compute / (w.p * w.q) * w.usage - w.last, tail_link);
        self.exposed_time = self.block_time + first + last;

        let required = |window: f64| if window > 0.0 { w.q * traffic / window } else { 0.0 };
        let collision = if w.shares_pipeline { w.p2p } else { 0.0 };
        self.chunk_bandwidth = required((w.chunks - 1.0) * (w.p * w.chunk + w.compute * w.usage - collision));
        self.tail_bandwidth = required(w.last + tail_link * w.usage);
    }
}

/// The time behind which communication can hide.
struct HidingWindows {
    p: f64,
    q: f64,
    chunks: f64,
    usage: f64,
    p2p: f64,
    chunk_backward: f64,
    shares_pipeline: bool,
    /// Sends that can collide: M mod p, or p.
    senders: f64,
    /// Window of one chunk and micro-batch w_C.
    chunk: f64,
    /// Window of the last chunk w_L.
    last: f64,
    /// Compute seconds of the p·q blocks that run meanwhile.
    compute: f64,
}

impl HidingWindows {
    fn new(
        case: &Calculon,
        costs: &Costs<'_>,
        block: &BlockCosts,
        pipeline: &CalculonPipeline,
        published: bool,
    ) -> HidingWindows {
        let exe = &case.exe;
        let n = &pipeline.counts;
        let (p, q) = (n.stages, n.chunk_blocks);
        let optimizer = if exe.optimizer_sharding { 0.0 } else { 1.0 };
        let hbm = |time: f64| {
            if costs.roofline() && !published { 0.0 } else { time }
        };
        let step = optimizer * (block.optimizer.time - hbm(block.optimizer.memory_time));
        let busy = hbm(block.agrad.memory_time + block.wgrad.memory_time + block.recompute.memory_time);
        let shared_with_tensor = if exe.data_par_net == exe.tensor_par_net {
            block.redo_comm.link_time.plus(block.agrad_comm.link_time)
        } else {
            PerBlock::default()
        };
        let window =
            pipeline.backward.map(|time| time - busy + step).plus(shared_with_tensor.map(|time| -time));
        let chunk = window.chunk(q);
        let half = (pipeline.backward.base + pipeline.backward.edge) / 2.0;
        let again = if published { step } else { 0.0 };
        let flops_time = block.agrad.flops_time + block.wgrad.flops_time + block.recompute.flops_time;
        HidingWindows {
            p,
            q,
            chunks: n.chunks,
            usage: costs.nets[2].processor_usage,
            p2p: pipeline.backward_p2p,
            chunk_backward: pipeline.chunk_backward(),
            shares_pipeline: exe.data_par_net == exe.pipeline_par_net,
            senders: if n.remainder > 0.0 { n.remainder } else { p },
            chunk,
            last: if q > 1.0 { chunk - pipeline.backward_p2p - half + again } else { 0.0 },
            compute: p * q * (flops_time + optimizer * block.optimizer.flops_time),
        }
    }
}
