//! A device of the catalogue: what one accelerator can do. Files: `topologies/devices/*.json`.
//!
//! Peaks are dense ones: slides often print the figure with 2:4 sparsity, which is twice as high.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cost::CostSpec;
use super::error::first;
use super::workload::Dtype;
use super::{Kind, Spec, SpecError, number};
use stepsim_core::units::{Bandwidth, Bytes, FlopRate};

/// One accelerator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Full name, for readers.
    pub name: String,
    /// Who makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Year of its release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub year: Option<u32>,
    /// Dense matrix peaks in 10¹² FLOP/s by number format; a format that is absent is not supported.
    #[serde(rename = "peak_dense_TFLOPs")]
    pub peak_dense_tflops: Peaks,
    /// Device memory; absent: unbounded and free (a device made for network studies).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hbm: Option<Hbm>,
    /// The independent compute units; absent: not published, treated as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_units: Option<ComputeUnits>,
    /// Largest board power in watts.
    #[serde(default, rename = "power_W", skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "number::optional_positive")]
    pub power_w: Option<f64>,
    /// Watts that the board is held to, above what it draws idle and at most `power_W`: matrix products run at a
    /// lower clock.
    #[serde(default, rename = "power_cap_W", skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "number::optional_positive")]
    pub power_cap_w: Option<f64>,
    /// Its links to others of its kind (NVLink, xGMI), for machines that are made of a node's matrix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_links: Option<PeerLinks>,
    /// Price of an hour of one, in US dollars: reports then say what a step costs. Shipped devices have none.
    #[serde(default, rename = "price_USD_per_h", skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "number::optional_positive")]
    pub price_usd_per_h: Option<f64>,
    /// How fast its kernels really are; absent: what devices have in common.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostSpec>,
    /// Notes for a careful reader.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Where each figure comes from: field → source.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, String>,
}

/// Dense peaks in 10¹² FLOP/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Peaks {
    /// IEEE single precision, vector units.
    #[serde(deserialize_with = "number::optional_positive", skip_serializing_if = "Option::is_none")]
    pub fp32: Option<f64>,
    /// 19-bit TensorFloat.
    #[serde(deserialize_with = "number::optional_positive", skip_serializing_if = "Option::is_none")]
    pub tf32: Option<f64>,
    /// bfloat16.
    #[serde(deserialize_with = "number::optional_positive", skip_serializing_if = "Option::is_none")]
    pub bf16: Option<f64>,
    /// IEEE half precision.
    #[serde(deserialize_with = "number::optional_positive", skip_serializing_if = "Option::is_none")]
    pub fp16: Option<f64>,
    /// Eight-bit float.
    #[serde(deserialize_with = "number::optional_positive", skip_serializing_if = "Option::is_none")]
    pub fp8: Option<f64>,
    /// Six-bit float.
    #[serde(deserialize_with = "number::optional_positive", skip_serializing_if = "Option::is_none")]
    pub fp6: Option<f64>,
    /// Four-bit float.
    #[serde(deserialize_with = "number::optional_positive", skip_serializing_if = "Option::is_none")]
    pub fp4: Option<f64>,
    /// Eight-bit integer (10¹² operations per second).
    #[serde(deserialize_with = "number::optional_positive", skip_serializing_if = "Option::is_none")]
    pub int8: Option<f64>,
}

/// Device memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hbm {
    /// Capacity in 10⁹ bytes.
    #[serde(rename = "GB", deserialize_with = "number::capacity")]
    pub gb: f64,
    /// Bandwidth in 10⁹ B/s, reads and writes together.
    #[serde(rename = "GBps", deserialize_with = "number::positive")]
    pub gbps: f64,
    /// Its kind, as HBM3e.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// Links of a device to others of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PeerLinks {
    /// How many.
    #[serde(deserialize_with = "number::count")]
    pub count: u32,
    /// Bandwidth of one in a direction, in 10⁹ B/s.
    #[serde(rename = "GBps_per_direction", deserialize_with = "number::positive")]
    pub gbps: f64,
    /// Trays, each with a matrix of its own, whose devices may meet in the switches of one rack.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub trays: Option<u32>,
}

/// The independent compute units of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComputeUnits {
    /// Their name: SM, CU, TensorCore.
    pub kind: String,
    /// How many.
    #[serde(deserialize_with = "number::count")]
    pub count: u32,
}

impl Device {
    /// Capacity of a device without a stated memory: 1 EiB, more than any sum of buffers.
    pub const UNBOUNDED: Bytes = Bytes(1 << 60);

    /// Dense peak of a number format, `None` if the device lacks it.
    pub fn peak(&self, format: Dtype) -> Option<FlopRate> {
        let p = &self.peak_dense_tflops;
        let tflops = match format {
            Dtype::Fp32 => p.fp32,
            Dtype::Tf32 => p.tf32,
            Dtype::Bf16 => p.bf16,
            Dtype::Fp16 => p.fp16,
            Dtype::Fp8 => p.fp8,
            Dtype::Fp4 => p.fp4,
        };
        tflops.map(FlopRate::from_tflops)
    }
    /// Capacity of the device memory.
    pub fn memory(&self) -> Bytes {
        self.hbm.as_ref().map_or(Self::UNBOUNDED, |hbm| Bytes::from_gb(hbm.gb))
    }
    /// Bandwidth of the device memory, reads and writes together; infinite where none is stated.
    pub fn memory_bandwidth(&self) -> Bandwidth {
        self.hbm.as_ref().map_or(Bandwidth(f64::INFINITY), |hbm| Bandwidth::from_gbps(hbm.gbps))
    }
    /// Number of compute units, 1 where not published.
    pub fn units(&self) -> u32 {
        self.compute_units.as_ref().map_or(1, |units| units.count)
    }
}

impl Spec for Device {
    const KIND: Kind = Kind::Device;

    fn validate(&self) -> Result<(), SpecError> {
        let p = &self.peak_dense_tflops;
        let any = [p.fp32, p.tf32, p.bf16, p.fp16, p.fp8, p.fp6, p.fp4, p.int8].iter().any(Option::is_some);
        self.check_cap()?;
        if any {
            let problems = self.cost.as_ref().map_or_else(Vec::new, |cost| cost.validate("cost"));
            return first(problems);
        }
        Err(SpecError::at("peak_dense_TFLOPs", "no number format has a peak")
            .allowed("at least one of fp32, tf32, bf16, fp16, fp8, fp6, fp4, int8")
            .hint("give the dense peak of the format that the workload computes in, like \"bf16\": 989.4"))
    }
}
