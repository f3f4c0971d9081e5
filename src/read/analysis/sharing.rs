//! Who shared a link with a transfer while it took longer than alone.
//!
//! A transfer is held back by the link with least for each of the flows that crossed it meanwhile. Flows are summed over
//! all that cross a link, merged ones as often as they are: a folded run says what the whole one says.

use rustc_hash::{FxHashMap, FxHashSet};

use super::cause::Causes;
use stepsim_core::ids::{CommId, OpId, RankId, ResourceId};
use stepsim_core::program::StreamKind;
use stepsim_core::units::Time;

/// The communicators on each link and the times at which they were at work, looked up when somebody asks.
#[derive(Debug, Default)]
pub struct LinkSharing {
    on: Option<FxHashMap<ResourceId, Vec<CommId>>>,
    spans: FxHashMap<CommId, Vec<(Time, Time)>>,
    copies_away: Option<FxHashSet<CommId>>,
}

impl LinkSharing {
    /// Of the links that a communication crosses, the one that most communicators used at some time of a stretch, and
    /// how many they were; `None` if no other did.
    pub fn most(
        &mut self,
        causes: &Causes,
        (rank, op): (RankId, OpId),
        (from, until): (Time, Time),
    ) -> Option<(ResourceId, u32)> {
        let own = causes.comm(rank, op)?;
        let mut best: Option<(ResourceId, u32)> = None;
        for link in links_of(causes, own) {
            let on = self.on.get_or_insert_with(|| by_link(causes)).get(&link);
            let mut busy = |comm: &&CommId| {
                let spans = self.spans.entry(**comm).or_insert_with(|| spans(causes, **comm));
                let first = spans.partition_point(|span| span.1 <= from);
                spans.get(first).is_some_and(|span| span.0 < until)
            };
            let sharers = on.map_or(&[][..], Vec::as_slice).iter().filter(&mut busy).count() as u32;
            if sharers > best.map_or(1, |best| best.1) {
                best = Some((link, sharers));
            }
        }
        best
    }

    /// True if copies away from devices crossed the link that held a communication back.
    pub(super) fn copies_away(&mut self, causes: &Causes, rank: RankId, op: OpId) -> bool {
        let Some(own) = causes.comm(rank, op) else { return false };
        let (world, (from, until)) = (causes.world(), causes.span(rank, op));
        let mut held: Option<(f64, bool)> = None;
        for link in links_of(causes, own) {
            let on = self.on.get_or_insert_with(|| by_link(causes)).get(&link);
            let away = self.copies_away.get_or_insert_with(|| copies_away(causes));
            let (mut load, mut beside) = (0u128, false);
            for comm in on.into_iter().flatten() {
                let spans = self.spans.entry(*comm).or_insert_with(|| spans(causes, *comm));
                let first = spans.partition_point(|span| span.1 <= from);
                let during = spans[first..].iter().take_while(|span| span.0 < until);
                let time: u64 = during.map(|span| span.1.min(until).0 - span.0.max(from).0).sum();
                load += u128::from(time) * u128::from(crossings(causes, *comm, link));
                beside |= time > 0 && away.contains(comm);
            }
            let left = world.resources()[link.index()].capacity.0 / load.max(1) as f64;
            held = match held {
                Some((least, _)) if left > least => held,
                Some((least, before)) if left == least => Some((least, before || beside)),
                _ => Some((left, beside)),
            };
        }
        held.is_some_and(|(_, beside)| beside)
    }
}

/// How often all paths of a communicator cross a link.
fn crossings(causes: &Causes, comm: CommId, link: ResourceId) -> u64 {
    let world = causes.world();
    let paths = 0..world.comms[comm.index()].paths.len;
    let on_link = paths.flat_map(|path| world.path(comm, path)).filter(|(other, _)| *other == link);
    on_link.map(|(_, times)| u64::from(*times)).sum()
}

/// The communicators over which devices copy away.
fn copies_away(causes: &Causes) -> FxHashSet<CommId> {
    let world = causes.world();
    let of_rank = |rank: u32| {
        let (rank, program) = (RankId(rank), world.program_of(RankId(rank)));
        let streams = program.streams.iter().filter(|stream| stream.kind == StreamKind::CopyOut);
        let mut comms: Vec<CommId> =
            streams.flat_map(|s| &s.ops).filter_map(|op| causes.comm(rank, *op)).collect();
        comms.sort_unstable();
        comms.dedup();
        comms
    };
    (0..world.ranks.len() as u32).flat_map(of_rank).collect()
}

/// The links of all paths of a communicator, each once.
pub fn links_of(causes: &Causes, comm: CommId) -> Vec<ResourceId> {
    let world = causes.world();
    let paths = 0..world.comms[comm.index()].paths.len;
    let mut links: Vec<ResourceId> =
        paths.flat_map(|path| world.path(comm, path).iter().map(|(link, _)| *link)).collect();
    links.sort_unstable();
    links.dedup();
    links
}

fn by_link(causes: &Causes) -> FxHashMap<ResourceId, Vec<CommId>> {
    let mut on: FxHashMap<ResourceId, Vec<CommId>> = FxHashMap::default();
    for comm in (0..causes.world().comms.len() as u32).map(CommId) {
        for link in links_of(causes, comm) {
            on.entry(link).or_default().push(comm);
        }
    }
    on
}

/// When a communicator was at work, in order of time.
fn spans(causes: &Causes, comm: CommId) -> Vec<(Time, Time)> {
    let world = causes.world();
    let Some(&rank) = world.members_of(comm).first() else { return Vec::new() };
    let by_slot = world.slots_of(rank).iter().zip(&causes.index_of(rank).by_slot);
    let ops = by_slot.filter(|(of, _)| **of == comm).flat_map(|(_, ops)| ops);
    let mut spans: Vec<(Time, Time)> = ops.map(|op| causes.span(rank, *op)).collect();
    spans.sort_unstable();
    spans
}
