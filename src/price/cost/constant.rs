//! A fixed fraction of peak.

use super::{Cost, DeviceCost};
use crate::model::Kernel;
use stepsim_core::units::Time;

/// FLOPs over a fixed fraction of peak, or bytes over achievable bandwidth, whichever is longer; no floor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Constant {
    /// Fraction of the matrix peak; default: the device's.
    pub fraction: Option<f64>,
}

impl Cost for Constant {
    fn time_with_units_taken(&self, kernel: &Kernel, device: &DeviceCost, taken: u32) -> Time {
        let spec = &device.spec;
        let fraction = self
            .fraction
            .or(spec.constant_fraction)
            .unwrap_or(device.matrix_fraction(kernel.format()) * spec.sustained);
        let left = device.units_left(taken);
        let share = f64::from(left) / f64::from(device.units.max(1));
        let math = kernel.flops / (device.peak(kernel.dtype).0 * fraction * share);
        Time::from_s(math.max(device.memory_s(kernel.bytes, left)))
    }
}
