//! How long kernels take: the border to the cost models.

use stepsim_core::units::Time;
use stepsim_price::model::Kernel;

/// How long kernels take: the border to the cost models.
pub trait Prices {
    /// Time of a kernel on an undisturbed device.
    fn time(&self, kernel: &Kernel) -> Time;
    /// Thousandths that it takes longer while a communication kernel runs beside it.
    fn slowdown(&self, kernel: &Kernel) -> u16;
    /// From the end of a kernel to the start of the next one on its stream.
    fn gap(&self) -> Time {
        Time::ZERO
    }
    /// How slow the device's host is: a factor on all host times.
    fn host_slowness(&self) -> f64 {
        1.0
    }
}

/// Prices of kernels on every class of devices of a machine.
pub trait PriceList {
    /// Prices on the devices of a class ([`Machine::device_class`](stepsim_fabric::topology::Machine::device_class)).
    fn on(&self, class: u32) -> &dyn Prices;
}
