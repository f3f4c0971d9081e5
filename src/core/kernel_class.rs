//! Classes of kernels: one table.
//!
//! A class is what a price, a report and a waterfall go by: two kernels of one class, size and format cost the same.
//! The figures of a class on a device stand in the device's file (`step::spec::cost`).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Declares the classes once: variant, name in files and reports, what it is.
macro_rules! classes {
    ($($variant:ident $name:literal $about:literal,)*) => {
        /// What kind of work a kernel does.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        #[non_exhaustive]
        pub enum KernelClass {
            $(#[doc = $about] #[serde(rename = $name)] $variant,)*
        }

        impl KernelClass {
            /// All classes, in the order of a training step.
            pub const ALL: &[KernelClass] = &[$(KernelClass::$variant),*];

            /// The name in files and reports.
            pub const fn name(self) -> &'static str {
                match self { $(KernelClass::$variant => $name),* }
            }
            /// What it is, in one line.
            pub const fn about(self) -> &'static str {
                match self { $(KernelClass::$variant => $about),* }
            }
        }
    };
}

classes! {
    Gemm "gemm" "Matrix product of a forward pass (operands TN).",
    GemmInputGrad "gemm-input-grad" "Matrix product of an input gradient (operands NN).",
    GemmWeightGrad "gemm-weight-grad" "Matrix product of a weight gradient (operands NT, often added to what is there).",
    GroupedGemm "grouped-gemm" "Products of several experts in one launch, forward.",
    GroupedGemmInputGrad "grouped-gemm-input-grad" "Products of several experts in one launch, input gradient.",
    GroupedGemmWeightGrad "grouped-gemm-weight-grad" "Products of several experts in one launch, weight gradient.",
    AttentionGemm "attention-gemm" "Batched products of an attention that is not fused.",
    Scan "scan" "Products inside and between the chunks of a state space or linear attention, either way.",
    AttentionForward "attention-forward" "Fused attention, forward.",
    AttentionBackward "attention-backward" "Fused attention, backward.",
    Softmax "softmax" "Softmax and dropout of an attention that is not fused, either way.",
    Norm "norm" "Layer norm or RMS norm, forward.",
    NormBackward "norm-backward" "RMS norm, backward.",
    LayerNormBackward "layer-norm-backward" "Layer norm, backward.",
    Rotary "rotary" "Rotary embedding of queries and keys, either way.",
    Activation "activation" "Activation function of an MLP, gated or not, either way.",
    Residual "residual" "Residual additions and dropout.",
    Reduction "reduction" "Sums over tokens: gradients of biases and of norm weights by themselves.",
    Loss "loss" "Softmax and cross-entropy over the vocabulary, either way.",
    Embedding "embedding" "Rows of the embedding table, read or added to.",
    Cast "cast" "Conversion to or from a narrow format, with its scales.",
    CastTranspose "cast-transpose" "Conversion that writes the transposed copy too, or only that.",
    Amax "amax" "Largest magnitude of a tensor, for its scale.",
    Transpose "transpose" "Transposition without conversion.",
    Permute "permute" "Rows put in the order of their experts.",
    Unpermute "unpermute" "Rows of experts weighed and summed for each token.",
    Router "router" "Scores and counts of a router, beside its product.",
    TopK "top-k" "The best of each token's few scores: a router's choice of groups or experts.",
    RowMap "row-map" "Places and counts of received rows, before they are put in the order of their experts.",
    OptimizerFused "optimizer-fused" "Update of all parameters in one fused kernel.",
    OptimizerMultiTensor "optimizer-multi-tensor" "Update by a fused kernel for a list of tensors at a time.",
    OptimizerForEach "optimizer-for-each" "Update by one kernel for each operation (PyTorch's for-each).",
    GradientNorm "gradient-norm" "Norm of the gradients.",
    GradientClip "gradient-clip" "Scaling of the gradients.",
    Accumulate "accumulate" "Gradients of a micro-batch added to those before.",
    Copy "copy" "Copies and changes of layout inside device memory.",
    Other "other" "Anything else that memory bounds.",
}

impl fmt::Display for KernelClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl KernelClass {
    /// Whether it multiplies matrices.
    pub fn is_matrix(self) -> bool {
        self <= KernelClass::AttentionBackward
    }
    /// Whether it multiplies activations or gradients with weights, or with one another for the weights' gradients.
    pub fn is_gemm(self) -> bool {
        self <= KernelClass::GroupedGemmWeightGrad
    }
    /// Whether it holds products of several experts.
    pub fn is_grouped(self) -> bool {
        matches!(
            self,
            KernelClass::GroupedGemm | KernelClass::GroupedGemmInputGrad | KernelClass::GroupedGemmWeightGrad
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_written_as_it_is_called() {
        let names: std::collections::BTreeSet<&str> = KernelClass::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(names.len(), KernelClass::ALL.len());
        for class in KernelClass::ALL {
            assert_eq!(serde_json::to_value(class).unwrap(), class.name());
        }
    }
}
