//! What kernels cost on the devices of the machine: the cost model that the workload asks for.

use crate::collective::Chooser;
use crate::cost::{Cost, DeviceCost, level};
use crate::model::Kernel;
use crate::plan::step::Prices;
use crate::spec::Device;
use crate::spec::workload::FidelitySpec;
use crate::units::Time;

/// One device and a way to price its kernels.
pub struct DevicePrices {
    cost: Box<dyn Cost>,
    device: DeviceCost,
    /// Compute units that a communication kernel usually takes; 0 without interference.
    taken: u32,
}

impl DevicePrices {
    /// Prices at the fidelity asked for.
    pub fn new(fidelity: &FidelitySpec, device: &Device, chooser: &Chooser) -> DevicePrices {
        let taken = if fidelity.interference { chooser.kernel_units() } else { 0 };
        DevicePrices { cost: level(fidelity), device: DeviceCost::new(device), taken }
    }
}

impl Prices for DevicePrices {
    fn gap(&self) -> Time {
        Time::from_us(self.device.spec.kernel_gap_us)
    }
    fn time(&self, kernel: &Kernel) -> Time {
        let whole = self.cost.time(&kernel.whole(), &self.device);
        Time((whole.0 as f64 / kernel.pieces()).round() as u64)
    }
    fn slowdown(&self, kernel: &Kernel) -> u16 {
        if self.taken == 0 {
            return 0;
        }
        let whole = kernel.whole();
        let alone = self.cost.time(&whole, &self.device).s();
        let beside = self.cost.time_with_units_taken(&whole, &self.device, self.taken).s();
        if alone > 0.0 { ((beside / alone - 1.0) * 1000.0).round().clamp(0.0, 60_000.0) as u16 } else { 0 }
    }
}
