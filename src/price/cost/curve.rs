//! Fractions that depend on the size in steps, as Calculon's do.

use super::{Cost, DeviceCost};
use crate::model::Kernel;
use stepsim_core::units::Time;
use stepsim_spec::cost::Processing;

/// Calculon's size curves. The largest threshold not above the kernel's GFLOP gives the fraction of peak; the largest
/// threshold not above its MB gives the fraction of memory bandwidth; the longer of the two times counts (Calculon's
/// `roofline` mode).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SizeCurve;

impl SizeCurve {
    /// The fraction at a size: pairs of least size and fraction, largest first.
    pub fn fraction(curve: &[(f64, f64)], size: f64) -> f64 {
        curve.iter().find(|(least, _)| size >= *least).or(curve.last()).map_or(1.0, |&(_, f)| f)
    }
}

impl Cost for SizeCurve {
    fn time_with_units_taken(&self, kernel: &Kernel, device: &DeviceCost, taken: u32) -> Time {
        let share = f64::from(device.units_left(taken)) / f64::from(device.units.max(1));
        let math = if kernel.flops > 0.0 {
            let fraction = Self::fraction(&device.spec.matrix_by_gflop, kernel.flops / 1e9);
            kernel.flops / (device.peak(kernel.dtype).0 * fraction * share)
        } else {
            0.0
        };
        let fraction = Self::fraction(&device.spec.memory_by_mb, kernel.bytes / 1e6);
        let memory = kernel.bytes / (device.bandwidth.0 * fraction);
        Time::from_s(match device.spec.processing {
            Processing::Roofline => math.max(memory),
            Processing::NoOverlap => math + memory,
        })
    }
}
