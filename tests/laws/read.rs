//! What a planned step says that it does, summed over all ranks: what laws are about.

use std::collections::BTreeMap;

use stepsim::core::ids::RankId;
use stepsim::core::kernel_class::KernelClass;
use stepsim::core::program::{MemoryWhen, Phase, StreamKind, Work};
use stepsim::plan::step::Plan;
use stepsim::spec::WorkloadSpec;
use stepsim::spec::workload::Granularity;

/// Sums over all ranks.
#[derive(Clone, Default)]
pub struct Sums {
    /// FLOPs of kernels by name; those that repeat others for recomputation apart.
    pub flops: BTreeMap<String, f64>,
    pub repeated: f64,
    /// FLOPs of kernels that mix tokens with one another, without those that are repeated: of fused attention backward,
    /// which makes its scores once more, and of the others.
    pub mixing: [f64; 2],
    /// Bytes of messages by name; those that are repeated for recomputation apart.
    pub bytes: BTreeMap<String, f64>,
    /// Bytes of messages within layers, forward and repeated.
    pub within: BTreeMap<String, [f64; 2]>,
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
                        if let Some(class) = info.class.filter(|class| class.mixes()) {
                            sums.mixing[usize::from(class != KernelClass::AttentionBackward)] += info.flops;
                        }
                        *sums.flops.entry(info.name.to_string()).or_default() += info.flops
                    }
                    Work::Comm { .. } => {
                        let name = info.name.to_string();
                        let within = match program.streams[usize::from(op.stream)].kind {
                            StreamKind::Tensor | StreamKind::Context | StreamKind::Expert => info.layer,
                            _ => None,
                        };
                        if within.is_some() && (repeats || info.phase == Phase::Forward) {
                            sums.within.entry(name.clone()).or_default()[usize::from(repeats)] += info.bytes;
                        }
                        if !repeats {
                            *sums.bytes.entry(name).or_default() += info.bytes;
                        }
                    }
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
    /// Where whole layers are computed again, their messages are sent again.
    ///
    /// # Errors
    /// A message that is sent less or more often.
    pub fn sent_again(&self, w: &WorkloadSpec) -> Result<(), String> {
        let r = &w.recompute;
        let whole = r.granularity == Granularity::Full && r.layers.is_none() && w.modules.is_empty();
        if !whole || w.training.frozen_layers > 0 || w.training.reference {
            return Ok(());
        }
        let broken = self.within.iter().find(|(_, [forward, again])| !alike(*forward, *again));
        broken.map_or(Ok(()), |(name, [forward, again])| {
            Err(format!("`{name}`: {forward} bytes forward, {again} again"))
        })
    }
    pub fn bytes_of(&self, name: &str) -> f64 {
        self.bytes.get(name).copied().unwrap_or(0.0)
    }
}

/// Whether two sums are one but for rounding.
pub fn alike(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}
