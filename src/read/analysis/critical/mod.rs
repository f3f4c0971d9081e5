//! The critical path: from the op that ended last, back through what bound each start, across ranks, to time zero.
//!
//! The links of the chain touch: each op starts when the one before it ends, or waits for memory in between. So
//! their times and those waits sum to the step time exactly. Shortening an op that is not on the chain never
//! shortens the step; where several chains are equally long, one is shown (a rank's own predecessor before its
//! waits, its own cause before a peer's).

mod reading;
mod section;

use super::cause::{Binding, Causes};
use super::idle::IdleTimes;
use super::kind::OpKind;
use super::stalls::contended_from;
use crate::core::ids::{OpId, RankId};
use crate::core::units::Time;
pub use reading::Path;
pub(crate) use reading::path_parts;
pub(crate) use section::Again;
pub use section::{CriticalPathReport, OnRank, Stretch};

/// An op on the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whose op; of a communication, the member that arrived last.
    pub rank: RankId,
    /// The op.
    pub op: OpId,
    /// When it became ready: earlier than `start` only if it waited for memory, later than the end of the link before
    /// it only by the latency of a launch.
    pub ready: Time,
    /// When it started.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// The part of it, at its end, that contention added.
    pub contention: Time,
}

/// The critical path and what it is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CriticalPath {
    /// The ops in the order of time.
    pub links: Vec<Link>,
    /// Time of the ops by kind, contention left out: index with `kind as usize`.
    pub by_kind: [Time; OpKind::ALL.len()],
    /// Time that contention added to communication on the path.
    pub contention: Time,
    /// Time that the path waited for room on a full tier.
    pub memory: Time,
}

impl CriticalPath {
    /// Time of the path on each rank that it visits, in the order of ranks: each link from the end of the one before it, so that
    /// the way of a launch is its own rank's. They sum to the step time.
    pub fn by_rank(&self) -> Vec<(RankId, Time)> {
        let before = std::iter::once(Time::ZERO).chain(self.links.iter().map(|l| l.end));
        let mut ranks: Vec<(RankId, Time)> =
            self.links.iter().zip(before).map(|(l, before)| (l.rank, l.end - before)).collect();
        ranks.sort_by_key(|r| r.0);
        ranks.chunk_by(|a, b| a.0 == b.0).map(|c| (c[0].0, c.iter().map(|r| r.1).sum())).collect()
    }
    /// How often the path passes from one rank to another.
    pub fn hops(&self) -> usize {
        self.links.windows(2).filter(|w| w[0].rank != w[1].rank).count()
    }
    /// All of it: equal to the step time.
    pub fn total(&self) -> Time {
        self.by_kind.iter().copied().sum::<Time>() + self.contention + self.memory
    }
}

/// Finds the critical path of a run.
pub fn critical_path(causes: &mut Causes, idle: &mut IdleTimes) -> CriticalPath {
    let mut path = CriticalPath::default();
    let mut next = last_op(causes);
    while let Some((rank, op)) = next {
        let (rank, op) = match causes.binding(rank, op) {
            Binding::Member(peer, theirs) => (peer, theirs),
            Binding::Memory => causes.last_arrival(rank, op).map_or((rank, op), |last| (last.rank, last.op)),
            _ => (rank, op),
        };
        let (start, end) = causes.span(rank, op);
        let own = causes.ready(rank, op);
        let contention =
            contended_from(causes, idle, rank, op).map_or(Time::ZERO, |from| end - from.min(end));
        let kind = causes.kind(rank, op);
        path.by_kind[kind as usize] += end - start - contention;
        path.contention += contention;
        path.memory += start - own.time;
        path.links.push(Link { rank, op, ready: own.time, start, end, contention });
        next = own.op().map(|before| (rank, before));
        if let Some(before) = own.op() {
            // The way from the host to the device.
            let way = own.time - causes.span(rank, before).1;
            path.by_kind[causes.kind(rank, before) as usize] += way;
        }
    }
    path.links.reverse();
    path
}

/// The op that ends last; of several, the first of the lowest rank.
fn last_op(causes: &Causes) -> Option<(RankId, OpId)> {
    let record = causes.record();
    let i = record.spans.iter().position(|&(_, end)| end == record.step_end)? as u64;
    let rank = record.first.partition_point(|&first| first <= i) - 1;
    Some((causes.first_of(RankId(rank as u32)), OpId((i - record.first[rank]) as u32)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::program::StreamKind;
    use crate::read::analysis::random_world::{self, Scenario};
    use proptest::prelude::*;

    fn path(s: &Scenario) -> CriticalPath {
        critical_path(&mut Causes::new(&s.world, &s.record), &mut IdleTimes::new(&s.world))
    }

    proptest! {
        #[test]
        fn the_path_fills_the_step(seed in any::<u64>()) {
            for s in random_world::both(seed) {
                let path = path(&s);
                prop_assert_eq!(path.total(), s.record.step_end);
                prop_assert_eq!(path.by_rank().iter().map(|r| r.1).sum::<Time>(), s.record.step_end);
                prop_assert!(path.links.windows(2).all(|w| w[0].end == w[1].ready));
            }
            let s = random_world::random(seed);
            let path = path(&s);
            // What was added for memory and contention along the path is what it reports.
            let added = |l: &Link| s.added[l.rank.index()][l.op.index()];
            prop_assert_eq!(path.memory, path.links.iter().map(|l| added(l).0).sum());
            prop_assert_eq!(path.contention, path.links.iter().map(|l| added(l).1).sum());
        }
    }

    /// Rank 1's kernel of 4 is late for the collective of 2 that rank 0 needs: 4 on rank 1, then 2, then 3 on rank 0.
    #[test]
    fn the_path_crosses_to_the_late_peer() {
        let mut s = Scenario::new(2);
        let streams: Vec<_> =
            (0..2).map(|r| (s.stream(r, StreamKind::Compute), s.stream(r, StreamKind::Tensor))).collect();
        s.kernel(0, streams[0].0, 1_000_000, 0);
        s.kernel(1, streams[1].0, 4_000_000, 0);
        s.wait_for_last_kernel(0);
        s.wait_for_last_kernel(1);
        s.comm(&[(0, streams[0].1), (1, streams[1].1)], 2_000_000, 0, 0);
        s.wait_for_last_comm(0);
        s.kernel(0, streams[0].0, 3_000_000, 0);
        let path = path(&s.finish());
        assert_eq!(path.by_kind[OpKind::Compute as usize], Time(7_000_000));
        assert_eq!(path.by_kind[OpKind::Tensor as usize], Time(2_000_000));
        let by_rank = path.by_rank();
        assert_eq!(by_rank, [(RankId(0), Time(3_000_000)), (RankId(1), Time(6_000_000))]);
        assert_eq!(path.hops(), 1);
    }
}
