//! Communication by kind: how much of it the compute stream had to sit through.
//!
//! On one rank, *total* is the time that ops of a kind ran (summed over ops), *exposed* the part of it during which
//! the rank's compute stream was stalled on that very op (queued behind it and contention included), and
//! *overlapped* the rest. Waiting for a peer that has not arrived is not communication: it is no part of the total.

use super::kind::OpKind;
use super::stalls::Stall;
use crate::engine::Record;
use crate::ids::{OpId, RankId};
use crate::program::{Work, World};
use crate::units::Time;

/// Communication of one kind on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KindTime {
    /// Ops of the kind.
    pub ops: u64,
    /// Time during which they ran.
    pub total: Time,
    /// The part that stalled the compute stream.
    pub exposed: Time,
    /// Bytes of their messages on this rank.
    pub bytes: f64,
}

impl KindTime {
    /// The part that ran behind kernels, or that nothing waited for.
    pub fn overlapped(&self) -> Time {
        self.total - self.exposed
    }
}

/// All kinds on one rank: index with `kind as usize`; kernels and host work stay zero.
pub type ByKind = [KindTime; OpKind::ALL.len()];

/// The communication of one rank. `stalls` are that rank's, as [`super::stalls::stalls_of`] finds them.
pub fn overlap(world: &World, record: &Record, rank: RankId, stalls: &[Stall]) -> ByKind {
    let program = world.program_of(rank);
    let mut kinds = ByKind::default();
    for (i, op) in program.ops.iter().enumerate() {
        if let Work::Comm { .. } = op.work {
            let (start, end) = record.span(rank, OpId(i as u32));
            let kind = &mut kinds[OpKind::of(program, OpId(i as u32)) as usize];
            kind.ops += 1;
            kind.total += end - start;
            kind.bytes += program.infos[op.info as usize].bytes;
        }
    }
    for stall in stalls {
        let Some((on, op)) = stall.waited_for else {
            continue;
        };
        let ran = stall.start >= record.span(on, op).0;
        let is_comm = matches!(world.program_of(on).ops[op.index()].work, Work::Comm { .. });
        if on == rank && is_comm && ran {
            kinds[OpKind::of(program, op) as usize].exposed += stall.time();
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::cause::Causes;
    use crate::analysis::idle::IdleTimes;
    use crate::analysis::random_world::{self, Scenario};
    use crate::analysis::stalls;
    use crate::program::StreamKind;
    use proptest::prelude::*;

    fn of_rank(s: &Scenario, rank: u32) -> ByKind {
        let mut causes = Causes::new(&s.world, &s.record);
        let mut pieces = Vec::new();
        stalls::stalls_of(&mut causes, &mut IdleTimes::new(&s.world), RankId(rank), &mut pieces);
        overlap(&s.world, &s.record, RankId(rank), &pieces)
    }

    proptest! {
        #[test]
        fn no_more_is_exposed_than_there_is(seed in any::<u64>()) {
            for s in random_world::both(seed) {
                for kind in (0..s.record.ranks()).flat_map(|r| of_rank(&s, r)) {
                    prop_assert!(kind.exposed <= kind.total);
                }
            }
        }
    }

    /// A gradient bucket of 5 behind a kernel of 3: 3 overlapped, 2 exposed.
    #[test]
    fn a_bucket_longer_than_its_kernel_sticks_out() {
        let mut s = Scenario::new(1);
        let compute = s.stream(0, StreamKind::Compute);
        let data = s.stream(0, StreamKind::Data);
        s.kernel(0, compute, 1_000_000, 0);
        s.wait_for_last_kernel(0);
        s.comm(&[(0, data)], 5_000_000, 0, 0);
        s.kernel(0, compute, 3_000_000, 0);
        let dp = of_rank(&s.finish(), 0)[OpKind::Data as usize];
        assert_eq!((dp.ops, dp.total, dp.exposed), (1, Time(5_000_000), Time(2_000_000)));
        assert_eq!(dp.overlapped(), Time(3_000_000));
    }
}
