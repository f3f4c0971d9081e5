//! Shadow prices: the time that the critical path of one run spends on each resource.
//!
//! To first order a resource that is k times as fast takes (1 − 1/k) of its time on the path off the step. That is exact
//! until the path changes, and as far as the ops on it are bound by that one resource.

use std::collections::BTreeMap;

use super::change::Subject;
use crate::Simulation;
use stepsim_core::engine::uncontended;
use stepsim_core::ids::{CommId, OpId, RankId, ResourceId, TransferId};
use stepsim_core::kernel_class::KernelClass;
use stepsim_core::program::{Flow, Work, World};
use stepsim_core::units::PS_PER_S;
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::critical::{Link, critical_path};
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_read::analysis::kind::OpKind;

/// Seconds of a critical path by resource.
#[derive(Clone, Debug, Default)]
pub struct PathTime {
    /// The ops of the path.
    pub ops: Vec<(RankId, OpId)>,
    by_class: BTreeMap<KernelClass, f64>,
    by_kind: BTreeMap<OpKind, f64>,
    by_rank: BTreeMap<u32, f64>,
    latency: f64,
    /// Launches and read-backs; updates by the host are communication with its memory.
    host: f64,
    /// By resource of the machine that limits a flow.
    by_resource: BTreeMap<ResourceId, f64>,
}

impl PathTime {
    /// The path of a run.
    pub fn of(run: &Simulation) -> PathTime {
        let world = &run.folded.world;
        let mut causes = Causes::new(world, &run.record);
        let mut idle = IdleTimes::unfolded(&run.plan.world, &run.folded.comms.representative);
        let path = critical_path(&mut causes, &mut idle);
        let mut time = PathTime::default();
        for link in &path.links {
            time.add(run, &mut idle, link);
        }
        for kind in OpKind::ALL {
            *time.by_kind.entry(kind).or_default() += path.by_kind[kind as usize].s();
        }
        time
    }

    fn add(&mut self, run: &Simulation, idle: &mut IdleTimes, link: &Link) {
        let world = &run.folded.world;
        let program = world.program_of(link.rank);
        let op = &program.ops[link.op.index()];
        let took = (link.end - link.start).s();
        self.ops.push((link.rank, link.op));
        match op.work {
            Work::Compute { .. } => {
                let class = program.infos[op.info as usize].class;
                if OpKind::of(program, link.op) == OpKind::Host {
                    self.host += took;
                }
                class.into_iter().for_each(|class| *self.by_class.entry(class).or_default() += took);
                // Of ranks that are alike, one cannot be faster alone and be on the path.
                if OpKind::of(program, link.op) == OpKind::Compute && run.folded.size(link.rank) == 1 {
                    *self.by_rank.entry(run.folded.representative(link.rank).0).or_default() += took;
                }
            }
            Work::Comm { slot, transfer } => {
                *self.by_kind.entry(OpKind::of(program, link.op)).or_default() += link.contention.s();
                let comm = world.slots_of(link.rank)[usize::from(slot)];
                let latency = idle.latency(comm, transfer).s().min(took);
                self.latency += latency;
                let comm = CommId(run.folded.comms.representative[comm.index()]);
                for (resource, share) in limits(&run.plan.world, comm, transfer) {
                    *self.by_resource.entry(resource).or_default() += share * (took - latency);
                }
            }
        }
    }

    /// Seconds on a subject; `changed` tells which resources of the machine it changes. `None` where the path cannot say.
    pub fn on(&self, subject: &Subject, changed: &dyn Fn(ResourceId) -> bool) -> Option<f64> {
        let classes = |wanted: &dyn Fn(KernelClass) -> bool| {
            self.by_class.iter().filter(|c| wanted(*c.0)).map(|c| c.1).sum::<f64>()
        };
        let kind = |k: OpKind| self.by_kind.get(&k).copied().unwrap_or(0.0);
        Some(match subject {
            Subject::Matrix => classes(&|c| c.is_matrix()),
            Subject::Memory => {
                let copies: f64 = self.by_resource.iter().filter(|r| changed(*r.0)).map(|r| r.1).sum();
                classes(&|c| !c.is_matrix()) + copies
            }
            Subject::Kernels(_, of) => classes(&|c| of.contains(&c)),
            Subject::Links(_) => self.by_resource.iter().filter(|r| changed(*r.0)).map(|r| r.1).sum(),
            Subject::Latency => self.latency,
            Subject::Host => self.host,
            Subject::Ranks(first, last) if first == last => self.by_rank.get(first).copied().unwrap_or(0.0),
            Subject::Free(of) => kind(*of),
            Subject::Exposed => self
                .by_kind
                .iter()
                .filter(|(k, _)| !matches!(k, OpKind::Compute | OpKind::Host | OpKind::Pipeline))
                .map(|k| k.1)
                .sum(),
            _ => return None,
        })
    }
}

/// The resources that limit the flows of a transfer, each with its part of their time; what limits itself is left out.
fn limits(world: &World, comm: CommId, transfer: TransferId) -> Vec<(ResourceId, f64)> {
    let profile = &world.profiles[world.comms[comm.index()].profile as usize];
    let Some(action) = profile.get(transfer.index()).and_then(|a| world.actions.get(*a as usize)) else {
        return Vec::new();
    };
    let first = world.comms[comm.index()].paths.start;
    let limited = |(flow, times): (&Flow, u32)| {
        let rate = |&(r, a): &(ResourceId, u32)| world.resources[r.index()].capacity.0 / f64::from(a);
        let path = world.path(comm, flow.path);
        let least = path.iter().min_by(|a, b| rate(a).total_cmp(&rate(b)));
        let alone = uncontended::path_rate(world, (first + flow.path) as usize).min(flow.rate_limit);
        (least.filter(|l| rate(l) <= flow.rate_limit).map(|l| l.0), f64::from(times) * flow.bytes / alone)
    };
    let times: Vec<_> = action.counted().map(limited).filter(|t| t.1 > 0.0).collect();
    let all: f64 = times.iter().map(|t| t.1).sum();
    times.into_iter().filter_map(|(resource, s)| Some((resource?, s / all.max(1.0 / PS_PER_S)))).collect()
}
