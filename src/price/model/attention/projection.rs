//! Projections of the stream to heads.

use crate::model::linear::{Linear, LinearSplit};
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::{AdaptedMatrix, Fp8Gemm, RecomputeModule};

/// The recomputation that repeats queries, keys and values.
pub(super) const QKV: &[RecomputeModule] = &[RecomputeModule::Qkv];

/// One that is cut by heads; its `parts` may have adapters.
pub(super) fn projection(
    m: &ModelSpec,
    names: [&'static str; 3],
    outputs: u64,
    parts: Vec<(AdaptedMatrix, u64)>,
) -> Linear {
    let plain = Linear::new(names, m.hidden, outputs, LinearSplit::Columns, Fp8Gemm::Qkv);
    Linear { biases: m.qkv_biases(), modules: QKV, parts, ..plain }
}
