//! How far the slowest of many equal devices lies from their mean.
//!
//! Devices of one model differ in the clock that power and heat leave them: 8 % between the ends of the usual range
//! (the whiskers, 5.4 standard deviations) of matrix products on five clusters of 216 to 27,648 GPUs, thus about 1.5 %
//! (Sinha et al. 2022, "Not All GPUs Are Created Equal", SC'22). In a synchronous step all wait for the slowest, and
//! the more there are, the slower it is.

/// Mean of the largest of `devices` independent standard normal numbers (Blom's formula, within 0.03 of the truth).
pub fn deviations(devices: u64) -> f64 {
    let n = devices.max(1) as f64;
    // The rank of the largest as a quantile, from above.
    let above = 0.625 / (n + 0.25);
    upper_quantile(above.min(0.5))
}

/// The number that a standard normal one exceeds with probability `p`, at most a half (Abramowitz and Stegun 26.2.23,
/// within 0.00045).
fn upper_quantile(p: f64) -> f64 {
    let t = (-2.0 * p.ln()).sqrt();
    t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
}
