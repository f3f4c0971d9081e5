//! What kernels cost on the devices of the machine: the cost model that the workload asks for.

use crate::collective::Chooser;
use crate::cost::{Cost, DeviceCost, level};
use crate::model::Kernel;
use crate::plan::step::{PriceList, Prices};
use crate::spec::Device;
use crate::spec::WorkloadSpec;
use crate::spec::kernel::Maker;
use crate::spec::workload::KernelFusion;
use crate::topology::Machine;
use crate::units::Time;

/// One device and a way to price its kernels.
pub struct DevicePrices {
    cost: Box<dyn Cost>,
    device: DeviceCost,
    /// Compute units that a communication kernel usually takes; 0 without interference.
    taken: u32,
}

impl DevicePrices {
    /// Prices at the fidelity and with the kernels of a workload, on one of so many devices that wait for each other.
    pub fn new(workload: &WorkloadSpec, device: &Device, devices: u64, chooser: &Chooser) -> DevicePrices {
        let fidelity = &workload.fidelity;
        let taken = if fidelity.interference { chooser.kernel_units() } else { 0 };
        let device = DeviceCost::new(device).with_maker(maker(workload.fusion)).slowest_of(devices);
        DevicePrices { cost: level(fidelity), device, taken }
    }
}

/// The prices on every class of devices of a machine.
pub struct MachinePrices(Vec<DevicePrices>);

impl MachinePrices {
    /// Prices at the fidelity and with the kernels of a workload.
    pub fn new(workload: &WorkloadSpec, machine: &Machine, chooser: &Chooser) -> MachinePrices {
        let classes = machine.device_classes().iter();
        let devices = u64::from(machine.devices());
        MachinePrices(classes.map(|device| DevicePrices::new(workload, device, devices, chooser)).collect())
    }
}

impl PriceList for MachinePrices {
    fn on(&self, class: u32) -> &dyn Prices {
        &self.0[class as usize]
    }
}

/// Who makes the kernels that memory bounds: software that fuses all brings tuned ones, what PyTorch runs by itself is
/// eager, and Megatron-LM's of 2021 came mostly from PyTorch's compiler.
fn maker(fusion: KernelFusion) -> Maker {
    match fusion {
        KernelFusion::Full => Maker::Tuned,
        KernelFusion::PartialAccumulating | KernelFusion::Partial => Maker::Compiled,
        KernelFusion::None => Maker::Eager,
    }
}

impl Prices for DevicePrices {
    fn gap(&self) -> Time {
        Time::from_us(self.device.spec.kernel_gap_us)
    }
    fn host_slowness(&self) -> f64 {
        self.device.spec.host_slowness
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
