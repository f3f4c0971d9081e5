//! Calculon's 96 outputs under its own names.
//!
//! `block_*`, `baseblock_*` and `edgeblock_*` are one block on one processor for one micro-batch; everything else is
//! one processor and one step.

use super::CalculonEstimate;

/// The quantity that an output counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    Bandwidth,
    /// Floating-point operations.
    Flop,
    /// A share of one.
    Ratio,
    /// Per second.
    Rate,
}

/// The outputs: each with its name, what it counts, and how it follows from an estimate that is taken apart first.
macro_rules! outputs {
    ($estimate:pat => $($(#[doc = $doc:literal])+ $field:ident: $quantity:ident = $value:expr,)+) => {
        /// Every scalar that Calculon writes for one step.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Outputs {
            $($(#[doc = $doc])+ pub $field: f64,)+
        }

        impl Outputs {
            /// Names and quantities in the order in which Calculon writes them.
            pub const FIELDS: [(&'static str, Quantity); 96] = [$((stringify!($field), Quantity::$quantity)),+];

            /// The values in the order of [`Outputs::FIELDS`].
            pub fn values(&self) -> [f64; 96] {
                [$(self.$field),+]
            }
        }

        impl CalculonEstimate {
            /// Calculon's 96 outputs.
            pub fn outputs(&self) -> Outputs {
                let $estimate = self;
                Outputs { $($field: $value),+ }
            }
        }
    };
}

outputs! {
    CalculonEstimate { block, pipeline, data_parallel: dp, memory, terms, efficiency, training, .. } =>
    /// FLOP of one block, forward.
    block_fw_flops: Flop = block.forward.flops,
    /// Compute alone of one block, forward.
    block_fw_flops_time: Seconds = block.forward.flops_time,
    /// HBM bytes of one block, forward.
    block_fw_mem_accessed: Bytes = block.forward.bytes,
    /// HBM traffic alone of one block, forward.
    block_fw_mem_time: Seconds = block.forward.memory_time,
    /// Processing of one block, forward.
    block_fw_time: Seconds = block.forward.time,
    /// Link time of the forward collectives of a base block.
    baseblock_fw_tp_time: Seconds = block.forward_comm.link_time.base,
    /// Link time of the forward collectives of a edge block.
    edgeblock_fw_tp_time: Seconds = block.forward_comm.link_time.edge,
    /// Exposed time of the forward collectives of a base block.
    baseblock_fw_tp_time_exposed: Seconds = block.forward_comm.exposed_time.base,
    /// Exposed time of the forward collectives of a edge block.
    edgeblock_fw_tp_time_exposed: Seconds = block.forward_comm.exposed_time.edge,
    /// FLOP of one block, recomputation.
    block_re_flops: Flop = block.recompute.flops,
    /// Compute alone of one block, recomputation.
    block_re_flops_time: Seconds = block.recompute.flops_time,
    /// HBM bytes of one block, recomputation.
    block_re_mem_accessed: Bytes = block.recompute.bytes,
    /// HBM traffic alone of one block, recomputation.
    block_re_mem_time: Seconds = block.recompute.memory_time,
    /// Processing of one block, recomputation.
    block_re_time: Seconds = block.recompute.time,
    /// Link time of the repeated collectives of a base block.
    baseblock_recomm_time: Seconds = block.redo_comm.link_time.base,
    /// Link time of the repeated collectives of a edge block.
    edgeblock_recomm_time: Seconds = block.redo_comm.link_time.edge,
    /// Exposed time of the repeated collectives of a base block.
    baseblock_recomm_time_exposed: Seconds = block.redo_comm.exposed_time.base,
    /// Exposed time of the repeated collectives of a edge block.
    edgeblock_recomm_time_exposed: Seconds = block.redo_comm.exposed_time.edge,
    /// FLOP of one block, activation gradient.
    block_agrad_flops: Flop = block.agrad.flops,
    /// Compute alone of one block, activation gradient.
    block_agrad_flops_time: Seconds = block.agrad.flops_time,
    /// HBM bytes of one block, activation gradient.
    block_agrad_mem_accessed: Bytes = block.agrad.bytes,
    /// HBM traffic alone of one block, activation gradient.
    block_agrad_mem_time: Seconds = block.agrad.memory_time,
    /// Processing of one block, activation gradient.
    block_agrad_time: Seconds = block.agrad.time,
    /// Link time of the backward collectives of a base block.
    baseblock_agrad_tp_time: Seconds = block.agrad_comm.link_time.base,
    /// Link time of the backward collectives of a edge block.
    edgeblock_agrad_tp_time: Seconds = block.agrad_comm.link_time.edge,
    /// Exposed time of the backward collectives of a base block.
    baseblock_agrad_tp_time_exposed: Seconds = block.agrad_comm.exposed_time.base,
    /// Exposed time of the backward collectives of a edge block.
    edgeblock_agrad_tp_time_exposed: Seconds = block.agrad_comm.exposed_time.edge,
    /// FLOP of one block, weight gradient.
    block_wgrad_flops: Flop = block.wgrad.flops,
    /// Compute alone of one block, weight gradient.
    block_wgrad_flops_time: Seconds = block.wgrad.flops_time,
    /// HBM bytes of one block, weight gradient.
    block_wgrad_mem_accessed: Bytes = block.wgrad.bytes,
    /// HBM traffic alone of one block, weight gradient.
    block_wgrad_mem_time: Seconds = block.wgrad.memory_time,
    /// Processing of one block, weight gradient.
    block_wgrad_time: Seconds = block.wgrad.time,
    /// FLOP of one block, optimizer.
    block_optim_flops: Flop = block.optimizer.flops,
    /// Compute alone of one block, optimizer.
    block_optim_flops_time: Seconds = block.optimizer.flops_time,
    /// HBM bytes of one block, optimizer.
    block_optim_mem_accessed: Bytes = block.optimizer.bytes,
    /// HBM traffic alone of one block, optimizer.
    block_optim_mem_time: Seconds = block.optimizer.memory_time,
    /// Processing of one block, optimizer.
    block_optim_time: Seconds = block.optimizer.time,
    /// Bytes of the forward collectives of a base block.
    baseblock_fw_tp_size: Bytes = block.forward_comm.bytes.base,
    /// Bytes of the forward collectives of a edge block.
    edgeblock_fw_tp_size: Bytes = block.forward_comm.bytes.edge,
    /// Bytes of the backward collectives of a base block.
    baseblock_bw_tp_size: Bytes = block.agrad_comm.bytes.base,
    /// Bytes of the backward collectives of a edge block.
    edgeblock_bw_tp_size: Bytes = block.agrad_comm.bytes.edge,
    /// Bytes of the repeated collectives of a base block.
    baseblock_recomm_size: Bytes = block.redo_comm.bytes.base,
    /// Bytes of the repeated collectives of a edge block.
    edgeblock_recomm_size: Bytes = block.redo_comm.bytes.edge,
    /// Bytes sent to the next stage by one micro-batch.
    block_fw_pp_size: Bytes = pipeline.forward_bytes,
    /// Bytes sent to the previous stage by one micro-batch.
    block_bw_pp_size: Bytes = pipeline.backward_bytes,
    /// Data-parallel bytes of one block.
    block_dp_size: Bytes = dp.block_bytes,
    /// Tensor-parallel bandwidth that tiled overlap hides.
    tp_bw_overlap_req: Bandwidth = block.tp_bandwidth_to_hide,
    /// Data-parallel bandwidth that hides all chunks but the last.
    dp_bw_overlap_req_chunk: Bandwidth = dp.chunk_bandwidth,
    /// Data-parallel bandwidth that hides the last chunk.
    dp_bw_overlap_req_tail: Bandwidth = dp.tail_bandwidth,
    /// One block: weights.
    block_weight_space: Bytes = block.bytes.weights,
    /// One block: activations while it computes.
    block_act_working_space: Bytes = block.bytes.working,
    /// One block: stored activations.
    block_act_storage_space: Bytes = block.bytes.stored,
    /// One block: its input, kept with full recomputation.
    block_act_checkpoint_size: Bytes = block.bytes.checkpoint,
    /// One block: weight gradients in the number format, sharded.
    block_weight_grad_space: Bytes = block.bytes.weight_grads,
    /// One block: fp32 weight gradients, not sharded.
    block_weight_grad_space_no_sharding: Bytes = block.bytes.weight_grads_fp32,
    /// One block: activation gradients.
    block_act_grad_space: Bytes = block.bytes.activation_grads,
    /// One block: optimizer state.
    block_optimizer_space: Bytes = block.bytes.optimizer,
    /// One processor: weights left in tier 1 when offloaded.
    weight_space_with_offload: Bytes = memory.when_offloaded.weights,
    /// One processor: activations left in tier 1 when offloaded.
    act_space_with_offload: Bytes = memory.when_offloaded.activations,
    /// One processor: kept block inputs left in tier 1 when offloaded. NaN in inference, null in a report.
    act_checkpoint_size_with_offload: Bytes = if *training { memory.when_offloaded.checkpoints } else { f64::NAN },
    /// One processor: activation gradients left in tier 1 when offloaded.
    act_grad_space_with_offload: Bytes = memory.when_offloaded.activation_grads,
    /// One processor: weight gradients left in tier 1 when offloaded.
    weight_grad_space_with_offload: Bytes = memory.when_offloaded.weight_grads,
    /// One processor: optimizer state left in tier 1 when offloaded.
    optimizer_space_with_offload: Bytes = memory.when_offloaded.optimizer,
    /// One processor: weights.
    weight_space: Bytes = memory.whole.weights,
    /// One processor: activations.
    act_space: Bytes = memory.whole.activations,
    /// One processor: kept block inputs.
    act_checkpoint_size: Bytes = memory.whole.checkpoints,
    /// One processor: activation gradients.
    act_grad_space: Bytes = memory.whole.activation_grads,
    /// One processor: weight gradients.
    weight_grad_space: Bytes = memory.whole.weight_grads,
    /// One processor: optimizer state.
    optimizer_space: Bytes = memory.whole.optimizer,
    /// Forward compute of the step.
    fw_time: Seconds = terms.forward,
    /// Backward compute of the step.
    bw_time: Seconds = terms.backward,
    /// Optimizer of the step.
    optim_step_time: Seconds = terms.optimizer,
    /// Recomputation of the step.
    recompute_time: Seconds = terms.recompute,
    /// Link time of repeated collectives.
    recomm_link_time: Seconds = pipeline.counts.step(block.redo_comm.link_time),
    /// Exposed time of repeated collectives.
    recomm_exposed_time: Seconds = terms.recommunication,
    /// Pipeline bubble.
    bubble_time: Seconds = terms.bubble,
    /// Link time of tensor-parallel collectives.
    tp_comm_link_time: Seconds =
        pipeline.counts.step(block.forward_comm.link_time) + pipeline.counts.step(block.agrad_comm.link_time),
    /// Link time of point-to-point transfers.
    pp_comm_link_time: Seconds = terms.pipeline_parallel,
    /// Link time of data-parallel communication.
    dp_comm_link_time: Seconds = dp.link_time,
    /// Exposed time of tensor-parallel collectives.
    tp_comm_exposed_time: Seconds = terms.tensor_parallel,
    /// Exposed time of point-to-point transfers.
    pp_comm_exposed_time: Seconds = terms.pipeline_parallel,
    /// Exposed time of data-parallel communication.
    dp_comm_exposed_time: Seconds = terms.data_parallel,
    /// Exposed offload, forward.
    fw_offload_exposed_time: Seconds = terms.forward_offload,
    /// Exposed offload, backward.
    bw_offload_exposed_time: Seconds = terms.backward_offload,
    /// The step: the sum of its eleven terms.
    total_time: Seconds = terms.total(),
    /// Offload bandwidth that hides stored activations within the forward pass.
    act_offload_bw_req: Bandwidth = pipeline.offload.required.activations,
    /// Offload bandwidth that hides weights within the forward pass.
    weight_offload_bw_req: Bandwidth = pipeline.offload.required.weights,
    /// Offload bandwidth that hides gradients and optimizer state within the backward pass.
    optim_offload_bw_req: Bandwidth = pipeline.offload.required.optimizer,
    /// Offload bandwidth that hides what is offloaded.
    offload_mem_bw_req: Bandwidth = pipeline.offload.required.all,
    /// Needed in tier 1 (HBM).
    proc_mem_tier1_cap_req: Bytes = memory.tier1.total(),
    /// Needed in tier 2.
    proc_mem_tier2_cap_req: Bytes = memory.tier2.total(),
    /// FLOP of one block and micro-batch without recomputation.
    useful_flops: Flop = efficiency.useful_flops,
    /// Useful FLOP at peak over forward, backward and optimizer time.
    compute_efficiency: Ratio = efficiency.compute,
    /// Forward, backward and optimizer time over the step.
    system_efficiency: Ratio = efficiency.system,
    /// Useful FLOP at peak over the step: an MFU.
    total_efficiency: Ratio = efficiency.total,
    /// Sequences per second.
    sample_rate: Rate = efficiency.sample_rate,
}

impl Outputs {
    /// One flat JSON object: whole numbers as integers, what has no value as null.
    pub fn to_json(self) -> serde_json::Map<String, serde_json::Value> {
        let names = Outputs::FIELDS.iter().map(|field| field.0.to_string());
        names.zip(self.values().map(number)).collect()
    }
}

/// Largest magnitude below which every integer is an exact `f64`.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn number(value: f64) -> serde_json::Value {
    if value.fract() == 0.0 && value.abs() < EXACT { (value as i64).into() } else { value.into() }
}
