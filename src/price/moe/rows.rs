//! Bytes of one row on a link.

use stepsim_spec::workload::RowFormat;

/// The four exchanges of a layer with experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MoeExchange {
    /// Forward: tokens to their experts.
    Dispatch,
    /// Forward: results back.
    Combine,
    /// Backward of the combine: a dispatch of the output's gradient, with the forward's handle.
    CombineBackward,
    /// Backward of the dispatch: a combine of the input's gradient.
    DispatchBackward,
}

impl MoeExchange {
    /// All four, in the order in which a layer runs them.
    pub const ALL: [MoeExchange; 4] = [
        MoeExchange::Dispatch,
        MoeExchange::Combine,
        MoeExchange::CombineBackward,
        MoeExchange::DispatchBackward,
    ];
    /// True if rows go to experts (else back from them).
    pub fn is_dispatch(self) -> bool {
        matches!(self, MoeExchange::Dispatch | MoeExchange::CombineBackward)
    }
}

/// The data that travels beside a row's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowRule {
    /// The elements and their scales alone.
    Payload,
    /// Beside each row its probability (fp32) with the dispatch, and that one's gradient with its backward: Megatron's
    /// `alltoall`.
    WithProbability,
    /// DeepEP's packed rows: source domain and mask of ranks (8 bytes), k indices and weights with the dispatch, k
    /// weights' gradients with its backward, up to a multiple of 16 bytes.
    DeepEp,
    /// HybridEP's separate arrays: with the dispatch and its backward the fp32 probability of every expert of the
    /// domain.
    HybridEp,
}

impl RowRule {
    /// Bytes of one row of `hidden` elements; a domain holds `experts` experts, and a token visits `top_k`.
    pub fn row_bytes(
        self,
        exchange: MoeExchange,
        format: RowFormat,
        hidden: u64,
        top_k: u64,
        experts: u64,
    ) -> u64 {
        let payload = payload_bytes(format, hidden);
        let weighs = matches!(exchange, MoeExchange::Dispatch | MoeExchange::DispatchBackward);
        match self {
            RowRule::Payload => payload,
            RowRule::WithProbability => payload + if weighs { 4 } else { 0 },
            RowRule::HybridEp => payload + if weighs { 4 * experts } else { 0 },
            RowRule::DeepEp => {
                let indices = if exchange == MoeExchange::Dispatch { 4 * top_k } else { 0 };
                let weights = if weighs { 4 * top_k } else { 0 };
                (payload + 8 + indices + weights).next_multiple_of(16)
            }
        }
    }
}

/// Bytes of `hidden` elements with their scales.
pub fn payload_bytes(format: RowFormat, hidden: u64) -> u64 {
    match format {
        RowFormat::Bf16 => 2 * hidden,
        RowFormat::Fp8Block => hidden + 4 * hidden.div_ceil(128),
        RowFormat::Mxfp8 => hidden + hidden.div_ceil(32),
        RowFormat::Nvfp4 => hidden.div_ceil(2) + hidden.div_ceil(16),
    }
}
