//! Calculon's 96 outputs under its own names.
//!
//! `block_*`, `baseblock_*` and `edgeblock_*` are one block on one processor for one micro-batch; everything else is
//! one processor and one step.

use super::CalculonEstimate;

use serde_json::{Map, Value};

/// An output: its name, and how it follows from an estimate.
type Output = (&'static str, fn(&CalculonEstimate) -> f64);

/// All outputs, in the order in which Calculon writes them.
const OUTPUTS: [Output; 96] = [
    // FLOP of one block, forward.
    ("block_fw_flops", |e| e.block.forward.flops),
    // Compute alone of one block, forward.
    ("block_fw_flops_time", |e| e.block.forward.flops_time),
    // HBM bytes of one block, forward.
    ("block_fw_mem_accessed", |e| e.block.forward.bytes),
    // HBM traffic alone of one block, forward.
    ("block_fw_mem_time", |e| e.block.forward.memory_time),
    // Processing of one block, forward.
    ("block_fw_time", |e| e.block.forward.time),
    // Link time of the forward collectives of a base block.
    ("baseblock_fw_tp_time", |e| e.block.forward_comm.link_time.base),
    // Link time of the forward collectives of a edge block.
    ("edgeblock_fw_tp_time", |e| e.block.forward_comm.link_time.edge),
    // Exposed time of the forward collectives of a base block.
    ("baseblock_fw_tp_time_exposed", |e| e.block.forward_comm.exposed_time.base),
    // Exposed time of the forward collectives of a edge block.
    ("edgeblock_fw_tp_time_exposed", |e| e.block.forward_comm.exposed_time.edge),
    // FLOP of one block, recomputation.
    ("block_re_flops", |e| e.block.recompute.flops),
    // Compute alone of one block, recomputation.
    ("block_re_flops_time", |e| e.block.recompute.flops_time),
    // HBM bytes of one block, recomputation.
    ("block_re_mem_accessed", |e| e.block.recompute.bytes),
    // HBM traffic alone of one block, recomputation.
    ("block_re_mem_time", |e| e.block.recompute.memory_time),
    // Processing of one block, recomputation.
    ("block_re_time", |e| e.block.recompute.time),
    // Link time of the repeated collectives of a base block.
    ("baseblock_recomm_time", |e| e.block.redo_comm.link_time.base),
    // Link time of the repeated collectives of a edge block.
    ("edgeblock_recomm_time", |e| e.block.redo_comm.link_time.edge),
    // Exposed time of the repeated collectives of a base block.
    ("baseblock_recomm_time_exposed", |e| e.block.redo_comm.exposed_time.base),
    // Exposed time of the repeated collectives of a edge block.
    ("edgeblock_recomm_time_exposed", |e| e.block.redo_comm.exposed_time.edge),
    // FLOP of one block, activation gradient.
    ("block_agrad_flops", |e| e.block.agrad.flops),
    // Compute alone of one block, activation gradient.
    ("block_agrad_flops_time", |e| e.block.agrad.flops_time),
    // HBM bytes of one block, activation gradient.
    ("block_agrad_mem_accessed", |e| e.block.agrad.bytes),
    // HBM traffic alone of one block, activation gradient.
    ("block_agrad_mem_time", |e| e.block.agrad.memory_time),
    // Processing of one block, activation gradient.
    ("block_agrad_time", |e| e.block.agrad.time),
    // Link time of the backward collectives of a base block.
    ("baseblock_agrad_tp_time", |e| e.block.agrad_comm.link_time.base),
    // Link time of the backward collectives of a edge block.
    ("edgeblock_agrad_tp_time", |e| e.block.agrad_comm.link_time.edge),
    // Exposed time of the backward collectives of a base block.
    ("baseblock_agrad_tp_time_exposed", |e| e.block.agrad_comm.exposed_time.base),
    // Exposed time of the backward collectives of a edge block.
    ("edgeblock_agrad_tp_time_exposed", |e| e.block.agrad_comm.exposed_time.edge),
    // FLOP of one block, weight gradient.
    ("block_wgrad_flops", |e| e.block.wgrad.flops),
    // Compute alone of one block, weight gradient.
    ("block_wgrad_flops_time", |e| e.block.wgrad.flops_time),
    // HBM bytes of one block, weight gradient.
    ("block_wgrad_mem_accessed", |e| e.block.wgrad.bytes),
    // HBM traffic alone of one block, weight gradient.
    ("block_wgrad_mem_time", |e| e.block.wgrad.memory_time),
    // Processing of one block, weight gradient.
    ("block_wgrad_time", |e| e.block.wgrad.time),
    // FLOP of one block, optimizer.
    ("block_optim_flops", |e| e.block.optimizer.flops),
    // Compute alone of one block, optimizer.
    ("block_optim_flops_time", |e| e.block.optimizer.flops_time),
    // HBM bytes of one block, optimizer.
    ("block_optim_mem_accessed", |e| e.block.optimizer.bytes),
    // HBM traffic alone of one block, optimizer.
    ("block_optim_mem_time", |e| e.block.optimizer.memory_time),
    // Processing of one block, optimizer.
    ("block_optim_time", |e| e.block.optimizer.time),
    // Bytes of the forward collectives of a base block.
    ("baseblock_fw_tp_size", |e| e.block.forward_comm.bytes.base),
    // Bytes of the forward collectives of a edge block.
    ("edgeblock_fw_tp_size", |e| e.block.forward_comm.bytes.edge),
    // Bytes of the backward collectives of a base block.
    ("baseblock_bw_tp_size", |e| e.block.agrad_comm.bytes.base),
    // Bytes of the backward collectives of a edge block.
    ("edgeblock_bw_tp_size", |e| e.block.agrad_comm.bytes.edge),
    // Bytes of the repeated collectives of a base block.
    ("baseblock_recomm_size", |e| e.block.redo_comm.bytes.base),
    // Bytes of the repeated collectives of a edge block.
    ("edgeblock_recomm_size", |e| e.block.redo_comm.bytes.edge),
    // Bytes sent to the next stage by one micro-batch.
    ("block_fw_pp_size", |e| e.pipeline.forward_bytes),
    // Bytes sent to the previous stage by one micro-batch.
    ("block_bw_pp_size", |e| e.pipeline.backward_bytes),
    // Data-parallel bytes of one block.
    ("block_dp_size", |e| e.data_parallel.block_bytes),
    // Tensor-parallel bandwidth that tiled overlap hides.
    ("tp_bw_overlap_req", |e| e.block.tp_bandwidth_to_hide),
    // Data-parallel bandwidth that hides all chunks but the last.
    ("dp_bw_overlap_req_chunk", |e| e.data_parallel.chunk_bandwidth),
    // Data-parallel bandwidth that hides the last chunk.
    ("dp_bw_overlap_req_tail", |e| e.data_parallel.tail_bandwidth),
    // One block: weights.
    ("block_weight_space", |e| e.block.bytes.weights),
    // One block: activations while it computes.
    ("block_act_working_space", |e| e.block.bytes.working),
    // One block: stored activations.
    ("block_act_storage_space", |e| e.block.bytes.stored),
    // One block: its input, kept with full recomputation.
    ("block_act_checkpoint_size", |e| e.block.bytes.checkpoint),
    // One block: weight gradients in the number format, sharded.
    ("block_weight_grad_space", |e| e.block.bytes.weight_grads),
    // One block: fp32 weight gradients, not sharded.
    ("block_weight_grad_space_no_sharding", |e| e.block.bytes.weight_grads_fp32),
    // One block: activation gradients.
    ("block_act_grad_space", |e| e.block.bytes.activation_grads),
    // One block: optimizer state.
    ("block_optimizer_space", |e| e.block.bytes.optimizer),
    // One processor: weights left in tier 1 when offloaded.
    ("weight_space_with_offload", |e| e.memory.when_offloaded.weights),
    // One processor: activations left in tier 1 when offloaded.
    ("act_space_with_offload", |e| e.memory.when_offloaded.activations),
    // One processor: kept block inputs left in tier 1 when offloaded. NaN in inference, null in a report.
    ("act_checkpoint_size_with_offload", |e| {
        if e.training { e.memory.when_offloaded.checkpoints } else { f64::NAN }
    }),
    // One processor: activation gradients left in tier 1 when offloaded.
    ("act_grad_space_with_offload", |e| e.memory.when_offloaded.activation_grads),
    // One processor: weight gradients left in tier 1 when offloaded.
    ("weight_grad_space_with_offload", |e| e.memory.when_offloaded.weight_grads),
    // One processor: optimizer state left in tier 1 when offloaded.
    ("optimizer_space_with_offload", |e| e.memory.when_offloaded.optimizer),
    // One processor: weights.
    ("weight_space", |e| e.memory.whole.weights),
    // One processor: activations.
    ("act_space", |e| e.memory.whole.activations),
    // One processor: kept block inputs.
    ("act_checkpoint_size", |e| e.memory.whole.checkpoints),
    // One processor: activation gradients.
    ("act_grad_space", |e| e.memory.whole.activation_grads),
    // One processor: weight gradients.
    ("weight_grad_space", |e| e.memory.whole.weight_grads),
    // One processor: optimizer state.
    ("optimizer_space", |e| e.memory.whole.optimizer),
    // Forward compute of the step.
    ("fw_time", |e| e.terms.forward),
    // Backward compute of the step.
    ("bw_time", |e| e.terms.backward),
    // Optimizer of the step.
    ("optim_step_time", |e| e.terms.optimizer),
    // Recomputation of the step.
    ("recompute_time", |e| e.terms.recompute),
    // Link time of repeated collectives.
    ("recomm_link_time", |e| e.pipeline.counts.step(e.block.redo_comm.link_time)),
    // Exposed time of repeated collectives.
    ("recomm_exposed_time", |e| e.terms.recommunication),
    // Pipeline bubble.
    ("bubble_time", |e| e.terms.bubble),
    // Link time of tensor-parallel collectives.
    ("tp_comm_link_time", |e| {
        e.pipeline.counts.step(e.block.forward_comm.link_time)
            + e.pipeline.counts.step(e.block.agrad_comm.link_time)
    }),
    // Link time of point-to-point transfers.
    ("pp_comm_link_time", |e| e.terms.pipeline_parallel),
    // Link time of data-parallel communication.
    ("dp_comm_link_time", |e| e.data_parallel.link_time),
    // Exposed time of tensor-parallel collectives.
    ("tp_comm_exposed_time", |e| e.terms.tensor_parallel),
    // Exposed time of point-to-point transfers.
    ("pp_comm_exposed_time", |e| e.terms.pipeline_parallel),
    // Exposed time of data-parallel communication.
    ("dp_comm_exposed_time", |e| e.terms.data_parallel),
    // Exposed offload, forward.
    ("fw_offload_exposed_time", |e| e.terms.forward_offload),
    // Exposed offload, backward.
    ("bw_offload_exposed_time", |e| e.terms.backward_offload),
    // The step: the sum of its eleven terms.
    ("total_time", |e| e.terms.total()),
    // Offload bandwidth that hides stored activations within the forward pass.
    ("act_offload_bw_req", |e| e.pipeline.offload.required.activations),
    // Offload bandwidth that hides weights within the forward pass.
    ("weight_offload_bw_req", |e| e.pipeline.offload.required.weights),
    // Offload bandwidth that hides gradients and optimizer state within the backward pass.
    ("optim_offload_bw_req", |e| e.pipeline.offload.required.optimizer),
    // Offload bandwidth that hides what is offloaded.
    ("offload_mem_bw_req", |e| e.pipeline.offload.required.all),
    // Needed in tier 1 (HBM).
    ("proc_mem_tier1_cap_req", |e| e.memory.tier1.total()),
    // Needed in tier 2.
    ("proc_mem_tier2_cap_req", |e| e.memory.tier2.total()),
    // FLOP of one block and micro-batch without recomputation.
    ("useful_flops", |e| e.efficiency.useful_flops),
    // Useful FLOP at peak over forward, backward and optimizer time.
    ("compute_efficiency", |e| e.efficiency.compute),
    // Forward, backward and optimizer time over the step.
    ("system_efficiency", |e| e.efficiency.system),
    // Useful FLOP at peak over the step: an MFU.
    ("total_efficiency", |e| e.efficiency.total),
    // Sequences per second.
    ("sample_rate", |e| e.efficiency.sample_rate),
];

impl CalculonEstimate {
    /// One flat JSON object: whole numbers as integers, what has no value as null.
    pub fn outputs(&self) -> Map<String, Value> {
        OUTPUTS.iter().map(|(name, of)| (name.to_string(), number(of(self)))).collect()
    }
}

/// Largest magnitude below which every integer is an exact `f64`.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn number(value: f64) -> serde_json::Value {
    if value.fract() == 0.0 && value.abs() < EXACT { (value as i64).into() } else { value.into() }
}
