//! Factors on the time of a kernel: the slowness of its device, and jitter.

use super::code::Code;
use crate::ids::{OpId, RankId};
use crate::program::{Rank, World};
use crate::units::round;

/// Factors on the time of a rank's kernels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factors {
    /// True if kernels do not take their nominal time.
    pub vary: bool,
    slowness: f64,
    /// 0 where there is no jitter.
    jitter_seed: u64,
}

impl Factors {
    pub fn of(world: &World, rank: &Rank) -> Factors {
        let jitter_seed = if world.jitter.is_empty() { 0 } else { rank.jitter_seed };
        let slowness = rank.slowness;
        Factors { vary: slowness != 1.0 || jitter_seed != 0, slowness, jitter_seed }
    }

    /// Picoseconds of a kernel that nothing disturbs, by the world's table of jitter.
    #[inline]
    pub fn time_of(&self, jitter: &[f64], code: &Code) -> u64 {
        self.time(jitter, code.op, code.value)
    }

    #[inline]
    fn time(&self, jitter: &[f64], op: u32, nominal: u64) -> u64 {
        if !self.vary {
            return nominal;
        }
        let mut factor = self.slowness;
        if self.jitter_seed != 0 {
            let draw = mix(self.jitter_seed ^ mix(u64::from(op)));
            // A division takes longer than all else here, and tables have a power of two entries.
            let entries = jitter.len() as u64;
            let entry = if entries.is_power_of_two() { draw & (entries - 1) } else { draw % entries };
            factor *= jitter[entry as usize];
        }
        round(nominal as f64 * factor)
    }
}

/// The time of one kernel on one rank in picoseconds: the nominal time, times the rank's slowness, times its jitter for
/// this op. Losses of units or bandwidth come on top.
#[inline]
pub fn kernel_time(world: &World, rank: RankId, op: OpId, nominal: u64) -> u64 {
    Factors::of(world, &world.ranks[rank.index()]).time(&world.jitter, op.0, nominal)
}

/// SplitMix64's finisher (Steele, Lea, Flood 2014): a fixed, portable map from a counter to a uniform draw.
#[inline]
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
