//! What folding reads from programs: all else it takes from the tables of the world.

use super::memory;
use crate::core::program::{Program, Work, World};

/// What the programs of a world ask of its tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Demands {
    /// By program and slot: whether an op uses it; slots behind the last one used are not listed.
    pub used: Vec<Vec<bool>>,
    /// By resource: whether kernels feel it as their memory.
    pub felt: Vec<bool>,
    /// By rank: a number; ranks of different numbers may compete for a tier.
    pub turns: Vec<u32>,
}

impl Demands {
    pub fn of(world: &World) -> Demands {
        Demands {
            used: world.programs.iter().map(|p| p.facts.copy_of(|| used_slots(p))).collect(),
            felt: world.felt_by_kernels(),
            turns: memory::turns(world),
        }
    }
}

/// Which slots the ops of a program use.
fn used_slots(program: &Program) -> Vec<bool> {
    let mut used = Vec::new();
    for op in &program.ops {
        if let Work::Comm { slot, .. } = op.work {
            let slot = usize::from(slot);
            if used.len() <= slot {
                used.resize(slot + 1, false);
            }
            used[slot] = true;
        }
    }
    used
}
