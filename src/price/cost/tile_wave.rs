//! Tiles in waves over the compute units, and a roofline.

use super::{Cost, DeviceCost, attention, memory_bound};
use crate::model::{Kernel, KernelClass, KernelShape};
use stepsim_core::kernel_class::{KernelKind, MatmulPass};
use stepsim_core::units::Time;
use stepsim_spec::Dtype;
use stepsim_spec::cost::ScanCost;
use stepsim_spec::facts::facts;
use stepsim_spec::stack::LOAD_BYTES;

/// The default level; formulas in the parent module.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TileWave;

/// Ways to cut k over several units where tiles are few.
const SPLITS: [u64; 4] = [1, 2, 4, 8];

impl Cost for TileWave {
    fn time_with_units_taken(&self, kernel: &Kernel, device: &DeviceCost, taken: u32) -> Time {
        let left = device.units_left(taken);
        let spec = &device.spec;
        // Delta rules' kernels run several products on what they have read.
        let fused = matches!(
            kernel.class.kind(),
            KernelKind::Scan if !matches!(kernel.class, KernelClass::Scan | KernelClass::ScanBackward)
        );
        let memory = if fused { 0.0 } else { device.memory_s(kernel.bytes, left) };
        let sums = spec.exposed_sums * device.memory_s(sum_bytes(kernel), left);
        let (math, exposed, floor_us) = match kernel.shape {
            KernelShape::Gemm { .. } if kernel.class.kind() == KernelKind::Scan => {
                (scan_s(device, kernel, left), 0.0, floor_us(device, kernel))
            }
            KernelShape::Gemm { m, n, k, batch, .. } => {
                let math = gemm_s(device, kernel, (m, n, k), batch, left)
                    / alignment(device, kernel, [m, n, k])
                    + sums;
                (math, spec.exposed_memory, floor_us(device, kernel))
            }
            KernelShape::GroupedGemm { groups, m, n, k, .. } => {
                let math = gemm_s(device, kernel, (m, n, k), groups, left);
                let floor = floor_us(device, kernel) + groups as f64 * spec.group_us;
                (math, spec.grouped_exposed_memory, floor)
            }
            KernelShape::Attention { .. } => {
                (attention::seconds(device, kernel, left), 0.0, spec.attention_floor_us)
            }
            KernelShape::Elementwise { .. } => {
                return Time::from_s(memory_bound::seconds(kernel, device, left));
            }
        };
        let cool = math.max(memory) + exposed * math.min(memory) + floor_us * 1e-6;
        Time::from_s(cool.max(kernel.flops / device.power_limit(kernel) + sums))
    }
}

/// Microseconds until a GEMM has started and ramped up.
fn floor_us(device: &DeviceCost, kernel: &Kernel) -> f64 {
    let shape = device.spec.shapes.get(&kernel.format());
    shape.and_then(|shape| shape.floor_us).unwrap_or(device.spec.gemm_floor_us)
}

/// Bytes of the sums that a GEMM reads and writes where it adds its result to what is there.
fn sum_bytes(kernel: &Kernel) -> f64 {
    match kernel.shape {
        KernelShape::Gemm { m, n, k, batch, accumulate: true } => {
            let [batch, m, n, k] = [batch, m, n, k].map(|size| size as f64);
            kernel.bytes - batch * (m * k + k * n) * kernel.dtype.bytes()
        }
        _ => 0.0,
    }
}

/// Fraction of its format's peak that a GEMM of a class reaches.
fn fraction(device: &DeviceCost, kernel: &Kernel) -> f64 {
    let spec = &device.spec;
    let weight_grad = || spec.weight_grad.get(&kernel.format()).copied().unwrap_or(1.0);
    device.matrix_fraction(kernel.format())
        * match kernel.class.kind() {
            KernelKind::Gemm(MatmulPass::WeightGrad) => weight_grad(),
            KernelKind::GroupedGemm(MatmulPass::Forward | MatmulPass::InputGrad) => spec.grouped_fraction,
            // The sum with what is there slows weight gradients down.
            KernelKind::GroupedGemm(MatmulPass::WeightGrad) => match kernel.shape {
                KernelShape::GroupedGemm { accumulate: false, .. } => spec.grouped_fraction,
                _ => spec.grouped_fraction * spec.grouped_weight_grad,
            },
            KernelKind::Gemm(MatmulPass::Forward | MatmulPass::InputGrad)
            | KernelKind::Batched
            | KernelKind::Scan
            | KernelKind::Attention
            | KernelKind::MemoryBound(_) => 1.0,
        }
}

/// Seconds of the products of a scan on `left` units.
fn scan_s(device: &DeviceCost, kernel: &Kernel, left: u32) -> f64 {
    let ScanCost { forward, backward } = device.spec.scan;
    let (delta, channel_delta) = (&facts().delta_scans, &facts().channel_delta_scans);
    let fraction = match kernel.class {
        KernelClass::ScanBackward => backward,
        KernelClass::DeltaScan => delta[0] * forward,
        KernelClass::DeltaScanBackward => delta[1] * backward,
        KernelClass::ChannelDeltaScan => channel_delta[0] * forward,
        KernelClass::ChannelDeltaScanBackward => channel_delta[1] * backward,
        _ => forward,
    };
    let share = f64::from(left) / f64::from(device.units.max(1));
    kernel.flops / (device.peak(kernel.dtype).0 * fraction * share)
}

/// Seconds of the products of a GEMM on `left` units, by the tile shape and split that are best on all units: the
/// library that picks them does not know what runs beside.
fn gemm_s(device: &DeviceCost, kernel: &Kernel, (m, n, k): (u64, u64, u64), batch: u64, left: u32) -> f64 {
    let peak =
        if on_vectors(device, kernel, [m, n, k]) { device.vector_peak() } else { device.peak(kernel.dtype) }
            .0;
    let unit_rate = peak * fraction(device, kernel) / f64::from(device.units.max(1));
    // A pipeline fills in a time, not in elements: at twice the rate it takes twice as many.
    let shape = device.spec.shapes.get(&kernel.format()).copied().unwrap_or_default();
    let thin = kernel.dtype == Dtype::Fp32;
    let fill_k = if thin { *facts().thin_tiles_fill_k } else { device.spec.fill_k };
    let fill_k = shape.fill_k.unwrap_or(fill_k) * (peak / device.peak(Dtype::Bf16).0).max(1.0);
    let last_wave = shape.last_wave.unwrap_or(device.spec.last_wave);
    let (mut best_s, mut seconds) = (f64::INFINITY, f64::INFINITY);
    let thin_tiles = if thin { facts().thin_tiles.as_slice() } else { &[] };
    for &(tm, tn, speed) in facts().tiles.iter().chain(thin_tiles) {
        let tiles = batch as f64 * (m.div_ceil(tm) * n.div_ceil(tn)) as f64;
        for split in SPLITS {
            let blocks = tiles * split as f64;
            if split > 1 && (shape.split == Some(false) || blocks > f64::from(device.units)) {
                break;
            }
            let depth = k.div_ceil(split) as f64 + fill_k;
            let block_s = 2.0 * (tm * tn) as f64 * depth / (unit_rate * speed);
            let extra = if split > 1 { device.spec.split_us * 1e-6 } else { 0.0 };
            let on = |units| waves(blocks, units, last_wave) * block_s + extra;
            let whole_s = on(device.units);
            if whole_s < best_s {
                (best_s, seconds) = (whole_s, on(left));
            }
        }
    }
    seconds
}

/// True if a library leaves the matrix units: in a batched product of attention heads that are not aligned, where its
/// fallback was measured. It is as fast there as vector units are (176 B models on A100 with heads of 108 and 150
/// instead of 144: 11 to 12 TFLOP/s in these products).
fn on_vectors(device: &DeviceCost, kernel: &Kernel, sizes: [u64; 3]) -> bool {
    let aligned = |size: &u64| (*size as f64 * kernel.dtype.bytes()) % LOAD_BYTES == 0.0;
    kernel.class == KernelClass::AttentionGemm
        && device.unaligned.contains(&kernel.dtype)
        && !sizes.iter().all(aligned)
}

/// Rate of a 16-bit product over the rate of one whose widths are aligned. Rows of a matrix begin at multiples of its
/// width, and kernels that load 16 bytes at once need these to be multiples of 8 elements. Tokens are no width: the
/// rows of a forward pass, the sums of a weight gradient.
fn alignment(device: &DeviceCost, kernel: &Kernel, [m, n, k]: [u64; 3]) -> f64 {
    if device.spec.unaligned.is_empty() || kernel.dtype.bytes() != 2.0 {
        return 1.0;
    }
    let widths = match kernel.class.kind() {
        KernelKind::Gemm(MatmulPass::WeightGrad) => m | n,
        KernelKind::Gemm(_) => n | k,
        _ => m | n | k,
    };
    device.spec.unaligned.get(&(1 << widths.trailing_zeros().min(3))).copied().unwrap_or(1.0)
}

/// Waves of `blocks` equal blocks over `units`, of a last, partly filled one only the share `last` beyond its blocks.
fn waves(blocks: f64, units: u32, last: f64) -> f64 {
    let full = blocks / f64::from(units);
    if full <= 1.0 { 1.0 } else { full + last * (full.ceil() - full) }
}
