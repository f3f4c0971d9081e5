//! How full the tiers were, class by class, at every moment.
//!
//! The level of a tier starts at what is resident, rises when ops start and falls when ops start or end, as their
//! memory effects say. All effects of one instant are one point of the curve. A tier that several ranks share sums
//! over them; in a folded world each rank counts as often as its `TierUse::count` says.
//!
//! Law: final level = resident + allocations − frees.

use super::cause::Causes;
use crate::ids::{OpId, RankId};
use crate::program::{MemoryClass, MemoryWhen, World};
use crate::units::{Bytes, Time};

/// Bytes by class: index with `class as usize`.
pub type ByClass = [u64; MemoryClass::ALL.len()];

/// A level over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// From when on each level holds; the first point is at time zero, times strictly increase.
    pub points: Vec<(Time, ByClass)>,
}

/// The highest point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// The level of all classes together.
    pub bytes: Bytes,
    /// When it is first reached.
    pub at: Time,
    /// What is resident then.
    pub by_class: ByClass,
}

impl Curve {
    /// The first highest point.
    pub fn peak(&self) -> Peak {
        let mut peak = Peak { bytes: Bytes::ZERO, at: Time::ZERO, by_class: ByClass::default() };
        for &(at, by_class) in &self.points {
            let bytes = Bytes(by_class.iter().sum());
            if bytes > peak.bytes {
                peak = Peak { bytes, at, by_class };
            }
        }
        peak
    }
    /// The level after the last op.
    pub fn last(&self) -> ByClass {
        self.points.last().map_or(ByClass::default(), |p| p.1)
    }
}

/// What one rank holds on one of its tiers (index into its tier bindings, 0 is the device's own memory).
pub fn rank_curve(causes: &Causes, rank: RankId, tier: u8) -> Curve {
    curve(causes, &[(rank, tier, 1)])
}

/// What all ranks hold on each tier of the world, one curve a tier.
pub fn tier_curves(causes: &Causes) -> Vec<Curve> {
    users(causes.world()).iter().map(|u| curve(causes, u)).collect()
}

/// Which ranks use each tier: rank, its number for the tier, and how many alike ranks that stands for.
pub fn users(world: &World) -> Vec<Vec<(RankId, u8, u32)>> {
    let mut users = vec![Vec::new(); world.tiers.len()];
    for r in 0..world.ranks.len() as u32 {
        for (slot, used) in world.tiers_of(RankId(r)).iter().enumerate() {
            users[used.tier.index()].push((RankId(r), slot as u8, used.count));
        }
    }
    users
}

/// Bytes that come (positive) or go at a moment.
struct Change {
    at: Time,
    class: MemoryClass,
    bytes: i64,
}

fn curve(causes: &Causes, users: &[(RankId, u8, u32)]) -> Curve {
    let mut level = [0i64; MemoryClass::ALL.len()];
    let mut changes = Vec::new();
    for &(rank, tier, count) in users {
        let program = causes.world().program_of(rank);
        let count = i64::from(count);
        for effect in program.resident.iter().filter(|e| e.tier == tier) {
            level[effect.class as usize] += count * effect.bytes as i64;
        }
        for (i, op) in program.ops.iter().enumerate().filter(|(_, op)| !op.memory.is_empty()) {
            let (start, end) = causes.record().span(rank, OpId(i as u32));
            for effect in program.memory[op.memory.range()].iter().filter(|e| e.tier == tier) {
                let bytes = count * effect.bytes as i64;
                let (at, bytes) = match effect.when {
                    MemoryWhen::AllocAtStart => (start, bytes),
                    MemoryWhen::FreeAtStart => (start, -bytes),
                    MemoryWhen::FreeAtEnd => (end, -bytes),
                };
                changes.push(Change { at, class: effect.class, bytes });
            }
        }
    }
    changes.sort_by_key(|c| c.at);
    let as_bytes = |level: &[i64; 5]| level.map(|b| b.max(0) as u64);
    let mut points = vec![(Time::ZERO, as_bytes(&level))];
    for same_time in changes.chunk_by(|a, b| a.at == b.at) {
        for change in same_time {
            level[change.class as usize] += change.bytes;
        }
        let point = (same_time[0].at, as_bytes(&level));
        match points.last_mut() {
            Some(last) if last.0 == point.0 => *last = point,
            Some(last) if last.1 == point.1 => {}
            _ => points.push(point),
        }
    }
    Curve { points }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::random_world::{self, Scenario};
    use crate::program::StreamKind;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_comes_and_stays_is_what_is_there_at_the_end(seed in any::<u64>()) {
            let s = random_world::random(seed);
            let curve = &tier_curves(&Causes::new(&s.world, &s.record))[0];
            let mut expected = [0i64; 5];
            for program in &s.world.programs {
                for e in &program.resident {
                    expected[e.class as usize] += e.bytes as i64;
                }
                for e in &program.memory {
                    let sign = if e.when == MemoryWhen::AllocAtStart { 1 } else { -1 };
                    expected[e.class as usize] += sign * e.bytes as i64;
                }
            }
            // Classes may be freed beyond what they hold in a random world; there the level stops at zero.
            for (level, expected) in curve.last().iter().zip(expected) {
                prop_assert_eq!(*level, expected.max(0) as u64);
            }
            prop_assert!(curve.points.windows(2).all(|w| w[0].0 < w[1].0));
        }
    }

    /// 100 resident; 0–2: +50 activations; 2–5: +30 workspace, freed at its end, and 50 activations freed then.
    #[test]
    fn a_peak_names_what_is_resident() {
        let mut s = Scenario::new(2);
        for r in 0..2 {
            let compute = s.stream(r, StreamKind::Compute);
            s.resident(r, MemoryClass::Weights, 100);
            s.kernel(r, compute, 2, 0);
            s.memory(r, MemoryWhen::AllocAtStart, MemoryClass::Activations, 50);
            s.kernel(r, compute, 3, 0);
            s.memory(r, MemoryWhen::AllocAtStart, MemoryClass::Workspace, 30);
            s.memory(r, MemoryWhen::FreeAtEnd, MemoryClass::Workspace, 30);
            s.memory(r, MemoryWhen::FreeAtEnd, MemoryClass::Activations, 50);
        }
        let mut s = s.finish();
        s.world.tier_uses[1].count = 3;
        let causes = Causes::new(&s.world, &s.record);
        let one = rank_curve(&causes, RankId(1), 0);
        assert_eq!(
            one.points,
            [(Time(0), [100, 0, 0, 50, 0]), (Time(2), [100, 0, 0, 50, 30]), (Time(5), [100, 0, 0, 0, 0])]
        );
        let shared = &tier_curves(&causes)[0];
        let by_class = [400, 0, 0, 200, 120];
        assert_eq!(shared.peak(), Peak { bytes: Bytes(720), at: Time(2), by_class });
    }
}
