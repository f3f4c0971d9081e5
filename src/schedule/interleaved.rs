//! Interleaved 1F1B in Megatron's order: v chunks per rank take turns, group by group of micro-batches.
//!
//! The virtual micro-batches of a rank are listed as: for each group of G micro-batches, for each chunk, for each
//! micro-batch of the group. Rank r warms up with min(mv, 2(p−1−r) + (v−1)G) forwards, then runs forward and backward
//! in turn; the backwards read the same table with the chunks mirrored. Bubble (p−1)(tF + tB)/v if p divides m; peak
//! min(mv, 2(p−1−r) + (v−1)G + 1) chunks. Larger groups cost memory and hide transfers. Sources: Narayanan et al.
//! 2021; Megatron-LM `core/pipeline_parallel/schedules.py` (`microbatch_group_size_per_vp_stage`).
//!
//! Hazard: a last group smaller than p would starve the ranks (p = 4, v = 2, m = 6, G = 4, all times 1: bubble 9.5 in
//! place of 4.5); Megatron refuses it, and so does this.

use super::order::Lister;
use super::{
    Bubble, ChunkCount, Order, Pass, PassTimes, Schedule, ScheduleError, ScheduleFacts, Shape,
    StagePlacement, Turns,
};

/// See the page of its file.
pub struct InterleavedOneFOneB;

impl Schedule for InterleavedOneFOneB {
    fn facts(&self) -> ScheduleFacts {
        ScheduleFacts {
            aliases: &["interleaved"],
            chunks: ChunkCount::AtLeast(2, 2),
            groups: true,
            needs: "groups of at least as many micro-batches as stages",
            ..ScheduleFacts::new("interleaved-1f1b", "1F1B with several chunks per rank (Megatron's order)")
        }
    }
    fn order(&self, shape: &Shape) -> Result<Order, ScheduleError> {
        let (p, m, v) = shape.checked(self)?;
        let group = shape.group.unwrap_or(p);
        if !legal(p, m, group) {
            return Err(refusal(self, p, m, group));
        }
        Ok(interleaved(p, m, v, group))
    }
    fn turns(&self, shape: &Shape) -> Option<Turns> {
        let group = shape.group.unwrap_or(shape.ranks);
        Some(Turns { from: 2 * (group + shape.ranks), every: group })
    }
    fn bubble(&self, shape: &Shape, times: &PassTimes) -> Option<Bubble> {
        let whole = shape.micro_batches.is_multiple_of(shape.ranks);
        Bubble::fill_and_drain(shape.ranks, shape.chunks_under(self), times).filter(|_| whole)
    }
    fn peak(&self, shape: &Shape) -> Option<Vec<u32>> {
        Some(peak(
            shape.ranks,
            shape.micro_batches,
            shape.chunks_under(self),
            shape.group.unwrap_or(shape.ranks),
        ))
    }
}

/// min(mv, 2(p−1−r) + (v−1)G + 1) on rank r.
pub(super) fn peak(p: u32, m: u32, v: u16, group: u32) -> Vec<u32> {
    let v = u32::from(v);
    (0..p).map(|r| (m * v).min(2 * (p - 1 - r) + (v - 1) * group + 1)).collect()
}

/// True if Megatron runs m micro-batches in groups of that size on p ranks.
fn legal(p: u32, m: u32, group: u32) -> bool {
    (p..=m).contains(&group) && (m.is_multiple_of(group) || m % group >= p)
}

fn refusal(schedule: &dyn Schedule, p: u32, m: u32, group: u32) -> ScheduleError {
    let problem = if group < p {
        format!("groups of {group} micro-batches are smaller than the {p} stages")
    } else if m < group {
        format!("{m} micro-batches do not fill one group of {group}")
    } else {
        format!(
            "with {m} micro-batches in groups of {group}, the last group has {}, fewer than the {p} stages",
            m % group
        )
    };
    let groups: Vec<_> = (p..=m).filter(|&g| legal(p, m, g)).take(4).map(|g| g.to_string()).collect();
    let g = group.max(p);
    let below = (1..m).rev().find(|&n| legal(p, n, g)).map(|n| format!("{n} or "));
    let above = (m..=m.saturating_add(g)).find(|&n| legal(p, n, g)).unwrap_or(g);
    let mut remedy = String::new();
    if !groups.is_empty() {
        remedy = format!("{m} micro-batches run in groups of {}; ", groups.join(", "));
    }
    remedy += &format!("groups of {g} run with {}{above} micro-batches", below.unwrap_or_default());
    ScheduleError::new(schedule, problem, remedy)
}

/// The order for any numbers, legal or not.
pub(super) fn interleaved(p: u32, m: u32, v: u16, group: u32) -> Order {
    let mut table = Vec::with_capacity(m as usize * v as usize);
    for first in (0..m).step_by(group as usize) {
        let last = first.saturating_add(group).min(m);
        table.extend((0..v).flat_map(|chunk| (first..last).map(move |i| (chunk, i))));
    }
    let rank = |r: u32| {
        let warm_up = 2 * (p - 1 - r) as usize + (v as usize - 1) * group as usize;
        let w = warm_up.min(table.len());
        let mut list = Lister::default();
        let forward = |list: &mut Lister, k: usize| list.push(Pass::Forward, table[k].0, table[k].1);
        let backward =
            |list: &mut Lister, k: usize| list.push(Pass::Backward, v - 1 - table[k].0, table[k].1);
        (0..w).for_each(|k| forward(&mut list, k));
        for k in 0..table.len() - w {
            forward(&mut list, w + k);
            backward(&mut list, k);
        }
        (table.len() - w..table.len()).for_each(|k| backward(&mut list, k));
        list.slots
    };
    Order { placement: StagePlacement::looped(p, v), micro_batches: m, ranks: (0..p).map(rank).collect() }
}
