//! How tokens travel to experts, and what runs beside that.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How tokens travel to experts and back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExpertSpec {
    /// Who sends which rows over which links.
    pub dispatcher: DispatcherKind,
    /// Formats of the rows of the four exchanges.
    pub formats: ExchangeFormats,
    /// Compute units that the dispatcher's kernels hold; default: the dispatcher's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<u32>,
    /// Rows of an expert are padded to a multiple of this; default: 1 for 16-bit products, 16 for fp8, 32 for MXFP8 and
    /// NVFP4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pad_rows_to: Option<u64>,
    /// The work that runs beside the exchanges of a micro-batch.
    pub overlap: ExpertOverlap,
}

/// Ways to bring tokens to experts (`moe::dispatch`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum DispatcherKind {
    /// A copy for each expert, straight to its rank (Megatron's all-to-all over NCCL).
    #[default]
    Alltoall,
    /// The same, over scale-up links to the rank on the destination's rail first.
    AlltoallPxn,
    /// Every token to every rank, sums back (Megatron's all-gather dispatcher).
    Allgather,
    /// One copy for each domain over the network, then one for each rank inside it (DeepEP since
    /// 22 April 2025).
    TwoStage,
    /// The same with a thread of the host that posts to the network (DeepEP's first release).
    TwoStageProxy,
    /// One copy for each rank inside an NVLink domain; across domains in two stages (HybridEP).
    Hybridep,
    /// One copy for each rank, straight to it.
    RankDedup,
}

/// Formats of rows on their way; default: 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExchangeFormats {
    /// Tokens to their experts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<RowFormat>,
    /// Results back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub combine: Option<RowFormat>,
    /// Backward of the combine: gradients of the results, to the experts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub combine_backward: Option<RowFormat>,
    /// Backward of the dispatch: gradients of the tokens, back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatch_backward: Option<RowFormat>,
}

/// Format of a row with its scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RowFormat {
    /// 2 bytes an element.
    Bf16,
    /// 1 byte an element, one fp32 scale for every 128.
    Fp8Block,
    /// 1 byte an element, one byte of scale for every 32.
    Mxfp8,
    /// Half a byte an element, one byte of scale for every 16.
    Nvfp4,
}

/// The work that runs beside the exchanges of a micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExpertOverlap {
    /// Nothing, unless the schedule pairs a forward with a backward pass (DualPipe): then the other micro-batch's
    /// kernels, weight gradients apart.
    #[default]
    None,
    /// The other pass's kernels: steady forward and backward passes of 1F1B and interleaved 1F1B are paired, weight
    /// gradients apart (Megatron's `overlap_moe_expert_parallel_comm` with `delay_wgrad_compute`). Stages need chunks
    /// for it: with one each, pairs wait for one another round the pipeline.
    MicroBatches,
    /// The same with weight gradients where they are made: the exchange behind the experts' backward waits for them.
    MicroBatchesFusedGradients,
    /// The shared expert: its first product beside the dispatch, its second beside the combine (Megatron's
    /// `moe_shared_expert_overlap`).
    SharedExpert,
}

impl ExpertOverlap {
    /// True if it pairs passes that the schedule does not.
    pub fn pairs(self) -> bool {
        matches!(self, ExpertOverlap::MicroBatches | ExpertOverlap::MicroBatchesFusedGradients)
    }
}
