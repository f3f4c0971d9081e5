use stepsim_core::kernel_class::KernelClass;
use stepsim_price::cost::measured::MeasuredRow;
use stepsim_price::model::{Kernel, Scaling};
use stepsim_spec::workload::Dtype;

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
        let row = MeasuredRow { time_ms: Some(1.0), ..MeasuredRow::of(&kernel, 1024).expect(kernel.name) };
        assert!(kernel.class != KernelClass::Activation || kernel.name.starts_with(&row.op), "{row:?}");
        let read = row.read().expect(kernel.name).kernels[0];
        let same = (read.class, read.flops, read.bytes) == (kernel.class, kernel.flops, kernel.bytes);
        let wider = kernel.class == KernelClass::GemmWeightGrad && read.flops == kernel.flops;
        assert!(same || wider, "{kernel:?} {read:?}");
    }
    let loss = Kernel::elementwise(KernelClass::Loss, "loss", 10, 40.0, Dtype::Fp32);
    assert_eq!(MeasuredRow::of(&loss, 1).map(|row| row.op), None, "rows have no word for it");
}
