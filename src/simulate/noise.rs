//! Seeded jitter of kernel times.
//!
//! A kernel's time is multiplied by exp(σ·z), z standard normal: the logarithm of every kernel's time has the standard
//! deviation σ (measured on healthy workers: 0.016 forward, 0.024 backward; StragglerAnalysis, OSDI 2025 artifact).
//! Factors are drawn once into a table with ChaCha8; each (rank, op) takes an entry by a fixed hash of its rank's
//! seed, so a rank draws the same in whatever order events come.

use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::program::World;
use crate::spec::workload::NoiseSpec;

/// Entries of the table of factors.
const FACTORS: usize = 8192;

/// Gives every rank a seed and the world a table of factors, if the workload asks for jitter.
pub fn apply(world: &mut World, noise: &NoiseSpec, seed: u64) {
    if noise.compute_sigma <= 0.0 {
        return;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let normal = |rng: &mut ChaCha8Rng| {
        // Box and Muller 1958.
        let (u, v): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    };
    world.jitter = (0..FACTORS).map(|_| (noise.compute_sigma * normal(&mut rng)).exp()).collect();
    for rank in &mut world.ranks {
        rank.jitter_seed = rng.next_u64() | 1;
    }
}
