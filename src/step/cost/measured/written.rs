//! Kernels as rows that wait for a time: what a measurement of a step's own kernels has to run.

use super::MeasuredRow;
use crate::model::{Direction, Kernel, KernelShape, Scaling};
use crate::spec::workload::Dtype;
use stepsim_core::kernel_class::{KernelKind, MatmulPass};

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

#[cfg(test)]
mod tests {
    use super::*;
    use stepsim_core::kernel_class::KernelClass;

    /// Written and read back a kernel is what it was, in work and bytes.
    #[test]
    fn a_row_is_read_back_as_its_kernel() {
        let gemm = Kernel::gemm("g", 4096, 1024, 512, 1, Dtype::Bf16, 2.0);
        let act = |name, elements: u64, moved: f64| {
            let bytes = 2.0 * moved * elements as f64;
            Kernel::elementwise(KernelClass::Activation, name, elements, bytes, Dtype::Bf16)
        };
        let kernels = [
            gemm,
            gemm.of(KernelClass::GemmInputGrad).scaled(Scaling::Tensor),
            Kernel::weight_gradient("w", 512, 1024, 4096, Dtype::Bf16, 4.0),
            act("swiglu", 1 << 20, 3.0),
            act("gelu", 1 << 20, 2.0),
            act("swiglu backward", 1 << 20, 5.0),
            act("gelu backward", 1 << 20, 3.0),
            Kernel::elementwise(KernelClass::Residual, "r", 3000, 18_000.0, Dtype::Bf16),
            Kernel::elementwise(
                KernelClass::OptimizerFused,
                "adam",
                1 << 22,
                14.0 * f64::from(1 << 22),
                Dtype::Fp32,
            ),
        ];
        for kernel in kernels {
            let row =
                MeasuredRow { time_ms: Some(1.0), ..MeasuredRow::of(&kernel, 1024).expect(kernel.name) };
            assert!(kernel.class != KernelClass::Activation || kernel.name.starts_with(&row.op), "{row:?}");
            let read = row.read().expect(kernel.name).kernels[0];
            let same = (read.class, read.flops, read.bytes) == (kernel.class, kernel.flops, kernel.bytes);
            let wider = kernel.class == KernelClass::GemmWeightGrad && read.flops == kernel.flops;
            assert!(same || wider, "{kernel:?} {read:?}");
        }
        let loss = Kernel::elementwise(KernelClass::Loss, "loss", 10, 40.0, Dtype::Fp32);
        assert_eq!(MeasuredRow::of(&loss, 1).map(|row| row.op), None, "rows have no word for it");
    }
}
