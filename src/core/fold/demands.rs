//! The facts that folding reads from programs: all else it takes from the tables of the world.

use super::memory;
use crate::program::World;

/// The demands of a world's programs on its tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demands {
    /// By program and slot: whether an op uses it; slots behind the last one used are not listed.
    pub used: Vec<Vec<bool>>,
    /// By resource: whether kernels feel it as their memory.
    pub felt: Vec<bool>,
    /// By rank: a number; ranks of different numbers may compete for a tier.
    pub turns: Vec<u32>,
}

impl Demands {
    /// The demands of all programs of a world.
    pub fn of(world: &World) -> Demands {
        let of_programs = world.programs.iter().map(|p| p.facts.copy_of(|| memory::needs(p)));
        let (used, needs): (Vec<_>, Vec<_>) = of_programs.unzip();
        Demands { used, felt: world.felt_by_kernels(), turns: memory::turns(world, &needs) }
    }
}
