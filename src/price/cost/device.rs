//! A device as the cost levels see it.

use std::collections::BTreeMap;

use super::slowest;
use crate::model::{Kernel, KernelShape};
use stepsim_core::units::{Bandwidth, FlopRate, Time};
use stepsim_spec::Device;
use stepsim_spec::cost::CostSpec;
use stepsim_spec::facts::facts;
use stepsim_spec::kernel::{Format, Maker};
use stepsim_spec::power::slower;
use stepsim_spec::workload::Dtype;

/// One device, as kernels see it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceCost {
    /// Dense matrix peaks of the formats that it has.
    pub peaks: BTreeMap<Dtype, FlopRate>,
    /// Independent compute units; 1 where it is one big array.
    pub units: u32,
    /// Bandwidth of device memory; infinite where none is stated.
    pub bandwidth: Bandwidth,
    /// Fractions, floors and curves.
    pub spec: CostSpec,
    /// How good the kernels are that memory bounds.
    pub maker: Maker,
    /// The share of the clock-bound power that a power cap leaves: 1 without a cap.
    pub power_left: f64,
    /// Formats whose batched products of attention run on vector units where heads are not aligned
    /// ([`stepsim_spec::stack::UnalignedSpec`]).
    pub unaligned: Vec<Dtype>,
}

impl DeviceCost {
    /// A device of the catalogue.
    pub fn new(device: &Device) -> DeviceCost {
        let spec = device.cost.clone().unwrap_or_default();
        DeviceCost {
            peaks: Dtype::ALL.into_iter().filter_map(|f| Some((f, device.peak(f)?))).collect(),
            units: spec.compute_units.unwrap_or(device.units()),
            bandwidth: device.memory_bandwidth(),
            spec,
            maker: Maker::default(),
            power_left: device.dynamic_power_left(),
            unaligned: Vec::new(),
        }
    }
    /// The same device with kernels of another make.
    pub fn with_maker(self, maker: Maker) -> DeviceCost {
        DeviceCost { maker, ..self }
    }
    /// The same device under libraries that leave its matrix units where heads are not aligned.
    pub fn with_unaligned(self, unaligned: Vec<Dtype>) -> DeviceCost {
        DeviceCost { unaligned, ..self }
    }
    /// The same device under software whose products need no alignment, or nothing is known of it.
    pub fn aligned(mut self) -> DeviceCost {
        self.spec.unaligned.clear();
        self
    }
    /// The slowest device to be expected among `devices`: all others wait for it.
    pub fn slowest_of(mut self, devices: u64) -> DeviceCost {
        let of_file = slowest::deviations(*facts().chassis_devices);
        let slower = 1.0 + self.spec.spread * (slowest::deviations(devices) - of_file);
        self.spec.sustained /= slower;
        self.spec.sustained_formats.values_mut().for_each(|rate| *rate /= slower);
        self
    }
    /// The same device in a short run, cool and at its full clock.
    pub fn cool(mut self) -> DeviceCost {
        self.spec.sustained = 1.0;
        self.spec.sustained_formats.clear();
        self.spec.sustained_memory = 1.0;
        self
    }
    /// The same device where kernels run long but alone, as in a series of one kernel after another: hot, and with
    /// all of the memory's bandwidth.
    pub fn alone(mut self) -> DeviceCost {
        self.spec.sustained_memory = 1.0;
        self
    }
    /// Matrix peak for a format. A device without it computes in the next wider one that it has; one without any
    /// wider format, in the fastest it has.
    pub fn peak(&self, dtype: Dtype) -> FlopRate {
        let order: &[Dtype] = match dtype {
            Dtype::Fp4 => &[Dtype::Fp4, Dtype::Fp8, Dtype::Bf16, Dtype::Fp16, Dtype::Tf32, Dtype::Fp32],
            Dtype::Fp8 => &[Dtype::Fp8, Dtype::Bf16, Dtype::Fp16, Dtype::Tf32, Dtype::Fp32],
            Dtype::Bf16 => &[Dtype::Bf16, Dtype::Fp16, Dtype::Tf32, Dtype::Fp32],
            Dtype::Fp16 => &[Dtype::Fp16, Dtype::Bf16, Dtype::Tf32, Dtype::Fp32],
            Dtype::Tf32 => &[Dtype::Tf32, Dtype::Fp32],
            Dtype::Fp32 => &[Dtype::Fp32, Dtype::Tf32],
        };
        let listed = order.iter().find_map(|d| self.peaks.get(d).copied());
        listed.unwrap_or_else(|| {
            let fastest = self.peaks.values().map(|r| r.0).fold(0.0, f64::max);
            FlopRate(if fastest > 0.0 { fastest } else { f64::INFINITY })
        })
    }
    /// Rate of products on vector units; where the catalogue does not say, a sixteenth of the 16-bit matrix peak, as on
    /// A100.
    pub fn vector_peak(&self) -> FlopRate {
        let sixteenth = FlopRate(self.peak(Dtype::Bf16).0 / 16.0);
        self.peaks.get(&Dtype::Fp32).copied().unwrap_or(sixteenth)
    }
    /// Fraction of the format's peak that a GEMM's inner loop reaches in a short run.
    pub fn matrix_fraction(&self, format: Format) -> f64 {
        self.spec.formats.get(&format).copied().unwrap_or(self.spec.matrix_fraction)
    }
    /// Most FLOP/s of a format that power and heat leave in a long run, whatever the kernel: a chip's power goes by its
    /// rate, so kernels that reach less than this by themselves are not throttled.
    pub fn power_limit(&self, kernel: &Kernel) -> f64 {
        let format = kernel.format();
        let sustained = self.spec.sustained_formats.get(&format).copied().unwrap_or(self.spec.sustained);
        self.peak(kernel.dtype).0 * self.matrix_fraction(format) * sustained
    }
    /// Time of a kernel under the power cap, of the time that it takes without one.
    pub fn under_cap(&self, kernel: &Kernel, uncapped: Time) -> Time {
        if self.power_left == 1.0 || matches!(kernel.shape, KernelShape::Elementwise { .. }) {
            return uncapped;
        }
        let activity = kernel.flops / self.power_limit(kernel) / uncapped.s();
        Time::from_s(uncapped.s() * slower(activity.min(1.0), self.power_left))
    }
    /// Compute units left when `taken` are held: at least one.
    pub fn units_left(&self, taken: u32) -> u32 {
        self.units.saturating_sub(taken).max(1)
    }
    /// Seconds to move `bytes` when `left` units stream: half of the units saturate the memory.
    pub fn memory_s(&self, bytes: f64, left: u32) -> f64 {
        let saturated = (2.0 * f64::from(left) / f64::from(self.units.max(1))).min(1.0);
        bytes / (self.bandwidth.0 * self.spec.memory_fraction * saturated)
    }
}
