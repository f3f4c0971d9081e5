//! Capacity: rows that an expert takes from one rank, and what is dropped above it.

/// Rows that one expert takes from one source rank: ⌈T·k/E·factor⌉.
pub fn capacity(tokens: u64, top_k: u64, experts: u64, factor: f64) -> u64 {
    // The quotient is rounded before it is rounded up, so that 1.1 × 10 is 11 and not 12.
    let rows = (tokens * top_k) as f64 / experts as f64 * factor;
    ((rows * 1e9).round() / 1e9).ceil() as u64
}

/// Share of rows dropped where tokens choose independently: E/(T·k) · E[(X − C)+], X ~ Binomial(T, k/E).
pub fn dropped_share(tokens: u64, top_k: u64, experts: u64, capacity: u64) -> f64 {
    let (n, p) = (tokens as f64, top_k as f64 / experts as f64);
    if p >= 1.0 {
        return (tokens.saturating_sub(capacity)) as f64 / n;
    }
    let (ln_p, ln_q) = (p.ln(), (-p).ln_1p());
    // ln of the binomial probability, walked up from 0.
    let mut ln_ways = 0.0;
    let mut above = 0.0;
    for x in 0..=tokens {
        if x > capacity {
            above += (x - capacity) as f64 * (ln_ways + x as f64 * ln_p + (tokens - x) as f64 * ln_q).exp();
        }
        ln_ways += ((tokens - x) as f64).max(1.0).ln() - ((x + 1) as f64).ln();
    }
    above * experts as f64 / (n * top_k as f64)
}
