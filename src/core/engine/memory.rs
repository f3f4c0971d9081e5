//! The ledger of the memory tiers while a run is played: levels by class, and who waits for room.

use crate::ids::{RankId, TierId};
use crate::program::{MemoryClass, MemoryEffect, MemoryWhen, TierUse, World};
use crate::units::Bytes;

/// Levels of all tiers.
#[derive(Debug)]
pub struct Ledger {
    tiers: Vec<TierLevel>,
    /// Tiers whose level is above its peak in this instant, which is over when all effects have been counted.
    grown: Vec<u32>,
}

#[derive(Debug)]
struct TierLevel {
    capacity: u64,
    bytes: u64,
    /// The highest level at the end of an instant.
    peak: u64,
    grown: bool,
    by_class: [u64; MemoryClass::ALL.len()],
    /// Streams whose head found no room, in order of arrival.
    waiting: Vec<u32>,
}

/// An allocation that does not fit: which tier, and how many bytes are asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// The tier.
    pub tier: TierId,
    /// The bytes.
    pub need: u64,
}

impl Ledger {
    /// The tiers of `world` with what is resident before the first op.
    ///
    /// # Errors
    /// The first rank whose resident bytes do not fit.
    pub fn new(world: &World) -> Result<Ledger, (RankId, NoRoom, Ledger)> {
        let tiers = world.tiers.iter().map(|t| TierLevel {
            capacity: t.capacity.0,
            bytes: 0,
            peak: 0,
            grown: false,
            by_class: [0; MemoryClass::ALL.len()],
            waiting: Vec::new(),
        });
        let mut ledger = Ledger { tiers: tiers.collect(), grown: Vec::new() };
        for r in 0..world.ranks.len() {
            let rank = RankId(r as u32);
            for effect in &world.program_of(rank).resident {
                let used = world.tiers_of(rank)[usize::from(effect.tier)];
                let bytes = effect.bytes * u64::from(used.count);
                let level = &ledger.tiers[used.tier.index()];
                if level.bytes.saturating_add(bytes) > level.capacity {
                    return Err((rank, NoRoom { tier: used.tier, need: bytes }, ledger));
                }
                ledger.add(effect.class, used.tier, bytes);
            }
        }
        Ok(ledger)
    }

    fn add(&mut self, class: MemoryClass, tier: TierId, bytes: u64) {
        let level = &mut self.tiers[tier.index()];
        level.bytes += bytes;
        level.by_class[class as usize] += bytes;
        if level.bytes > level.peak && !level.grown {
            level.grown = true;
            self.grown.push(tier.0);
        }
    }

    fn sub(&mut self, class: MemoryClass, tier: TierId, bytes: u64) {
        let level = &mut self.tiers[tier.index()];
        level.bytes = level.bytes.saturating_sub(bytes);
        level.by_class[class as usize] = level.by_class[class as usize].saturating_sub(bytes);
    }

    /// Takes what an op takes when it starts, all of it or nothing.
    pub fn start(&mut self, effects: &[MemoryEffect], tiers: &[TierUse]) -> Result<(), NoRoom> {
        for effect in effects.iter().filter(|e| e.when == MemoryWhen::AllocAtStart) {
            let tier = tiers[usize::from(effect.tier)].tier;
            let total = |when: MemoryWhen| -> u64 {
                let same =
                    effects.iter().filter(|e| e.when == when && tiers[usize::from(e.tier)].tier == tier);
                same.map(|e| e.bytes * u64::from(tiers[usize::from(e.tier)].count)).sum()
            };
            let need = total(MemoryWhen::AllocAtStart);
            let level = &self.tiers[tier.index()];
            let after = level.bytes.saturating_sub(total(MemoryWhen::FreeAtStart)).saturating_add(need);
            if after > level.capacity {
                return Err(NoRoom { tier, need });
            }
        }
        for effect in effects {
            let used = tiers[usize::from(effect.tier)];
            let bytes = effect.bytes * u64::from(used.count);
            match effect.when {
                MemoryWhen::AllocAtStart => self.add(effect.class, used.tier, bytes),
                MemoryWhen::FreeAtStart => self.sub(effect.class, used.tier, bytes),
                MemoryWhen::FreeAtEnd => {}
            }
        }
        Ok(())
    }

    /// Gives back what an op gives back when it ends.
    pub fn end(&mut self, effects: &[MemoryEffect], tiers: &[TierUse]) {
        for effect in effects.iter().filter(|e| e.when == MemoryWhen::FreeAtEnd) {
            let used = tiers[usize::from(effect.tier)];
            self.sub(effect.class, used.tier, effect.bytes * u64::from(used.count));
        }
    }

    /// True if a level may have come to a new peak in this instant.
    #[inline]
    pub fn has_grown(&self) -> bool {
        !self.grown.is_empty()
    }

    /// The instant is over: its levels count.
    pub fn settle(&mut self) {
        for tier in self.grown.drain(..) {
            let level = &mut self.tiers[tier as usize];
            level.grown = false;
            level.peak = level.peak.max(level.bytes);
        }
    }

    /// The highest level of each tier at the end of an instant.
    pub fn peaks(&self) -> Vec<Bytes> {
        self.tiers.iter().map(|level| Bytes(level.peak)).collect()
    }

    /// Lets a stream wait for room on a tier.
    pub fn wait(&mut self, tier: TierId, stream: u32) {
        self.tiers[tier.index()].waiting.push(stream);
    }

    /// Takes all streams that wait for room on a tier; they try again and may come back.
    pub fn take_waiting(&mut self, tier: TierId) -> Vec<u32> {
        std::mem::take(&mut self.tiers[tier.index()].waiting)
    }

    /// The first stream that waits for room on each tier where one does.
    pub fn waiting(&self) -> impl Iterator<Item = (u32, TierId)> + '_ {
        let tiers = self.tiers.iter().enumerate();
        tiers.filter_map(|(tier, t)| Some((*t.waiting.first()?, TierId(tier as u32))))
    }

    /// All levels, and who waits for room.
    pub fn state(&self, out: &mut Vec<u64>) {
        for level in &self.tiers {
            out.push(level.bytes);
            out.extend(level.by_class);
            out.push(level.waiting.len() as u64);
            let mut waiting = level.waiting.clone();
            waiting.sort_unstable();
            out.extend(waiting.into_iter().map(u64::from));
        }
    }

    /// Bytes on a tier now.
    pub fn level(&self, tier: TierId) -> Bytes {
        Bytes(self.tiers[tier.index()].bytes)
    }

    /// The bytes that fill a tier, by class, largest first.
    pub fn holdings(&self, tier: TierId) -> Vec<(&'static str, Bytes)> {
        let by_class = &self.tiers[tier.index()].by_class;
        let mut holds: Vec<_> = MemoryClass::ALL
            .iter()
            .map(|c| (c.name(), Bytes(by_class[*c as usize])))
            .filter(|h| h.1.0 > 0)
            .collect();
        holds.sort_by_key(|h| std::cmp::Reverse(h.1));
        holds
    }
}
