//! Seeded noise: jitter of kernels, slow ranks, slow links.
//!
//! A kernel's time is multiplied by exp(σ·z), z standard normal, and by the slowness of its rank. Factors of kernels
//! are drawn once into a table with ChaCha8; each (rank, op) takes an entry by a fixed hash of its rank's seed, so a
//! rank draws the same in whatever order events come.
//!
//! Hazard: with fidelity `formula` no link is used, and slow links change nothing.

use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use stepsim_core::ids::{RankId, ResourceId};
use stepsim_core::program::{Edit, World};
use stepsim_fabric::topology::{Axis, Layout, Machine};
use stepsim_plan::step::Plan;
use stepsim_spec::workload::{NoiseSpec, StragglerSpec};
use stepsim_spec::{SpecError, glob};

/// Entries of the table of factors.
const FACTORS: usize = 8192;

/// Applies the noise that does not depend on the seed: named stragglers and slow links.
///
/// # Errors
/// A rank or a link that the job does not have.
pub fn apply_fixed(plan: &mut Plan, machine: &Machine, noise: &NoiseSpec) -> Result<(), SpecError> {
    for (i, straggler) in noise.stragglers.iter().enumerate() {
        if straggler.rank.is_some_and(|r| r >= u64::from(plan.layout.ranks())) {
            let path = format!("noise.stragglers[{i}].rank");
            let problem = format!("{} is not a rank of the job", straggler.rank.unwrap_or(0));
            let allowed = format!("0 to {}", plan.layout.ranks() - 1);
            return Err(SpecError::at(path, problem).allowed(allowed));
        }
        let ranks = (0..plan.layout.ranks()).map(RankId);
        let slow: Vec<RankId> = ranks.filter(|rank| meant(straggler, &plan.layout, *rank)).collect();
        slow.iter().for_each(|rank| plan.world.edit(&Edit::SlowRank(*rank, straggler.slowness)));
        if slow.is_empty() {
            let allowed = format!("coordinates of one of the {} ranks, counted from 0", plan.layout.ranks());
            let problem = SpecError::at(format!("noise.stragglers[{i}]"), "no rank has these coordinates");
            return Err(problem.allowed(allowed));
        }
    }
    for (i, slow) in noise.slow_links.iter().enumerate() {
        let resources = (0..plan.world.resources.len() as u32).map(ResourceId);
        let meant: Vec<ResourceId> =
            resources.filter(|r| glob::fits(&slow.link, &machine.resource_name(*r))).collect();
        meant.iter().for_each(|r| plan.world.edit(&Edit::SlowResource(*r, slow.slowness)));
        if meant.is_empty() {
            let name = |r: u32| machine.resource_name(ResourceId(r));
            let some: Vec<String> = (0..machine.resources().min(3)).map(name).collect();
            return Err(SpecError::at(
                format!("noise.slow_links[{i}].link"),
                format!("no link of the machine is called `{}`", slow.link),
            )
            .allowed(format!("names like `{}`, with `*` for any text", some.join("`, `")))
            .hint("the report lists the busiest links by name"));
        }
    }
    Ok(())
}

fn meant(straggler: &StragglerSpec, layout: &Layout, rank: RankId) -> bool {
    let is = |wanted: Option<u64>, have: u32| wanted.is_none_or(|w| w == u64::from(have));
    is(straggler.rank, rank.0)
        && is(straggler.pipeline_rank, layout.coordinate(rank, Axis::Pp))
        && is(straggler.data_rank, layout.coordinate(rank, Axis::Dp))
        && is(straggler.context_rank, layout.coordinate(rank, Axis::Cp))
        && is(straggler.tensor_rank, layout.coordinate(rank, Axis::Tp))
}

/// Draws the noise of a seed, on top of [`apply_fixed`] and in place of what was drawn before.
pub fn draw(world: &mut World, noise: &NoiseSpec, seed: u64) {
    if noise.compute_sigma > 0.0 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        world.jitter = (0..FACTORS).map(|_| log_normal(&mut rng, noise.compute_sigma)).collect();
        world.ranks.iter_mut().for_each(|rank| rank.jitter_seed = rng.next_u64() | 1);
    }
}

/// exp(σ·z) for a standard normal z (Box and Muller 1958).
fn log_normal(rng: &mut ChaCha8Rng, sigma: f64) -> f64 {
    let (u, v): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
    (sigma * (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()).exp()
}
