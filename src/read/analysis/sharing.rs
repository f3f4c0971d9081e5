//! Who shared a link with a transfer while it took longer than alone.

use rustc_hash::FxHashMap;

use super::cause::Causes;
use stepsim_core::ids::{CommId, OpId, RankId, ResourceId};
use stepsim_core::units::Time;

/// The communicators on each link and the times at which they were at work, looked up when somebody asks.
#[derive(Debug, Default)]
pub struct LinkSharing {
    on: Option<FxHashMap<ResourceId, Vec<CommId>>>,
    spans: FxHashMap<CommId, Vec<(Time, Time)>>,
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
