//! Calculon's 96 outputs under its own names.
//!
//! `block_*`, `baseblock_*` and `edgeblock_*` are one block on one processor for one micro-batch; everything else is one
//! processor and one step.

/// What an output counts.
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

macro_rules! outputs {
    ($($(#[doc = $doc:literal])+ $field:ident: $quantity:ident,)+) => {
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
    };
}

outputs! {
    /// FLOP of one block, forward.
    block_fw_flops: Flop,
    /// Compute alone of one block, forward.
    block_fw_flops_time: Seconds,
    /// HBM bytes of one block, forward.
    block_fw_mem_accessed: Bytes,
    /// HBM traffic alone of one block, forward.
    block_fw_mem_time: Seconds,
    /// Processing of one block, forward.
    block_fw_time: Seconds,
    /// Link time of the forward collectives of a base block.
    baseblock_fw_tp_time: Seconds,
    /// Link time of the forward collectives of a edge block.
    edgeblock_fw_tp_time: Seconds,
    /// Exposed time of the forward collectives of a base block.
    baseblock_fw_tp_time_exposed: Seconds,
    /// Exposed time of the forward collectives of a edge block.
    edgeblock_fw_tp_time_exposed: Seconds,
    /// FLOP of one block, recomputation.
    block_re_flops: Flop,
    /// Compute alone of one block, recomputation.
    block_re_flops_time: Seconds,
    /// HBM bytes of one block, recomputation.
    block_re_mem_accessed: Bytes,
    /// HBM traffic alone of one block, recomputation.
    block_re_mem_time: Seconds,
    /// Processing of one block, recomputation.
    block_re_time: Seconds,
    /// Link time of the repeated collectives of a base block.
    baseblock_recomm_time: Seconds,
    /// Link time of the repeated collectives of a edge block.
    edgeblock_recomm_time: Seconds,
    /// Exposed time of the repeated collectives of a base block.
    baseblock_recomm_time_exposed: Seconds,
    /// Exposed time of the repeated collectives of a edge block.
    edgeblock_recomm_time_exposed: Seconds,
    /// FLOP of one block, activation gradient.
    block_agrad_flops: Flop,
    /// Compute alone of one block, activation gradient.
    block_agrad_flops_time: Seconds,
    /// HBM bytes of one block, activation gradient.
    block_agrad_mem_accessed: Bytes,
    /// HBM traffic alone of one block, activation gradient.
    block_agrad_mem_time: Seconds,
    /// Processing of one block, activation gradient.
    block_agrad_time: Seconds,
    /// Link time of the backward collectives of a base block.
    baseblock_agrad_tp_time: Seconds,
    /// Link time of the backward collectives of a edge block.
    edgeblock_agrad_tp_time: Seconds,
    /// Exposed time of the backward collectives of a base block.
    baseblock_agrad_tp_time_exposed: Seconds,
    /// Exposed time of the backward collectives of a edge block.
    edgeblock_agrad_tp_time_exposed: Seconds,
    /// FLOP of one block, weight gradient.
    block_wgrad_flops: Flop,
    /// Compute alone of one block, weight gradient.
    block_wgrad_flops_time: Seconds,
    /// HBM bytes of one block, weight gradient.
    block_wgrad_mem_accessed: Bytes,
    /// HBM traffic alone of one block, weight gradient.
    block_wgrad_mem_time: Seconds,
    /// Processing of one block, weight gradient.
    block_wgrad_time: Seconds,
    /// FLOP of one block, optimizer.
    block_optim_flops: Flop,
    /// Compute alone of one block, optimizer.
    block_optim_flops_time: Seconds,
    /// HBM bytes of one block, optimizer.
    block_optim_mem_accessed: Bytes,
    /// HBM traffic alone of one block, optimizer.
    block_optim_mem_time: Seconds,
    /// Processing of one block, optimizer.
    block_optim_time: Seconds,
    /// Bytes of the forward collectives of a base block.
    baseblock_fw_tp_size: Bytes,
    /// Bytes of the forward collectives of a edge block.
    edgeblock_fw_tp_size: Bytes,
    /// Bytes of the backward collectives of a base block.
    baseblock_bw_tp_size: Bytes,
    /// Bytes of the backward collectives of a edge block.
    edgeblock_bw_tp_size: Bytes,
    /// Bytes of the repeated collectives of a base block.
    baseblock_recomm_size: Bytes,
    /// Bytes of the repeated collectives of a edge block.
    edgeblock_recomm_size: Bytes,
    /// Bytes sent to the next stage by one micro-batch.
    block_fw_pp_size: Bytes,
    /// Bytes sent to the previous stage by one micro-batch.
    block_bw_pp_size: Bytes,
    /// Data-parallel bytes of one block.
    block_dp_size: Bytes,
    /// Tensor-parallel bandwidth that tiled overlap hides.
    tp_bw_overlap_req: Bandwidth,
    /// Data-parallel bandwidth that hides all chunks but the last.
    dp_bw_overlap_req_chunk: Bandwidth,
    /// Data-parallel bandwidth that hides the last chunk.
    dp_bw_overlap_req_tail: Bandwidth,
    /// One block: weights.
    block_weight_space: Bytes,
    /// One block: activations while it computes.
    block_act_working_space: Bytes,
    /// One block: stored activations.
    block_act_storage_space: Bytes,
    /// One block: its input, kept with full recomputation.
    block_act_checkpoint_size: Bytes,
    /// One block: weight gradients in the number format, sharded.
    block_weight_grad_space: Bytes,
    /// One block: fp32 weight gradients, not sharded.
    block_weight_grad_space_no_sharding: Bytes,
    /// One block: activation gradients.
    block_act_grad_space: Bytes,
    /// One block: optimizer state.
    block_optimizer_space: Bytes,
    /// One processor: weights left in tier 1 when offloaded.
    weight_space_with_offload: Bytes,
    /// One processor: activations left in tier 1 when offloaded.
    act_space_with_offload: Bytes,
    /// One processor: kept block inputs left in tier 1 when offloaded. NaN in inference, null in a report.
    act_checkpoint_size_with_offload: Bytes,
    /// One processor: activation gradients left in tier 1 when offloaded.
    act_grad_space_with_offload: Bytes,
    /// One processor: weight gradients left in tier 1 when offloaded.
    weight_grad_space_with_offload: Bytes,
    /// One processor: optimizer state left in tier 1 when offloaded.
    optimizer_space_with_offload: Bytes,
    /// One processor: weights.
    weight_space: Bytes,
    /// One processor: activations.
    act_space: Bytes,
    /// One processor: kept block inputs.
    act_checkpoint_size: Bytes,
    /// One processor: activation gradients.
    act_grad_space: Bytes,
    /// One processor: weight gradients.
    weight_grad_space: Bytes,
    /// One processor: optimizer state.
    optimizer_space: Bytes,
    /// Forward compute of the step.
    fw_time: Seconds,
    /// Backward compute of the step.
    bw_time: Seconds,
    /// Optimizer of the step.
    optim_step_time: Seconds,
    /// Recomputation of the step.
    recompute_time: Seconds,
    /// Link time of repeated collectives.
    recomm_link_time: Seconds,
    /// Exposed time of repeated collectives.
    recomm_exposed_time: Seconds,
    /// Pipeline bubble.
    bubble_time: Seconds,
    /// Link time of tensor-parallel collectives.
    tp_comm_link_time: Seconds,
    /// Link time of point-to-point transfers.
    pp_comm_link_time: Seconds,
    /// Link time of data-parallel communication.
    dp_comm_link_time: Seconds,
    /// Exposed time of tensor-parallel collectives.
    tp_comm_exposed_time: Seconds,
    /// Exposed time of point-to-point transfers.
    pp_comm_exposed_time: Seconds,
    /// Exposed time of data-parallel communication.
    dp_comm_exposed_time: Seconds,
    /// Exposed offload, forward.
    fw_offload_exposed_time: Seconds,
    /// Exposed offload, backward.
    bw_offload_exposed_time: Seconds,
    /// The step: the sum of its eleven terms.
    total_time: Seconds,
    /// Offload bandwidth that hides stored activations within the forward pass.
    act_offload_bw_req: Bandwidth,
    /// Offload bandwidth that hides weights within the forward pass.
    weight_offload_bw_req: Bandwidth,
    /// Offload bandwidth that hides gradients and optimizer state within the backward pass.
    optim_offload_bw_req: Bandwidth,
    /// Offload bandwidth that hides what is offloaded.
    offload_mem_bw_req: Bandwidth,
    /// Needed in tier 1 (HBM).
    proc_mem_tier1_cap_req: Bytes,
    /// Needed in tier 2.
    proc_mem_tier2_cap_req: Bytes,
    /// FLOP of one block and micro-batch without recomputation.
    useful_flops: Flop,
    /// Useful FLOP at peak over forward, backward and optimizer time.
    compute_efficiency: Ratio,
    /// Forward, backward and optimizer time over the step.
    system_efficiency: Ratio,
    /// Useful FLOP at peak over the step: an MFU.
    total_efficiency: Ratio,
    /// Sequences per second.
    sample_rate: Rate,
}

impl Outputs {
    /// One flat JSON object: whole numbers as integers, what has no value as null.
    pub fn to_json(&self) -> serde_json::Map<String, serde_json::Value> {
        let names = Outputs::FIELDS.iter().map(|field| field.0.to_string());
        names.zip(self.values().map(number)).collect()
    }
}

/// Largest magnitude below which every integer is an exact `f64`.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn number(value: f64) -> serde_json::Value {
    if value.fract() == 0.0 && value.abs() < EXACT { (value as i64).into() } else { value.into() }
}
