//! Arithmetic of whole runs: 6PD, and what the laws of loss say of it.
//!
//! Loss L = E + A/P^a + B/D^b. With C = 6PD its optimum is P = G·(C/6)^(b/(a+b)), G = (aA/(bB))^(1/(a+b)). The rule D
//! = 20P is P = √(C/120).
//!
//! Hazard: with the constants as Hoffmann et al. printed them (rounded) the optimum is far from their own model (92
//! tokens a parameter at Chinchilla's FLOPs); use the rule or the re-fit for optima.

/// FLOPs of training P parameters on D tokens.
pub fn flops(parameters: f64, tokens: f64) -> f64 {
    6.0 * parameters * tokens
}

/// 10¹⁵ FLOP/s for a day.
pub const PFLOP_DAY: f64 = 1e15 * 86_400.0;

/// A law of loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossLaw {
    /// Whose.
    pub name: &'static str,
    /// E, A, B.
    pub constants: [f64; 3],
    /// a, b.
    pub exponents: [f64; 2],
}

/// Hoffmann et al. 2022 (arXiv 2203.15556), approach 3; and the re-fit of their points by Besiroglu et al. 2024 (arXiv
/// 2404.10102), whose constants are from memory and not checked again.
pub const LAWS: [LossLaw; 2] = [
    LossLaw { name: "Hoffmann 2022", constants: [1.69, 406.4, 410.7], exponents: [0.34, 0.28] },
    LossLaw { name: "Besiroglu 2024", constants: [1.8172, 482.01, 2085.43], exponents: [0.3478, 0.3658] },
];

impl LossLaw {
    /// Loss of P parameters after D tokens, in nats a token.
    pub fn loss(&self, parameters: f64, tokens: f64) -> f64 {
        let [e, a, b] = self.constants;
        let [of_p, of_d] = self.exponents;
        e + a / parameters.powf(of_p) + b / tokens.powf(of_d)
    }
    /// Parameters and tokens with the least loss for `flops`.
    pub fn optimum(&self, flops: f64) -> [f64; 2] {
        let [_, a, b] = self.constants;
        let [of_p, of_d] = self.exponents;
        let g = (of_p * a / (of_d * b)).powf(1.0 / (of_p + of_d));
        let p = g * (flops / 6.0).powf(of_d / (of_p + of_d));
        [p, flops / (6.0 * p)]
    }
}

/// Parameters and tokens by the rule of 20 tokens a parameter.
pub fn twenty(flops: f64) -> [f64; 2] {
    let p = (flops / 120.0).sqrt();
    [p, 20.0 * p]
}
