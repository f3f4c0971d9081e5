//! The eleven terms whose sum is the step time (restatement §2.5 to §2.8).

use super::block::Block;
use super::data_parallel::DataParallel;
use super::pipeline::Pipeline;

/// Seconds of one step, term by term.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
    /// Forward compute.
    pub forward: f64,
    /// Backward compute, both gradients.
    pub backward: f64,
    /// Optimizer.
    pub optimizer: f64,
    /// Offload that forward blocks do not hide.
    pub forward_offload: f64,
    /// Offload that backward blocks do not hide.
    pub backward_offload: f64,
    /// Recomputation.
    pub recompute: f64,
    /// Repeated collectives not hidden.
    pub recommunication: f64,
    /// Pipeline bubble.
    pub bubble: f64,
    /// Tensor-parallel collectives not hidden.
    pub tensor_parallel: f64,
    /// Point-to-point transfers.
    pub pipeline_parallel: f64,
    /// Data-parallel communication not hidden.
    pub data_parallel: f64,
}

impl Terms {
    /// All terms of a step.
    pub fn new(block: &Block, pipeline: &Pipeline, dp: &DataParallel, training: bool) -> Terms {
        Terms {
            forward: forward(block, pipeline),
            backward: backward(block, pipeline),
            optimizer: optimizer(block, pipeline),
            forward_offload: forward_offload(pipeline),
            backward_offload: backward_offload(pipeline),
            recompute: recompute(block, pipeline),
            recommunication: recommunication(block, pipeline),
            bubble: pipeline.bubble,
            tensor_parallel: tensor_parallel(block, pipeline),
            pipeline_parallel: pipeline.p2p_time(training),
            data_parallel: dp.exposed_time,
        }
    }
    /// Every term with its name.
    pub fn named(&self) -> [(&'static str, f64); 11] {
        [
            ("forward", self.forward),
            ("backward", self.backward),
            ("optimizer", self.optimizer),
            ("forward offload, exposed", self.forward_offload),
            ("backward offload, exposed", self.backward_offload),
            ("recompute", self.recompute),
            ("re-communication, exposed", self.recommunication),
            ("pipeline bubble", self.bubble),
            ("tensor parallel, exposed", self.tensor_parallel),
            ("pipeline parallel, exposed", self.pipeline_parallel),
            ("data parallel, exposed", self.data_parallel),
        ]
    }
    /// Seconds of the step: exactly the sum of the terms.
    pub fn total(&self) -> f64 {
        self.named().iter().map(|term| term.1).sum()
    }
}

/// Blocks of one processor times micro-batches, n·M.
fn blocks(p: &Pipeline) -> f64 {
    p.counts.blocks * p.counts.microbatches
}
/// n·M·(forward of a block).
fn forward(b: &Block, p: &Pipeline) -> f64 {
    blocks(p) * b.forward.time
}
/// n·M·(activation gradient + weight gradient of a block).
fn backward(b: &Block, p: &Pipeline) -> f64 {
    blocks(p) * (b.agrad.time + b.wgrad.time)
}
/// n·(optimizer of a block): once per step.
fn optimizer(b: &Block, p: &Pipeline) -> f64 {
    p.counts.blocks * b.optimizer.time
}
/// M·V·((q − 1)·base + edge) of what forward blocks wait for the offload link.
fn forward_offload(p: &Pipeline) -> f64 {
    p.counts.step(p.offload.forward_overhead)
}
/// The same backward; optimizer state that moves once adds one round of the chunks.
fn backward_offload(p: &Pipeline) -> f64 {
    let once = p.counts.chunks * p.offload.optimizer_overhead.chunk(p.counts.chunk_blocks);
    p.counts.step(p.offload.backward_overhead) + once
}
/// n·M·(forward of the recomputed layers).
fn recompute(b: &Block, p: &Pipeline) -> f64 {
    blocks(p) * b.recompute.time
}
/// M·V·((q − 1)·base + edge) of the exposed repeated collectives.
fn recommunication(b: &Block, p: &Pipeline) -> f64 {
    p.counts.step(b.redo_comm.exposed_time)
}
/// M·V·((q − 1)·base + edge) of the exposed collectives, forward and backward.
fn tensor_parallel(b: &Block, p: &Pipeline) -> f64 {
    p.counts.step(b.forward_comm.exposed_time) + p.counts.step(b.agrad_comm.exposed_time)
}
