//! Kernel times under a power cap, at any level of detail.

use super::{Cost, DeviceCost};
use crate::model::Kernel;
use stepsim_core::units::Time;

/// A level whose products run at the clock that the device's power cap leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UnderCap<C>(pub C);

impl<C: Cost> Cost for UnderCap<C> {
    fn time_with_units_taken(&self, kernel: &Kernel, device: &DeviceCost, taken: u32) -> Time {
        device.under_cap(kernel, self.0.time_with_units_taken(kernel, device, taken))
    }
}
