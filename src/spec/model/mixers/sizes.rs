//! Sizes of layers and products.

/// Parameters of a linear layer.
pub(super) fn linear(biases: bool, inputs: u64, outputs: u64) -> u64 {
    inputs * outputs + if biases { outputs } else { 0 }
}

/// A product of sizes as a float.
pub(super) fn product(sizes: &[u64]) -> f64 {
    sizes.iter().map(|size| *size as f64).product()
}
