//! Calculon's 96 outputs under its own names.
//!
//! `block_*`, `baseblock_*` and `edgeblock_*` are one block on one processor for one micro-batch; everything else is
//! one processor and one step.

use super::CalculonEstimate;

use serde_json::{Map, Value};

impl CalculonEstimate {
    /// One flat JSON object, in the order in which Calculon writes it: whole numbers as integers, what has no value as null.
    pub fn outputs(&self) -> Map<String, Value> {
        let CalculonEstimate {
            block, pipeline, data_parallel: dp, memory, terms, efficiency, training, ..
        } = self;
        let all: [(&str, f64); 96] = [
            // FLOP of one block, forward.
            ("block_fw_flops", block.forward.flops),
            // Compute alone of one block, forward.
            ("block_fw_flops_time", block.forward.flops_time),
            // HBM bytes of one block, forward.
            ("block_fw_mem_accessed", block.forward.bytes),
            // HBM traffic alone of one block, forward.
            ("block_fw_mem_time", block.forward.memory_time),
            // Processing of one block, forward.
            ("block_fw_time", block.forward.time),
            // Link time of the forward collectives of a base block.
            ("baseblock_fw_tp_time", block.forward_comm.link_time.base),
            // Link time of the forward collectives of a edge block.
            ("edgeblock_fw_tp_time", block.forward_comm.link_time.edge),
            // Exposed time of the forward collectives of a base block.
            ("baseblock_fw_tp_time_exposed", block.forward_comm.exposed_time.base),
            // Exposed time of the forward collectives of a edge block.
            ("edgeblock_fw_tp_time_exposed", block.forward_comm.exposed_time.edge),
            // FLOP of one block, recomputation.
            ("block_re_flops", block.recompute.flops),
            // Compute alone of one block, recomputation.
            ("block_re_flops_time", block.recompute.flops_time),
            // HBM bytes of one block, recomputation.
            ("block_re_mem_accessed", block.recompute.bytes),
            // HBM traffic alone of one block, recomputation.
            ("block_re_mem_time", block.recompute.memory_time),
            // Processing of one block, recomputation.
            ("block_re_time", block.recompute.time),
            // Link time of the repeated collectives of a base block.
            ("baseblock_recomm_time", block.redo_comm.link_time.base),
            // Link time of the repeated collectives of a edge block.
            ("edgeblock_recomm_time", block.redo_comm.link_time.edge),
            // Exposed time of the repeated collectives of a base block.
            ("baseblock_recomm_time_exposed", block.redo_comm.exposed_time.base),
            // Exposed time of the repeated collectives of a edge block.
            ("edgeblock_recomm_time_exposed", block.redo_comm.exposed_time.edge),
            // FLOP of one block, activation gradient.
            ("block_agrad_flops", block.agrad.flops),
            // Compute alone of one block, activation gradient.
            ("block_agrad_flops_time", block.agrad.flops_time),
            // HBM bytes of one block, activation gradient.
            ("block_agrad_mem_accessed", block.agrad.bytes),
            // HBM traffic alone of one block, activation gradient.
            ("block_agrad_mem_time", block.agrad.memory_time),
            // Processing of one block, activation gradient.
            ("block_agrad_time", block.agrad.time),
            // Link time of the backward collectives of a base block.
            ("baseblock_agrad_tp_time", block.agrad_comm.link_time.base),
            // Link time of the backward collectives of a edge block.
            ("edgeblock_agrad_tp_time", block.agrad_comm.link_time.edge),
            // Exposed time of the backward collectives of a base block.
            ("baseblock_agrad_tp_time_exposed", block.agrad_comm.exposed_time.base),
            // Exposed time of the backward collectives of a edge block.
            ("edgeblock_agrad_tp_time_exposed", block.agrad_comm.exposed_time.edge),
            // FLOP of one block, weight gradient.
            ("block_wgrad_flops", block.wgrad.flops),
            // Compute alone of one block, weight gradient.
            ("block_wgrad_flops_time", block.wgrad.flops_time),
            // HBM bytes of one block, weight gradient.
            ("block_wgrad_mem_accessed", block.wgrad.bytes),
            // HBM traffic alone of one block, weight gradient.
            ("block_wgrad_mem_time", block.wgrad.memory_time),
            // Processing of one block, weight gradient.
            ("block_wgrad_time", block.wgrad.time),
            // FLOP of one block, optimizer.
            ("block_optim_flops", block.optimizer.flops),
            // Compute alone of one block, optimizer.
            ("block_optim_flops_time", block.optimizer.flops_time),
            // HBM bytes of one block, optimizer.
            ("block_optim_mem_accessed", block.optimizer.bytes),
            // HBM traffic alone of one block, optimizer.
            ("block_optim_mem_time", block.optimizer.memory_time),
            // Processing of one block, optimizer.
            ("block_optim_time", block.optimizer.time),
            // Bytes of the forward collectives of a base block.
            ("baseblock_fw_tp_size", block.forward_comm.bytes.base),
            // Bytes of the forward collectives of a edge block.
            ("edgeblock_fw_tp_size", block.forward_comm.bytes.edge),
            // Bytes of the backward collectives of a base block.
            ("baseblock_bw_tp_size", block.agrad_comm.bytes.base),
            // Bytes of the backward collectives of a edge block.
            ("edgeblock_bw_tp_size", block.agrad_comm.bytes.edge),
            // Bytes of the repeated collectives of a base block.
            ("baseblock_recomm_size", block.redo_comm.bytes.base),
            // Bytes of the repeated collectives of a edge block.
            ("edgeblock_recomm_size", block.redo_comm.bytes.edge),
            // Bytes sent to the next stage by one micro-batch.
            ("block_fw_pp_size", pipeline.forward_bytes),
            // Bytes sent to the previous stage by one micro-batch.
            ("block_bw_pp_size", pipeline.backward_bytes),
            // Data-parallel bytes of one block.
            ("block_dp_size", dp.block_bytes),
            // Tensor-parallel bandwidth that tiled overlap hides.
            ("tp_bw_overlap_req", block.tp_bandwidth_to_hide),
            // Data-parallel bandwidth that hides all chunks but the last.
            ("dp_bw_overlap_req_chunk", dp.chunk_bandwidth),
            // Data-parallel bandwidth that hides the last chunk.
            ("dp_bw_overlap_req_tail", dp.tail_bandwidth),
            // One block: weights.
            ("block_weight_space", block.bytes.weights),
            // One block: activations while it computes.
            ("block_act_working_space", block.bytes.working),
            // One block: stored activations.
            ("block_act_storage_space", block.bytes.stored),
            // One block: its input, kept with full recomputation.
            ("block_act_checkpoint_size", block.bytes.checkpoint),
            // One block: weight gradients in the number format, sharded.
            ("block_weight_grad_space", block.bytes.weight_grads),
            // One block: fp32 weight gradients, not sharded.
            ("block_weight_grad_space_no_sharding", block.bytes.weight_grads_fp32),
            // One block: activation gradients.
            ("block_act_grad_space", block.bytes.activation_grads),
            // One block: optimizer state.
            ("block_optimizer_space", block.bytes.optimizer),
            // One processor: weights left in tier 1 when offloaded.
            ("weight_space_with_offload", memory.when_offloaded.weights),
            // One processor: activations left in tier 1 when offloaded.
            ("act_space_with_offload", memory.when_offloaded.activations),
            // One processor: kept block inputs left in tier 1 when offloaded. NaN in inference, null in a report.
            (
                "act_checkpoint_size_with_offload",
                if *training { memory.when_offloaded.checkpoints } else { f64::NAN },
            ),
            // One processor: activation gradients left in tier 1 when offloaded.
            ("act_grad_space_with_offload", memory.when_offloaded.activation_grads),
            // One processor: weight gradients left in tier 1 when offloaded.
            ("weight_grad_space_with_offload", memory.when_offloaded.weight_grads),
            // One processor: optimizer state left in tier 1 when offloaded.
            ("optimizer_space_with_offload", memory.when_offloaded.optimizer),
            // One processor: weights.
            ("weight_space", memory.whole.weights),
            // One processor: activations.
            ("act_space", memory.whole.activations),
            // One processor: kept block inputs.
            ("act_checkpoint_size", memory.whole.checkpoints),
            // One processor: activation gradients.
            ("act_grad_space", memory.whole.activation_grads),
            // One processor: weight gradients.
            ("weight_grad_space", memory.whole.weight_grads),
            // One processor: optimizer state.
            ("optimizer_space", memory.whole.optimizer),
            // Forward compute of the step.
            ("fw_time", terms.forward),
            // Backward compute of the step.
            ("bw_time", terms.backward),
            // Optimizer of the step.
            ("optim_step_time", terms.optimizer),
            // Recomputation of the step.
            ("recompute_time", terms.recompute),
            // Link time of repeated collectives.
            ("recomm_link_time", pipeline.counts.step(block.redo_comm.link_time)),
            // Exposed time of repeated collectives.
            ("recomm_exposed_time", terms.recommunication),
            // Pipeline bubble.
            ("bubble_time", terms.bubble),
            // Link time of tensor-parallel collectives.
            (
                "tp_comm_link_time",
                pipeline.counts.step(block.forward_comm.link_time)
                    + pipeline.counts.step(block.agrad_comm.link_time),
            ),
            // Link time of point-to-point transfers.
            ("pp_comm_link_time", terms.pipeline_parallel),
            // Link time of data-parallel communication.
            ("dp_comm_link_time", dp.link_time),
            // Exposed time of tensor-parallel collectives.
            ("tp_comm_exposed_time", terms.tensor_parallel),
            // Exposed time of point-to-point transfers.
            ("pp_comm_exposed_time", terms.pipeline_parallel),
            // Exposed time of data-parallel communication.
            ("dp_comm_exposed_time", terms.data_parallel),
            // Exposed offload, forward.
            ("fw_offload_exposed_time", terms.forward_offload),
            // Exposed offload, backward.
            ("bw_offload_exposed_time", terms.backward_offload),
            // The step: the sum of its eleven terms.
            ("total_time", terms.total()),
            // Offload bandwidth that hides stored activations within the forward pass.
            ("act_offload_bw_req", pipeline.offload.required.activations),
            // Offload bandwidth that hides weights within the forward pass.
            ("weight_offload_bw_req", pipeline.offload.required.weights),
            // Offload bandwidth that hides gradients and optimizer state within the backward pass.
            ("optim_offload_bw_req", pipeline.offload.required.optimizer),
            // Offload bandwidth that hides what is offloaded.
            ("offload_mem_bw_req", pipeline.offload.required.all),
            // Needed in tier 1 (HBM).
            ("proc_mem_tier1_cap_req", memory.tier1.total()),
            // Needed in tier 2.
            ("proc_mem_tier2_cap_req", memory.tier2.total()),
            // FLOP of one block and micro-batch without recomputation.
            ("useful_flops", efficiency.useful_flops),
            // Useful FLOP at peak over forward, backward and optimizer time.
            ("compute_efficiency", efficiency.compute),
            // Forward, backward and optimizer time over the step.
            ("system_efficiency", efficiency.system),
            // Useful FLOP at peak over the step: an MFU.
            ("total_efficiency", efficiency.total),
            // Sequences per second.
            ("sample_rate", efficiency.sample_rate),
        ];
        all.into_iter().map(|(name, value)| (name.to_string(), number(value))).collect()
    }
}

/// Largest magnitude below which every integer is an exact `f64`.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn number(value: f64) -> serde_json::Value {
    if value.fract() == 0.0 && value.abs() < EXACT { (value as i64).into() } else { value.into() }
}
