//! Transformers as layers and kernels.
