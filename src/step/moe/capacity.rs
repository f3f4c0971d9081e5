//! Capacity: rows that an expert takes from one rank, and what is dropped above it.

/// Rows that one expert takes from one source rank: ⌈T·k/E·factor⌉.
pub fn capacity(tokens: u64, top_k: u64, experts: u64, factor: f64) -> u64 {
    // The quotient is rounded before it is rounded up, so that 1.1 × 10 is 11 and not 12.
    let rows = (tokens * top_k) as f64 / experts as f64 * factor;
    ((rows * 1e9).round() / 1e9).ceil() as u64
}
