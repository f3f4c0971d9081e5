//! Measured shapes, and what lies between them.

use super::{Cost, DeviceCost, TileWave};
use crate::model::{Kernel, KernelShape};
use stepsim_core::units::Time;
use stepsim_spec::cost::MeasuredGemm;

/// GEMMs by measurement: a measured shape takes its measured time. Between shapes the tile-wave time is multiplied by
/// a correction interpolated from measured shapes near by, in the logarithm of both sizes and times, with weights
/// that fall with the square of the distance. Beyond a factor `REACH` there is no correction, and everything but
/// GEMMs is tile-wave.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GemmTable;

/// How far (as a factor, over all sizes together) a measured shape is heard.
const REACH: f64 = 4.0;

impl Cost for GemmTable {
    fn time_with_units_taken(&self, kernel: &Kernel, device: &DeviceCost, taken: u32) -> Time {
        let modelled = TileWave.time_with_units_taken(kernel, device, taken);
        let (sizes, groups, accumulate) = match kernel.shape {
            KernelShape::Gemm { m, n, k, batch, accumulate } => ((m, n, k), batch, accumulate),
            KernelShape::GroupedGemm { groups, m, n, k, accumulate } => ((m, n, k), groups, accumulate),
            _ => return modelled,
        };
        // The table is of 16-bit products; its corrections do not carry over to other formats.
        if kernel.dtype.bytes() != 2.0 {
            return modelled;
        }
        let same = |r: &&MeasuredGemm| r.accumulate == accumulate && (r.groups > 1) == (groups > 1);
        let (mut weights, mut sum) = (0.0, 0.0);
        for row in device.spec.table.iter().filter(same) {
            let d2 = [(row.m, sizes.0), (row.n, sizes.1), (row.k, sizes.2), (row.groups, groups)]
                .iter()
                .map(|&(a, b)| (a as f64 / b as f64).ln().powi(2))
                .sum::<f64>();
            if d2 > REACH.ln().powi(2) {
                continue;
            }
            let correction = correction(row, kernel, device);
            if d2 == 0.0 {
                return Time::from_s(modelled.s() * correction);
            }
            weights += 1.0 / d2;
            sum += correction.ln() / d2;
        }
        if weights == 0.0 { modelled } else { Time::from_s(modelled.s() * (sum / weights).exp()) }
    }
}

/// Measured over modelled time of a row.
fn correction(row: &MeasuredGemm, like: &Kernel, device: &DeviceCost) -> f64 {
    let (m, n, k) = (row.m, row.n, row.k);
    let (mf, nf, kf, g) = (m as f64, n as f64, k as f64, row.groups as f64);
    let element = like.dtype.bytes();
    let output = if row.accumulate { 8.0 } else { element };
    let shape = if row.groups > 1 {
        KernelShape::GroupedGemm { groups: row.groups, m, n, k, accumulate: row.accumulate }
    } else {
        KernelShape::Gemm { m, n, k, batch: 1, accumulate: row.accumulate }
    };
    let flops = 2.0 * g * mf * nf * kf;
    let bytes = g * ((mf * kf + kf * nf) * element + mf * nf * output);
    let kernel = Kernel { shape, flops, bytes, ..*like };
    flops / (row.rate_tflops * 1e12) / TileWave.time_with_units_taken(&kernel, device, 0).s()
}
