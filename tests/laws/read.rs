//! What a planned step says that it does, summed over all ranks: what laws are about.

use std::collections::BTreeMap;

use stepsim::core::ids::RankId;
use stepsim::core::program::{MemoryWhen, Phase, Work};
use stepsim::step::plan::step::Plan;

/// Sums over all ranks.
#[derive(Clone, Default)]
pub struct Sums {
    /// FLOPs of kernels by name; those that repeat others for recomputation apart.
    pub flops: BTreeMap<String, f64>,
    pub repeated: f64,
    /// Bytes of messages by name, without what is repeated.
    pub bytes: BTreeMap<String, f64>,
    /// Bytes by rank, tier and class: allocated less freed.
    pub left: BTreeMap<(u32, u8, &'static str), i128>,
}

impl Sums {
    pub fn of(plan: &Plan) -> Sums {
        let mut sums = Sums::default();
        for rank in 0..plan.world.ranks().len() as u32 {
            let program = plan.world.program_of(RankId(rank));
            for op in &program.ops {
                let info = &program.infos[op.info as usize];
                let repeats = info.phase == Phase::Recompute;
                match op.work {
                    Work::Compute { .. } if repeats => sums.repeated += info.flops,
                    Work::Compute { .. } => {
                        *sums.flops.entry(info.name.to_string()).or_default() += info.flops
                    }
                    Work::Comm { .. } if repeats => {}
                    Work::Comm { .. } => *sums.bytes.entry(info.name.to_string()).or_default() += info.bytes,
                }
                for effect in &program.memory[op.memory.range()] {
                    let left = sums.left.entry((rank, effect.tier, effect.class.name())).or_default();
                    let bytes = i128::from(effect.bytes);
                    *left += if effect.when == MemoryWhen::AllocAtStart { bytes } else { -bytes };
                }
            }
        }
        sums.flops.retain(|_, flops| *flops > 0.0);
        sums
    }
    pub fn bytes_of(&self, name: &str) -> f64 {
        self.bytes.get(name).copied().unwrap_or(0.0)
    }
}

/// Whether two sums are one but for rounding.
pub fn alike(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}
