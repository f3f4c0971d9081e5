//! The chunked delta rule that several mixers share (`fla/ops/gated_delta_rule`).
//!
//! It adds to a linear attention the inverse of a triangle for each chunk and two more products with it. Backward
//! repeats the forward's states and does each product twice.

use super::scan::{Scan, ScanKind};

/// Products of one head, for each token, in FLOPs: chunk C, key width, value width.
pub(super) fn flops(c: f64, k: f64, v: f64) -> f64 {
    2.0 * c * (3.0 * k + 2.0 * v) + 6.0 * k * v + c * c / 3.0
}

/// Keys with keys, both products with the inverse, states in and out, queries with states and keys, and values.
/// `mixed` is the width of queries, keys and values of all heads.
pub(super) fn scan(heads: u64, k: u64, v: u64, c: u64, mixed: u64) -> Scan {
    let products = vec![
        (c, c, k, heads),
        (c, k, c, heads),
        (c, v, c, heads),
        (c, v, k, heads),
        (k, v, c, heads),
        (c, v, k, heads),
        (c, c, k, heads),
        (c, v, c, heads),
    ];
    Scan {
        narrow: Vec::new(),
        projected: 0,
        convolved: 0,
        inner: heads * v,
        read: 2 * mixed + heads * v,
        kind: ScanKind::Delta,
        chunk: c,
        products,
        repeated: 5,
        state: heads * k * v,
        saved: mixed + heads * (v + c),
        gated_norm: true,
    }
}
