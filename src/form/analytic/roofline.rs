//! Rooflines: how many FLOPs a byte of device memory must feed before a kernel is bound by the device's arithmetic.
//!
//! The ridge is π/β, peak over memory bandwidth. A product of [B, D] and [D, F] with D, F ≫ B moves hardly more than
//! its weights: it is bound by arithmetic from B > ridge · (bytes of a weight)/2 on.
//!
//! Source: Williams, Waterman and Patterson 2009; jax-ml scaling book, chapter on rooflines.

use std::collections::BTreeMap;

use serde_json::Value;

use stepsim_price::model::{KernelClass, LayerPlan, Shard};
use stepsim_spec::{Device, ModelSpec};

/// Where the roof of a device bends in one number format.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Ridge {
    /// The format.
    pub format: String,
    /// Dense peak in 10¹² FLOP/s.
    #[serde(rename = "peak_TFLOPs")]
    pub peak_tflops: f64,
    /// Peak over memory bandwidth, in FLOP a byte.
    #[serde(rename = "ridge_FLOP_per_byte")]
    pub ridge: f64,
    /// Rows of a product with large weights from which on arithmetic bounds it.
    pub batch: f64,
}

/// The ridges of a device, in the order of its file; none without a memory.
pub fn ridges(device: &Device) -> Vec<Ridge> {
    let (Some(hbm), Ok(Value::Object(peaks))) =
        (&device.hbm, stepsim_located::to_value(device.peak_dense_tflops))
    else {
        return Vec::new();
    };
    let of = |(format, peak): (String, Value)| {
        let peak_tflops = peak.as_f64()?;
        let ridge = 1e3 * peak_tflops / hbm.gbps;
        Some(Ridge { batch: ridge * bytes(&format)? / 2.0, format, peak_tflops, ridge })
    };
    peaks.into_iter().filter_map(of).collect()
}

/// Bytes of an element of a format as peaks name it.
fn bytes(format: &str) -> Option<f64> {
    let known = [
        ("fp32", 4.0),
        ("tf32", 4.0),
        ("bf16", 2.0),
        ("fp16", 2.0),
        ("fp8", 1.0),
        ("int8", 1.0),
        ("fp6", 0.75),
        ("fp4", 0.5),
    ];
    known.into_iter().find(|k| k.0 == format).map(|k| k.1)
}

/// Kernels of one class in a layer.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct ClassIntensity {
    /// The class.
    pub class: KernelClass,
    /// FLOPs of one micro-batch on matrix units.
    pub flops: f64,
    /// Bytes through device memory, every operand once.
    pub bytes: f64,
    /// Peak over bandwidth in the format of its largest kernel; `None` where the device has no such peak or no memory.
    #[serde(rename = "ridge_FLOP_per_byte")]
    pub ridge: Option<f64>,
}

impl ClassIntensity {
    /// FLOP a byte.
    pub fn intensity(&self) -> f64 {
        if self.bytes > 0.0 { self.flops / self.bytes } else { 0.0 }
    }
    /// The resource that bounds it at best.
    pub fn bound(&self) -> &'static str {
        match self.ridge {
            Some(ridge) if self.intensity() >= ridge => "compute",
            _ => "memory",
        }
    }
}

/// The kernels of one layer of each kind (each counted once), forward and both gradients, by class.
pub fn by_class(model: &ModelSpec, shard: &Shard, device: &Device) -> Vec<ClassIntensity> {
    let mut classes: BTreeMap<KernelClass, (ClassIntensity, f64)> = BTreeMap::new();
    for (layer, _) in model.layer_counts() {
        let plan = LayerPlan::transformer(&layer, shard);
        for kernel in plan.forward.iter().chain(&plan.backward).filter_map(|item| item.kernel()) {
            let empty = ClassIntensity { class: kernel.class, flops: 0.0, bytes: 0.0, ridge: None };
            let (sum, largest) = classes.entry(kernel.class).or_insert((empty, -1.0));
            sum.flops += kernel.flops;
            sum.bytes += kernel.bytes;
            if kernel.flops > *largest {
                *largest = kernel.flops;
                let peak = device.peak(kernel.dtype).map(|peak| peak.0);
                sum.ridge = peak.zip(device.hbm.as_ref()).map(|(peak, hbm)| peak / (1e9 * hbm.gbps));
            }
        }
    }
    classes.into_values().map(|c| c.0).collect()
}
