//! Kernels that memory bounds: bytes over what their class reaches of a copy's bandwidth, and a floor.
//!
//! The table of classes has the usual figures ([`stepsim_core::kernel_class::ClassRates`]); a device file may give
//! its own.

use super::DeviceCost;
use crate::model::Kernel;
use stepsim_core::kernel_class::KernelKind;
use stepsim_spec::kernel::Maker;

/// Seconds of a kernel that moves bytes on `left` units; of a class that multiplies, at the pace of a copy.
pub(super) fn seconds(kernel: &Kernel, device: &DeviceCost, left: u32) -> f64 {
    let KernelKind::MemoryBound(rates) = kernel.class.kind() else {
        return device.memory_s(kernel.bytes, left) / device.spec.sustained_memory;
    };
    let own = device.spec.classes.get(&kernel.class).copied().unwrap_or_default();
    let maker = if kernel.tuned { Maker::Tuned } else { device.maker };
    let fraction = match maker {
        Maker::Tuned => own.tuned.unwrap_or(rates.tuned),
        Maker::Compiled => own.compiled.unwrap_or(rates.compiled),
        Maker::Eager => own.eager.unwrap_or(rates.eager),
    };
    device.memory_s(kernel.bytes, left) / (fraction * device.spec.sustained_memory)
        + own.floor_us.unwrap_or(rates.floor_us) * 1e-6
}
