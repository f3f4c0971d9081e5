//! Fused attention: blocks of rows over the compute units.
//!
//! A block of `attention_rows` queries (backward: keys) runs on one unit over all keys that it sees, and pays for its
//! start and end as if it saw `attention_fill` more: with a mean of K keys seen (half of the sequence under a causal
//! mask, less with a window), the rate is the generation's long-sequence rate times K / (K + fill). Heads narrower
//! than 128 keep the exponentials on the critical path: they cost as much as heads wider by half of what is missing
//! to 128 (FlashAttention-4's and TileLang's rows for 64 and 128 on Blackwell and Hopper) unless the device's file
//! says otherwise (`narrow`). In 8 bits products take half the time and exponentials as long, so that the width is 256
//! (cuDNN's rows for 128 and 192 on GB200: 3 % off so forward, 6 with 128).

use super::DeviceCost;
use crate::model::{AttentionGeneration, Direction, Kernel, KernelShape, Scaling};
use stepsim_spec::cost::AttentionCost;
use stepsim_spec::facts::facts;

/// Width of a head as its time goes by it, where heads half as wide as `full` take `narrow` times as long a FLOP.
fn effective(width: u64, narrow: f64, full: f64) -> f64 {
    let d = width as f64;
    if d < full { d + (narrow - 1.0) * (full - d) } else { d }
}

/// The figures of a generation, of the newest before it that the device has, or of the oldest; without a generation, of
/// the fastest.
fn generation(device: &DeviceCost, asked: Option<AttentionGeneration>) -> Option<AttentionCost> {
    let listed = &device.spec.attention;
    match asked {
        Some(g) => listed.range(..=g).next_back().or(listed.first_key_value()).map(|(_, a)| *a),
        None => listed.values().copied().max_by(|a, b| a.forward.total_cmp(&b.forward)),
    }
}

/// Rate of one unit on long sequences in FLOP/s.
fn unit_rate(device: &DeviceCost, kernel: &Kernel, direction: Direction, cost: &AttentionCost) -> f64 {
    let (wide, narrow) = match direction {
        Direction::Forward => (cost.forward, cost.forward_fp8),
        Direction::Backward => (cost.backward, cost.backward_fp8),
    };
    let in_16_bits = device.peak(stepsim_spec::Dtype::Bf16).0 * wide;
    let rate = match narrow {
        Some(fraction) if kernel.dtype.bytes() < 2.0 => device.peak(kernel.dtype).0 * fraction,
        _ => in_16_bits.min(device.peak(kernel.dtype).0),
    };
    let by_blocks = match kernel.scaling {
        Scaling::Tensor => 1.0,
        _ => facts().attention_by_blocks[usize::from(direction == Direction::Backward)],
    };
    rate * by_blocks / f64::from(device.units.max(1))
}

/// Seconds of a fused attention kernel on `left` units: blocks of rows, the longest (under a causal mask those that see
/// all keys) partly alone at the end.
pub(super) fn seconds(device: &DeviceCost, kernel: &Kernel, left: u32) -> f64 {
    let KernelShape::Attention {
        batch,
        queries,
        keys,
        key_rows,
        heads,
        qk_size,
        v_size,
        causal,
        direction,
        generation,
        ..
    } = kernel.shape
    else {
        return 0.0;
    };
    let spec = &device.spec;
    let fill = spec.attention_fill;
    // Backward walks over keys, all of them about equally long, and adds to the queries' gradient as it goes.
    let (rows, tail, products) = match direction {
        Direction::Forward => (queries, spec.attention_tail, 2.0),
        Direction::Backward => (key_rows, 0.0, 5.0),
    };
    let width = (qk_size + v_size) as f64;
    let pairs = kernel.flops / (products * width).max(1.0);
    let seen = pairs / ((batch * heads * queries) as f64).max(1.0);
    let cost = self::generation(device, generation).unwrap_or(AttentionCost {
        forward: 0.6,
        backward: 0.5,
        forward_fp8: None,
        backward_fp8: None,
        narrow: None,
    });
    let narrow = cost.narrow.unwrap_or(1.5);
    let narrow_rate = cost.forward_fp8.is_some() && kernel.dtype.bytes() < 2.0;
    let full = if narrow_rate { 256.0 } else { 128.0 };
    let slow = (effective(qk_size, narrow, full) + effective(v_size, narrow, full)) / width.max(1.0);
    let total =
        kernel.flops * slow * (1.0 + fill / seen.max(1.0)) / unit_rate(device, kernel, direction, &cost);
    let blocks = (batch * heads) as f64 * rows.div_ceil(spec.attention_rows) as f64;
    let most = if causal { (keys as f64).max(seen) } else { seen };
    let longest = total / blocks.max(1.0) * (most + fill) / (seen + fill);
    (total / f64::from(left) + tail * longest).max(longest)
}
