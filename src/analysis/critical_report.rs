//! The critical path as a report holds it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::critical::{CriticalPath, Link};
use super::kind::OpKind;
use crate::ids::RankId;
use crate::program::{NO_MICRO_BATCH, World};
use crate::spec::kernel::KernelClass;
use crate::units::Time;

/// Of more stretches than this, those of one rank are joined whatever they do.
const MOST_STRETCHES: usize = 2000;

/// The chain of binding waits from the end of the step to its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CriticalPathReport {
    /// Ops on it.
    pub ops: u64,
    /// How often it passes from one rank to another.
    pub rank_changes: u64,
    /// Time of its ops by kind; with contention and memory it sums to the step time.
    pub by_kind_s: BTreeMap<OpKind, f64>,
    /// The part of `compute` by class of kernels.
    #[serde(default)]
    pub by_class_s: BTreeMap<KernelClass, f64>,
    /// Time that contention added.
    pub contention_s: f64,
    /// Time spent waiting for room on a full tier.
    pub memory_s: f64,
    /// The path in the order of time, without gaps: neighbours on one rank, of one phase and micro-batch, are joined.
    #[serde(default)]
    pub stretches: Vec<Stretch>,
}

/// A stretch of the critical path on one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stretch {
    /// The rank; of several that are alike the lowest.
    pub rank: u32,
    /// From when.
    pub start_s: f64,
    /// Until when.
    pub end_s: f64,
    /// Phase of the step; empty where several are joined.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Micro-batch, where it is of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_batch: Option<u32>,
    /// Ops of it.
    pub ops: u64,
    /// Its time by kind of op.
    pub by_kind_s: BTreeMap<OpKind, f64>,
}

/// The path of a run; `number` gives a simulated rank's number in the job.
pub fn critical_path(
    path: &CriticalPath,
    world: &World,
    number: impl Fn(RankId) -> u32,
) -> CriticalPathReport {
    let kinds = OpKind::ALL.into_iter().map(|k| (k, path.by_kind[k as usize])).filter(|k| k.1 > Time::ZERO);
    let mut classes: BTreeMap<KernelClass, Time> = BTreeMap::new();
    for link in &path.links {
        let program = world.program_of(link.rank);
        if let Some(class) = program.infos[program.ops[link.op.index()].info as usize].class {
            *classes.entry(class).or_default() += link.end - link.start;
        }
    }
    CriticalPathReport {
        ops: path.links.len() as u64,
        rank_changes: path.hops() as u64,
        by_kind_s: kinds.map(|(kind, time)| (kind, time.s())).collect(),
        by_class_s: classes.into_iter().map(|(class, time)| (class, time.s())).collect(),
        contention_s: path.contention.s(),
        memory_s: path.memory.s(),
        stretches: stretches(path, world, number),
    }
}

fn stretches(path: &CriticalPath, world: &World, number: impl Fn(RankId) -> u32) -> Vec<Stretch> {
    let what = |link: &Link| {
        let program = world.program_of(link.rank);
        let op = &program.ops[link.op.index()];
        (program.infos[op.info as usize].phase, op.micro_batch)
    };
    let same = |a: &Link, b: &Link| a.rank == b.rank && what(a) == what(b);
    let mut groups: Vec<&[Link]> = path.links.chunk_by(same).collect();
    let fine = groups.len() <= MOST_STRETCHES;
    if !fine {
        groups = path.links.chunk_by(|a, b| a.rank == b.rank).collect();
    }
    // A stretch begins where the one before it ends: the way from a host to its device belongs to the op behind it.
    let mut before = Time::ZERO;
    let stretch = |links: &[Link]| {
        let (phase, micro_batch) = what(&links[0]);
        let mut kinds: BTreeMap<OpKind, Time> = BTreeMap::new();
        let start = before;
        for link in links {
            let kind = OpKind::of(world.program_of(link.rank), link.op);
            *kinds.entry(kind).or_default() += link.end - before;
            before = link.end;
        }
        Stretch {
            rank: number(links[0].rank),
            start_s: start.s(),
            end_s: before.s(),
            phase: if fine { phase.name().into() } else { String::new() },
            micro_batch: Some(micro_batch).filter(|m| fine && *m != NO_MICRO_BATCH),
            ops: links.len() as u64,
            by_kind_s: kinds.into_iter().map(|(kind, time)| (kind, time.s())).collect(),
        }
    };
    groups.into_iter().map(stretch).collect()
}
