//! The interface of a level of detail.

use super::device::DeviceCost;
use crate::model::Kernel;
use stepsim_core::units::Time;

/// A way to find the time of a kernel.
pub trait Cost: Send + Sync {
    /// Time of a kernel on a device whose compute units but `taken` are free (a collective's kernel holds the rest).
    /// At least one unit is always left.
    fn time_with_units_taken(&self, kernel: &Kernel, device: &DeviceCost, taken: u32) -> Time;

    /// Time of a kernel that has the device to itself.
    fn time(&self, kernel: &Kernel, device: &DeviceCost) -> Time {
        self.time_with_units_taken(kernel, device, 0)
    }
}
