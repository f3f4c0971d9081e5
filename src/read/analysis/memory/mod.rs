//! How full the tiers were, class by class, at every moment.
//!
//! The level of a tier starts at what is resident, rises when ops start and falls when ops start or end, as their
//! memory effects say. All effects of one instant are one point of the curve. A tier that several ranks share sums
//! over them; in a folded world each rank counts as often as its `TierUse::count` says.
//!
//! Law: final level = resident + allocations − frees.
//!
//! Hazard: a communication op takes its bytes when its own rank arrives, which may be before its recorded start. The
//! record does not hold arrivals, so the ledger is replayed: an op takes its bytes when it is ready. Only where that
//! overfills the tier can it have waited for room; it then takes them as early as the tier allows. That is exact but
//! for which of several ops that waited at once got the room first.

mod reading;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cause::Causes;
pub use reading::MemoryReading;
pub(crate) use reading::by_tier;
use stepsim_core::engine::Record;
use stepsim_core::ids::{RankId, TierId};
use stepsim_core::program::{MemoryClass, MemoryWhen, Work, World};
use stepsim_core::units::{Bytes, Time};

/// A memory tier at its fullest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TierReport {
    /// The highest level.
    pub peak_bytes: u64,
    /// The bytes that it can hold.
    pub capacity_bytes: u64,
    /// When the peak is first reached.
    pub peak_at_s: f64,
    /// The resident bytes then: weights, gradients, optimizer, activations, workspace.
    pub by_class: BTreeMap<String, u64>,
}

/// Bytes by class: index with `class as usize`.
pub type BytesByClass = [u64; MemoryClass::ALL.len()];

/// A level over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// From when on each level holds; the first point is at time zero, times strictly increase.
    pub points: Vec<(Time, BytesByClass)>,
}

/// The highest point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// The level of all classes together.
    pub bytes: Bytes,
    /// When it is first reached.
    pub at: Time,
    /// The resident bytes then.
    pub by_class: BytesByClass,
}

impl Curve {
    /// The first highest point.
    pub fn peak(&self) -> Peak {
        let mut peak = Peak { bytes: Bytes::ZERO, at: Time::ZERO, by_class: BytesByClass::default() };
        for &(at, by_class) in &self.points {
            let bytes = Bytes(by_class.iter().sum());
            if bytes > peak.bytes {
                peak = Peak { bytes, at, by_class };
            }
        }
        peak
    }
    /// The level after the last op.
    pub fn last(&self) -> BytesByClass {
        self.points.last().map_or(BytesByClass::default(), |p| p.1)
    }
}

/// A rank that uses a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierUser {
    /// Who.
    pub rank: RankId,
    /// The rank's number for the tier; 0 is the device's own memory.
    pub tier: u8,
    /// How many alike ranks that stands for.
    pub count: u32,
}

/// Who uses each tier of a world, in the order of tiers.
pub fn users(world: &World) -> Vec<Vec<TierUser>> {
    let mut users = vec![Vec::new(); world.tiers.len()];
    for rank in (0..world.ranks.len() as u32).map(RankId) {
        for (number, used) in world.tiers_of(rank).iter().enumerate() {
            users[used.tier.index()].push(TierUser { rank, tier: number as u8, count: used.count });
        }
    }
    users
}

/// The history of one tier.
pub struct TierLedger {
    resident: Vec<(RankId, ClassLevels)>,
    changes: Vec<MemoryChange>,
}

type ClassLevels = [i64; MemoryClass::ALL.len()];

/// Bytes that come (positive) or go at a moment.
#[derive(Clone, Copy)]
struct MemoryChange {
    at: Time,
    rank: RankId,
    bytes: ClassLevels,
}

impl TierLedger {
    /// Replays one tier for its users.
    pub fn replay(causes: &Causes, tier: TierId, users: &[TierUser]) -> TierLedger {
        let resident: Vec<_> = users.iter().map(|user| (user.rank, resident(causes.world(), user))).collect();
        let level = resident.iter().map(|r| r.1.iter().sum::<i64>()).sum();
        let capacity = causes.world().tiers[tier.index()].capacity.0;
        let mut steps = Vec::new();
        for user in users {
            steps_of(causes, user, &mut steps);
        }
        TierLedger { resident, changes: play(steps, level, capacity) }
    }
    /// The level of all users together.
    pub fn curve(&self) -> Curve {
        self.curve_of(|_| true)
    }
    /// The level of one rank (as often as it counts).
    pub fn rank_curve(&self, rank: RankId) -> Curve {
        self.curve_of(|r| r == rank)
    }

    fn curve_of(&self, wanted: impl Fn(RankId) -> bool) -> Curve {
        let mut level = ClassLevels::default();
        for (_, bytes) in self.resident.iter().filter(|r| wanted(r.0)) {
            add(&mut level, bytes);
        }
        let mut points = vec![(Time::ZERO, level.map(|b| b.max(0) as u64))];
        for change in self.changes.iter().filter(|c| wanted(c.rank)) {
            add(&mut level, &change.bytes);
            let now = level.map(|b| b.max(0) as u64);
            match points.last_mut() {
                Some(last) if last.0 == change.at => last.1 = now,
                Some(last) if last.1 == now => {}
                _ => points.push((change.at, now)),
            }
        }
        Curve { points }
    }
}

/// The curve of each tier's level is long; its peak is often all that is asked for.
pub fn peaks(causes: &Causes) -> Vec<Peak> {
    let tiers = users(causes.world()).into_iter().enumerate();
    tiers.map(|(t, users)| TierLedger::replay(causes, TierId(t as u32), &users).curve().peak()).collect()
}

/// The highest level of the fullest tier of a name: the report's `peak_bytes`; `None` where the machine has none.
pub fn peak_bytes(world: &World, record: &Record, tier: &str) -> Option<u64> {
    let causes = Causes::new(world, record);
    let named = world.tiers.iter().zip(peaks(&causes)).filter(|(of, _)| *of.name == *tier);
    named.map(|(_, peak)| peak.bytes.0).max()
}

fn add(level: &mut ClassLevels, bytes: &ClassLevels) {
    for (level, bytes) in level.iter_mut().zip(bytes) {
        *level += bytes;
    }
}

fn resident(world: &World, user: &TierUser) -> ClassLevels {
    let mut level = ClassLevels::default();
    for effect in world.program_of(user.rank).resident.iter().filter(|e| e.tier == user.tier) {
        level[effect.class as usize] += i64::from(user.count) * effect.bytes as i64;
    }
    level
}

/// Something that changes a level, before it is known when exactly.
struct Effect {
    /// The earliest moment.
    at: Time,
    /// The latest: later than `at` where an op might have waited for room.
    until: Time,
    rank: RankId,
    bytes: ClassLevels,
}

/// The effects of one user's ops on its tier.
fn steps_of(causes: &Causes, user: &TierUser, out: &mut Vec<Effect>) {
    let program = causes.world().program_of(user.rank);
    for &id in &causes.index_of(user.rank).holding {
        let op = &program.ops[id.index()];
        let (mut at_start, mut at_end) = (ClassLevels::default(), ClassLevels::default());
        for effect in program.memory[op.memory.range()].iter().filter(|e| e.tier == user.tier) {
            let bytes = i64::from(user.count) * effect.bytes as i64;
            match effect.when {
                MemoryWhen::AllocAtStart => at_start[effect.class as usize] += bytes,
                MemoryWhen::FreeAtStart => at_start[effect.class as usize] -= bytes,
                MemoryWhen::FreeAtEnd => at_end[effect.class as usize] -= bytes,
            }
        }
        let (start, end) = causes.span(user.rank, id);
        let alone = causes.comm(user.rank, id).is_none_or(|c| causes.world().members_of(c).len() == 1);
        let ready = match op.work {
            Work::Comm { .. } if !alone => causes.ready(user.rank, id).time,
            _ => start,
        };
        let steps = [(ready, start, at_start), (end, end, at_end)];
        let real = steps.into_iter().filter(|s| s.2 != ClassLevels::default());
        out.extend(real.map(|(at, until, bytes)| Effect { at, until, rank: user.rank, bytes }));
    }
}

impl Effect {
    fn total(&self) -> i64 {
        self.bytes.iter().sum()
    }
}

/// Gives every step its moment. If all fit when they are ready, that is it. Else some must have waited for room:
/// each is then taken to have waited no longer than the others' known bytes made it.
fn play(steps: Vec<Effect>, resident: i64, capacity: u64) -> Vec<MemoryChange> {
    let capacity = capacity as i64;
    let mut changes: Vec<_> =
        steps.iter().map(|s| MemoryChange { at: s.at, rank: s.rank, bytes: s.bytes }).collect();
    if steps.iter().any(|s| s.until > s.at)
        && levels(steps.iter().map(|s| (s.at, s.total())), resident).1 > capacity
    {
        let (mut level, _) = levels(steps.iter().flat_map(|s| [(s.at, 0), (s.until, s.total())]), resident);
        let mut late: Vec<usize> = (0..steps.len()).filter(|&i| steps[i].until > steps[i].at).collect();
        late.sort_by_key(|&i| steps[i].until);
        for i in late {
            changes[i].at = earliest(&mut level, &steps[i], capacity);
        }
    }
    changes.sort_by_key(|c| c.at);
    changes
}

/// The level after each moment at which something changes, and the highest of them.
fn levels(changes: impl Iterator<Item = (Time, i64)>, resident: i64) -> (Vec<(Time, i64)>, i64) {
    let mut changes: Vec<_> = changes.collect();
    changes.sort_by_key(|c| c.0);
    let (mut level, mut points) = (resident, Vec::new());
    for same_time in changes.chunk_by(|a, b| a.0 == b.0) {
        level += same_time.iter().map(|c| c.1).sum::<i64>();
        points.push((same_time[0].0, level));
    }
    let highest = points.iter().map(|p| p.1).max().unwrap_or(resident);
    (points, highest)
}

/// From when on, of the points before its start, a step's bytes fit all the way; they are added there.
fn earliest(level: &mut [(Time, i64)], step: &Effect, capacity: i64) -> Time {
    let ready = level.partition_point(|p| p.0 < step.at);
    let start = level.partition_point(|p| p.0 < step.until);
    let before = &mut level[ready..start];
    let blocked = before.iter().rposition(|p| p.1 + step.total() > capacity).map_or(0, |i| i + 1);
    before[blocked..].iter_mut().for_each(|p| p.1 += step.total());
    before.get(blocked).map_or(step.until, |p| p.0)
}
