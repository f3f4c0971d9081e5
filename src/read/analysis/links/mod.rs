//! Bytes through every resource: links, ports, tier bandwidths.
//!
//! Each action that ran put `flow bytes × path coefficient` through each resource of each of its flows' paths. The
//! counts come from the programs, not from the run: what the engine let through must be that (a law of the tests).
//! Actions of fixed time use no resources and carry nothing here.

mod reading;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::idle;
use super::turns::Recurring;
pub use reading::LinksReading;
use stepsim_core::declare::one_long;
use stepsim_core::engine::Record;
use stepsim_core::ids::{CommId, OpId, RankId, ResourceId, TransferId};
use stepsim_core::program::{Action, Program, Work, World};
use stepsim_core::units::Time;

/// How many of the busiest links are listed.
pub const LISTED_LINKS: usize = 16;

/// A shared capacity, or several that carried alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkReport {
    /// Its name in the machine; of several the first.
    pub name: String,
    /// How many have its capacity and carried as much.
    #[serde(default = "one_long")]
    pub count: u64,
    /// Bytes through one.
    pub bytes: f64,
    /// Its capacity in 10⁹ bytes per second.
    #[serde(rename = "capacity_GBps")]
    pub capacity_gbps: f64,
    /// Bytes over what it could have carried in the step, 0 to 1.
    pub utilisation: f64,
}

/// The traffic of a resource in the step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkUse {
    /// Which.
    pub resource: ResourceId,
    /// Bytes.
    pub bytes: f64,
    /// Bytes over what it could have carried in the whole step, 0 to 1.
    pub utilisation: f64,
}

/// Bytes through each resource, in the order of resources.
pub fn bytes(world: &World) -> Vec<f64> {
    bytes_of(world, &transfers(world, &Recurring::default()))
}

/// The same where programs do their transfers so often.
fn bytes_of(world: &World, counts: &[BySlot]) -> Vec<f64> {
    let mut bytes = vec![0.0; world.resources.len()];
    for c in 0..world.comms.len() {
        let comm = CommId(c as u32);
        let Some(&rank) = world.members_of(comm).first() else {
            continue;
        };
        let Some(slot) = world.slots_of(rank).iter().position(|s| *s == comm) else {
            continue;
        };
        let program = world.ranks[rank.index()].program.index();
        for &SlotCount { transfer, times } in counts[program].get(slot).map_or(&[][..], Vec::as_slice) {
            for (flow, played) in idle::action(world, comm, transfer).into_iter().flat_map(Action::counted) {
                let times = times as f64 * f64::from(played);
                for &(resource, coefficient) in world.path(comm, flow.path) {
                    bytes[resource.index()] += times * flow.bytes * f64::from(coefficient);
                }
            }
        }
    }
    bytes
}

/// How often a program does a transfer on a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotCount {
    transfer: TransferId,
    times: u64,
}

/// The transfers of a program by slot.
pub(crate) type BySlot = Vec<Vec<SlotCount>>;

/// The transfers of all programs. Of ranks that share one, all do as many in a turn.
pub(crate) fn transfers(world: &World, recurring: &Recurring) -> Vec<BySlot> {
    let rank_of = |p: usize| world.ranks.iter().position(|rank| rank.program.index() == p);
    let of = |(p, program): (usize, &Arc<Program>)| {
        let rank = RankId(rank_of(p).unwrap_or_default() as u32);
        transfers_by_slot(program, recurring.of_rank(rank, program))
    };
    world.programs.iter().enumerate().map(of).collect()
}

/// For each slot of a program, how often it does each transfer.
fn transfers_by_slot(program: &Program, times: impl Fn(OpId) -> u64) -> BySlot {
    let mut slots = BySlot::new();
    for (id, op) in (0..).map(OpId).zip(&program.ops) {
        let Work::Comm { slot, transfer } = op.work else {
            continue;
        };
        let slot = usize::from(slot);
        if slots.len() <= slot {
            slots.resize(slot + 1, Vec::new());
        }
        match slots[slot].iter_mut().find(|count| count.transfer == transfer) {
            Some(found) => found.times += times(id),
            None => slots[slot].push(SlotCount { transfer, times: times(id) }),
        }
    }
    slots
}

/// Use of all resources that carried anything, busiest first.
pub fn busiest(world: &World, record: &Record) -> Vec<LinkUse> {
    busiest_of(world, &transfers(world, &Recurring::default()), record.step_end)
}

fn busiest_of(world: &World, counts: &[BySlot], end: Time) -> Vec<LinkUse> {
    let uses = bytes_of(world, counts).into_iter().enumerate().filter(|u| u.1 > 0.0).map(|(i, bytes)| {
        let resource = ResourceId(i as u32);
        LinkUse { resource, bytes, utilisation: utilisation(world, end, resource, bytes) }
    });
    let mut uses: Vec<_> = uses.collect();
    uses.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation).then(a.resource.cmp(&b.resource)));
    uses
}

/// Bytes over what a resource could have carried in the whole step.
pub(crate) fn utilisation(world: &World, end: Time, resource: ResourceId, bytes: f64) -> f64 {
    let possible = world.resources[resource.index()].capacity.0 * end.s();
    if possible > 0.0 { bytes / possible } else { 0.0 }
}

/// Links of the machine that carried alike: one capacity, and as many bytes to within a billionth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkGroup {
    /// One of them, in the world.
    pub used: LinkUse,
    /// The first of them, in the machine.
    pub first: ResourceId,
    /// How many.
    pub count: u64,
}

/// Busiest first, links with equal loads together; of equally busy ones, the one with the lowest number in the
/// machine. `meant` gives the resources of the machine that a resource of the world stands for: the first, and how
/// many. A folded world and the unfolded one give the same list.
pub fn alike(
    world: &World,
    record: &Record,
    meant: impl Fn(ResourceId) -> (ResourceId, u64),
) -> Vec<LinkGroup> {
    alike_of(world, &transfers(world, &Recurring::default()), record.step_end, meant)
}

/// The same where programs do their transfers so often, in a step that ends at `end`.
pub(crate) fn alike_of(
    world: &World,
    counts: &[BySlot],
    end: Time,
    meant: impl Fn(ResourceId) -> (ResourceId, u64),
) -> Vec<LinkGroup> {
    let capacity = |r: ResourceId| world.resources[r.index()].capacity.0;
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.max(b);
    let mut groups: Vec<LinkGroup> = Vec::new();
    let mut begun = 0;
    for used in busiest_of(world, counts, end) {
        let (first, count) = meant(used.resource);
        if groups.get(begun).is_some_and(|g| !close(g.used.utilisation, used.utilisation)) {
            begun = groups.len();
        }
        let same = |g: &&mut LinkGroup| capacity(g.used.resource) == capacity(used.resource);
        match groups[begun..].iter_mut().find(same) {
            Some(group) => {
                group.count += count;
                if first < group.first {
                    (group.first, group.used) = (first, used);
                }
            }
            None => groups.push(LinkGroup { used, first, count }),
        }
    }
    for equally_busy in groups.chunk_by_mut(|a, b| close(a.used.utilisation, b.used.utilisation)) {
        equally_busy.sort_by_key(|g| g.first);
    }
    groups
}
