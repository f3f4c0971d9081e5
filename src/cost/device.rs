//! What the cost levels know of a device.

use std::collections::BTreeMap;

use crate::spec::Device;
use crate::spec::cost::CostSpec;
use crate::spec::workload::Dtype;
use crate::units::{Bandwidth, FlopRate};

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
}

impl DeviceCost {
    /// A device of the catalogue.
    pub fn new(device: &Device) -> DeviceCost {
        let spec = device.cost.clone().unwrap_or_default();
        let formats = [Dtype::Fp32, Dtype::Tf32, Dtype::Bf16, Dtype::Fp16, Dtype::Fp8, Dtype::Fp4];
        DeviceCost {
            peaks: formats.into_iter().filter_map(|f| Some((f, device.peak(f)?))).collect(),
            units: spec.compute_units.unwrap_or(device.units()),
            bandwidth: device.memory_bandwidth(),
            spec,
        }
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
    /// Fraction of the peak that a GEMM's inner loop sustains.
    pub fn matrix_fraction(&self, dtype: Dtype) -> f64 {
        match dtype {
            Dtype::Fp8 | Dtype::Fp4 => self.spec.matrix_fraction_fp8.unwrap_or(self.spec.matrix_fraction),
            _ => self.spec.matrix_fraction,
        }
    }
    /// Compute units left when `taken` are held: at least one.
    pub fn units_left(&self, taken: u32) -> u32 {
        self.units.saturating_sub(taken).max(1)
    }
    /// Seconds to move so many bytes when `left` units stream: half of the units saturate the memory.
    pub fn memory_s(&self, bytes: f64, left: u32) -> f64 {
        let saturated = (2.0 * f64::from(left) / f64::from(self.units.max(1))).min(1.0);
        bytes / (self.bandwidth.0 * self.spec.memory_fraction * saturated)
    }
}
