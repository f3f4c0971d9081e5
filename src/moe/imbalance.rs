//! How unevenly rows reach ranks.
//!
//! Tokens that choose independently spread almost evenly: the rows of a rank over R·T tokens have variance R·T·v, and
//! the fullest of R ranks gets 1 + z(R)·sd/mean·√(R/(R−1)) times the mean, z(R) the mean maximum of R normals. Real
//! tokens are not independent: in DeepSeek's published profile, with balanced routing, the received rows of one rank
//! varied by 8 % from layer to layer where independence gives 0.55 % (`expert_load.rows_cv`).

use super::Routing;

/// Standard deviation of the expert rows of one of `ranks` ranks, each with `tokens` independent tokens.
pub fn rows_sd(routing: &Routing, ranks: u64, tokens: u64) -> f64 {
    ((ranks * tokens) as f64 * routing.rows_variance(ranks)).sqrt()
}

/// Rows of the fullest rank over the mean where a rank's rows have this coefficient of variation.
pub fn fullest(cv: f64, ranks: u64) -> f64 {
    if ranks < 2 {
        return 1.0;
    }
    let r = ranks as f64;
    1.0 + mean_maximum(ranks) * cv * (r / (r - 1.0)).sqrt()
}

/// Mean of the largest of `n` independent standard normals: ∫ (1 − Φⁿ − Φⁿ(−x)) over x > 0, by Simpson's rule.
pub fn mean_maximum(n: u64) -> f64 {
    const STEPS: usize = 4000;
    const END: f64 = 10.0;
    let h = END / STEPS as f64;
    let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let power = |p: f64| (n as f64 * p.ln()).exp();
    let mut tail = 0.5;
    let mut sum = 0.0;
    for i in 0..=STEPS {
        let x = i as f64 * h;
        let integrand = -(n as f64 * f64::ln_1p(-tail)).exp_m1() - power(tail);
        sum += integrand
            * if i == 0 || i == STEPS {
                1.0
            } else if i % 2 == 1 {
                4.0
            } else {
                2.0
            };
        // The tail of the next point, by Simpson's rule over the step.
        tail -= h / 6.0 * (density(x) + 4.0 * density(x + h / 2.0) + density(x + h));
        tail = tail.max(f64::MIN_POSITIVE);
    }
    sum * h / 3.0
}
