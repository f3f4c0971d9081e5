//! Kernels as rows that wait for a time: what a measurement of a step's own kernels has to run.

use super::MeasuredRow;
use crate::model::{Direction, Kernel, KernelShape, Scaling};
use stepsim_core::kernel_class::{KernelKind, MatmulPass};
use stepsim_spec::workload::Dtype;

impl MeasuredRow {
    /// The row that times a kernel, without its time; none where rows have no words for it. A memory-bound
    /// kernel is laid out as rows of `width` elements, where that divides it.
    pub fn of(kernel: &Kernel, width: u64) -> Option<MeasuredRow> {
        let row = MeasuredRow {
            dtype: Some(format(kernel.dtype, kernel.scaling)?.into()),
            ..MeasuredRow::default()
        };
        match kernel.shape {
            KernelShape::Gemm { m, n, k, batch, accumulate } => {
                let KernelKind::Gemm(pass) = kernel.class.kind() else { return None };
                let direction = Some(word(pass).to_string());
                let sizes = MeasuredRow { m: Some(m), n: Some(n), k: Some(k), batch: Some(batch), ..row };
                Some(MeasuredRow { op: "gemm".into(), direction, accumulate: Some(accumulate), ..sizes })
            }
            KernelShape::GroupedGemm { groups, m, n, k, accumulate } => {
                let KernelKind::GroupedGemm(pass) = kernel.class.kind() else { return None };
                let direction = Some(word(pass).to_string());
                let sizes = MeasuredRow { m: Some(m), n: Some(n), k: Some(k), groups: Some(groups), ..row };
                Some(MeasuredRow {
                    op: "grouped_gemm".into(),
                    direction,
                    accumulate: Some(accumulate),
                    ..sizes
                })
            }
            KernelShape::Attention {
                batch,
                queries,
                keys,
                heads,
                kv_heads,
                qk_size,
                v_size,
                causal,
                direction,
                ..
            } if queries == keys => {
                let direction = if direction == Direction::Forward { "fwd" } else { "bwd" };
                let (batch, seq, causal) = (Some(batch), Some(queries), Some(causal));
                let (heads, kv_heads) = (Some(heads), Some(kv_heads));
                let (head_dim, v_head_dim) = (Some(qk_size), Some(v_size));
                let sizes = MeasuredRow { batch, seq, heads, kv_heads, head_dim, v_head_dim, ..row };
                Some(MeasuredRow {
                    op: "attention".into(),
                    direction: Some(direction.into()),
                    causal,
                    ..sizes
                })
            }
            KernelShape::Attention { .. } => None,
            KernelShape::Elementwise { elements } => memory_bound(kernel, elements, width, row),
        }
    }
}

/// Of the ops that mean its class the one that moves the kernel's bytes, else the first.
fn memory_bound(kernel: &Kernel, elements: u64, width: u64, row: MeasuredRow) -> Option<MeasuredRow> {
    let backward = kernel.name.contains("backward");
    let mut ops = kernel.class.measured().iter().filter(|op| op.backward.is_none_or(|own| own == backward));
    let first = ops.clone().next()?;
    let op = ops.find(|op| op.moved(elements as f64, kernel.dtype.bytes()) == kernel.bytes).unwrap_or(first);
    let n = if width > 0 && elements.is_multiple_of(width) { width } else { elements.max(1) };
    let direction = op.backward.map(|backward| if backward { "bwd" } else { "fwd" }.to_string());
    let (m, n, bytes) = (Some(elements / n), Some(n), Some(kernel.bytes));
    Some(MeasuredRow { op: op.op.into(), m: m.filter(|m| *m > 0), n, bytes, direction, ..row })
}

/// The word for the pass of a product.
fn word(pass: MatmulPass) -> &'static str {
    match pass {
        MatmulPass::Forward => "fwd",
        MatmulPass::InputGrad => "bwd (input grad)",
        MatmulPass::WeightGrad => "bwd (weight grad)",
    }
}

/// The word for a format.
fn format(dtype: Dtype, scaling: Scaling) -> Option<&'static str> {
    Some(match (dtype, scaling) {
        (Dtype::Bf16, _) => "bf16",
        (Dtype::Fp16, _) => "fp16",
        (Dtype::Fp32, _) => "fp32",
        (Dtype::Tf32, _) => "tf32",
        (Dtype::Fp8, Scaling::Tensor) => "fp8",
        (Dtype::Fp8, Scaling::Block) => "fp8 blockwise",
        (Dtype::Fp8, Scaling::Mx) => "mxfp8",
        (Dtype::Fp4, Scaling::Nv) => "nvfp4",
        _ => return None,
    })
}
