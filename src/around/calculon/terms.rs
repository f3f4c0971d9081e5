//! The eleven terms whose sum is the step time (restatement §2.5 to §2.8).

use super::block::BlockCosts;
use super::data_parallel::DataParallel;
use super::pipeline::CalculonPipeline;
use stepsim_core::declare::summed;

summed! {
    /// Seconds of one step, term by term.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct CalculonTerms {
        /// Forward compute.
        pub forward: f64 = "forward",
        /// Backward compute, both gradients.
        pub backward: f64 = "backward",
        /// Optimizer.
        pub optimizer: f64 = "optimizer",
        /// Offload that forward blocks do not hide.
        pub forward_offload: f64 = "forward offload, exposed",
        /// Offload that backward blocks do not hide.
        pub backward_offload: f64 = "backward offload, exposed",
        /// Recomputation.
        pub recompute: f64 = "recompute",
        /// Repeated collectives not hidden.
        pub recommunication: f64 = "re-communication, exposed",
        /// Pipeline bubble.
        pub bubble: f64 = "pipeline bubble",
        /// Tensor-parallel collectives not hidden.
        pub tensor_parallel: f64 = "tensor parallel, exposed",
        /// Point-to-point transfers.
        pub pipeline_parallel: f64 = "pipeline parallel, exposed",
        /// Data-parallel communication not hidden.
        pub data_parallel: f64 = "data parallel, exposed",
    }
}

impl CalculonTerms {
    /// All terms of a step.
    pub fn new(
        block: &BlockCosts,
        pipeline: &CalculonPipeline,
        dp: &DataParallel,
        training: bool,
    ) -> CalculonTerms {
        let counts = &pipeline.counts;
        // n·M: blocks of one processor times micro-batches.
        let blocks = counts.blocks * counts.microbatches;
        let offload = &pipeline.offload;
        // Optimizer state that moves once adds one round of the chunks.
        let once = counts.chunks * offload.optimizer_overhead.chunk(counts.chunk_blocks);
        CalculonTerms {
            forward: blocks * block.forward.time,
            backward: blocks * (block.agrad.time + block.wgrad.time),
            // Once per step.
            optimizer: counts.blocks * block.optimizer.time,
            forward_offload: counts.step(offload.forward_overhead),
            backward_offload: counts.step(offload.backward_overhead) + once,
            recompute: blocks * block.recompute.time,
            recommunication: counts.step(block.redo_comm.exposed_time),
            bubble: pipeline.bubble,
            tensor_parallel: counts.step(block.forward_comm.exposed_time)
                + counts.step(block.agrad_comm.exposed_time),
            pipeline_parallel: pipeline.p2p_time(training),
            data_parallel: dp.exposed_time,
        }
    }
}
