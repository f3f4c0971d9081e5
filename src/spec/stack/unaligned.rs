//! Batched products of attention whose heads do not begin where matrix units load.
//!
//! Matrix units load 16 bytes at a time. Queries, keys and values lie head beside head, so a head size that is no
//! multiple of 16 bytes puts every other head of a batched product elsewhere. Libraries have kernels for that, or leave
//! the matrix units: which of the two goes by library, year, device and format. On A100 with CUDA 11.6 a batched
//! product of 140 columns runs at 12 TFLOP/s in bf16, with CUDA 11.7 at 86, which is what tiles of 128 columns leave of
//! the 132 of 128 columns (pytorch/pytorch#83272); on H100 a plain product of 8,193 × 5,008 × 2,501 in bf16 is as fast
//! as the padded one (509 and 502 TFLOP/s, meta-pytorch/float8_experimental#145). So only what was measured is slow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::glob;
use crate::workload::Dtype;

/// Bytes that matrix units load at a time.
pub const LOAD_BYTES: f64 = 16.0;

/// Devices and formats on which a library runs batched products of attention on vector units where heads do not begin
/// at multiples of 16 bytes, as measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnalignedSpec {
    /// Names of the devices; `*` stands for anything.
    pub devices: String,
    /// Formats of the operands.
    pub formats: Vec<Dtype>,
    /// Who measured it.
    pub source: String,
}

impl UnalignedSpec {
    /// Tells if it is about a device of this name.
    pub fn holds_on(&self, device: &str) -> bool {
        glob::fits(&self.devices, device)
    }
}
