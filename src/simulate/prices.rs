//! The prices of kernels on the devices of the machine, from the cost model that the workload asks for.

use std::cell::RefCell;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use stepsim_core::units::{FlopRate, Time};
use stepsim_fabric::collective::Chooser;
use stepsim_fabric::topology::Machine;
use stepsim_plan::step::{PriceList, Prices};
use stepsim_price::cost::{Cost, DeviceCost, KernelMix, level};
use stepsim_price::model::{Kernel, KernelKey};
use stepsim_spec::Device;
use stepsim_spec::WorkloadSpec;
use stepsim_spec::facts::facts;
use stepsim_spec::kernel::Maker;
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::{Dtype, KernelFusion};

/// The caller's own prices, preferred to the workload's.
pub trait OwnPrices: std::fmt::Debug + Send + Sync {
    /// Time of a whole kernel on an undisturbed device of a name; nothing: as the workload prices it. Plans ask again
    /// for the same kernel, so the answer must not change.
    fn time(&self, kernel: &Kernel, device: &str) -> Option<Time>;
}

/// One device and a way to price its kernels.
pub struct DevicePrices {
    /// Prices that go before, and the name of the device.
    own: Option<(Arc<dyn OwnPrices>, String)>,
    cost: Box<dyn Cost>,
    device: DeviceCost,
    /// Compute units that a communication kernel usually takes; 0 without interference.
    taken: u32,
    times: PriceCache<Time>,
    slowdowns: PriceCache<u16>,
}

/// Known prices of kernels: layers, passes and stages have the same ones.
struct PriceCache<V>(RefCell<FxHashMap<KernelKey, V>>);

/// Kernels that are kept at once.
const MOST: usize = 1 << 16;

impl<V: Copy> PriceCache<V> {
    fn new() -> PriceCache<V> {
        PriceCache(RefCell::default())
    }
    fn of(&self, kernel: &Kernel, made: impl FnOnce() -> V) -> V {
        let key = kernel.key();
        if let Some(value) = self.0.borrow().get(&key) {
            return *value;
        }
        let value = made();
        let mut known = self.0.borrow_mut();
        if known.len() == MOST {
            known.clear();
        }
        known.insert(key, value);
        value
    }
}

impl DevicePrices {
    /// Prices at the fidelity and with the kernels of a workload, on one of `devices` devices that wait for each
    /// other.
    pub fn new(
        workload: &WorkloadSpec,
        model: &ModelSpec,
        device: &Device,
        devices: u64,
        chooser: &Chooser,
    ) -> DevicePrices {
        let fidelity = &workload.fidelity;
        let taken = if fidelity.interference { chooser.kernel_units() } else { 0 };
        let unaligned = workload.stack().unaligned_on(&device.name);
        let device = DeviceCost::new(device).with_maker(maker(workload.fusion)).with_unaligned(unaligned);
        let device = if workload.host().is_some() { device } else { device.aligned() };
        let cost = level(fidelity);
        let mix = (devices < *facts().chassis_devices)
            .then(|| KernelMix::of(workload, model, &device, &*cost))
            .flatten();
        let device = match mix {
            Some(mix) => device.in_mix(mix, devices),
            None => device,
        };
        let device = device.slowest_of(devices);
        let (times, slowdowns) = (PriceCache::new(), PriceCache::new());
        DevicePrices { own: None, cost, device, taken, times, slowdowns }
    }
}

/// The prices on every class of devices of a machine.
pub struct MachinePrices(Vec<DevicePrices>);

impl MachinePrices {
    /// Prices at the fidelity and with the kernels of a workload, the caller's `own` before them.
    pub fn new(
        workload: &WorkloadSpec,
        model: &ModelSpec,
        machine: &Machine,
        chooser: &Chooser,
        own: Option<&Arc<dyn OwnPrices>>,
    ) -> MachinePrices {
        let classes = machine.device_classes().iter();
        // A job beside others has the devices of its map alone.
        let map = workload.parallelism.rank_map.as_ref().and_then(|map| map.content().ok());
        let own_devices = map.and_then(|map| Some(map.as_array()?.len() as u64));
        let devices = own_devices.unwrap_or(u64::from(machine.devices()));
        let prices = |device: &Device| {
            let prices = DevicePrices::new(workload, model, device, devices, chooser);
            DevicePrices { own: own.map(|own| (Arc::clone(own), device.name.clone())), ..prices }
        };
        MachinePrices(classes.map(prices).collect())
    }
}

impl MachinePrices {
    /// Peak of the first device's class for a format, as [`DeviceCost::peak`].
    pub fn peak(&self, dtype: Dtype) -> FlopRate {
        self.0[0].device.peak(dtype)
    }
}

impl PriceList for MachinePrices {
    fn on(&self, class: u32) -> &dyn Prices {
        &self.0[class as usize]
    }
}

impl DevicePrices {
    /// Picoseconds of a kernel by all figures, and by what was learned of its class: no faster than the peak, unless the
    /// figures say so.
    fn learned(&self, kernel: &Kernel) -> f64 {
        let slowness = self.device.spec.slowness.get(&kernel.class).copied().unwrap_or(1.0);
        let time = self.cost.time(kernel, &self.device);
        let at_peak = Time::from_s(kernel.flops / self.device.peak(kernel.dtype).0);
        (time.0 as f64 * slowness).max(time.min(at_peak).0 as f64)
    }
}

/// Who makes the kernels that memory bounds: software that fuses all brings tuned ones, what PyTorch runs by itself is
/// eager, and Megatron-LM's of 2021 came mostly from PyTorch's compiler.
fn maker(fusion: KernelFusion) -> Maker {
    match fusion {
        KernelFusion::Full => Maker::Tuned,
        KernelFusion::Compiled | KernelFusion::PartialAccumulating | KernelFusion::Partial => Maker::Compiled,
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
        self.times.of(kernel, || {
            let own = self.own.as_ref().and_then(|(own, device)| own.time(&kernel.whole(), device));
            let whole = own.map_or_else(|| self.learned(&kernel.whole()), |time| time.0 as f64);
            Time((whole / kernel.pieces()).round() as u64)
        })
    }
    fn slowdown(&self, kernel: &Kernel) -> u16 {
        if self.taken == 0 {
            return 0;
        }
        self.slowdowns.of(kernel, || {
            let whole = kernel.whole();
            let alone = self.cost.time(&whole, &self.device).s();
            let beside = self.cost.time_with_units_taken(&whole, &self.device, self.taken).s();
            if alone > 0.0 {
                ((beside / alone - 1.0) * 1000.0).round().clamp(0.0, 60_000.0) as u16
            } else {
                0
            }
        })
    }
}
