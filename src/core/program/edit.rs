//! Changes to a finished world that have a name: what noise, comparisons and what-if studies do to it.

use std::sync::Arc;

use super::{Action, OpInfo, StreamKind, Work, World};
use crate::ids::{CommId, RankId, ResourceId};
use crate::kernel_class::KernelClass;
use crate::units::{Bandwidth, Bytes, Time};

/// One change to a world.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Communication on streams of these kinds takes no time.
    Free(Vec<StreamKind>),
    /// Memory tiers have no end.
    EndlessMemory,
    /// The kernels of a rank take this many times as long.
    SlowRank(RankId, f64),
    /// Kernels of these classes, of all if there are none, are this many times as fast. Their demand on memory in a
    /// second stays.
    Kernels(Vec<KernelClass>, f64),
    /// The latencies of all transfers are this many times as long; times that are fixed stay.
    Latency(f64),
    /// No rank waits for another's pass: sends and receives between stages take no time and meet nobody.
    NoPipeline,
    /// Kernels do not mind what runs beside them: neither compute units nor memory bandwidth that others take.
    Undisturbed,
    /// A link, port or memory has that fraction of its bandwidth: divided by the factor.
    SlowResource(ResourceId, f64),
}

impl World {
    /// Applies a change. Ranks and resources that the world does not have are left alone.
    pub fn edit(&mut self, edit: &Edit) {
        match edit {
            Edit::Free(kinds) => make_free(self, |kind| kinds.contains(&kind)),
            Edit::EndlessMemory => self.tiers.iter_mut().for_each(|tier| tier.capacity = Bytes(1 << 60)),
            Edit::SlowRank(rank, factor) => {
                if let Some(rank) = self.ranks.get_mut(rank.index()) {
                    rank.slowness *= factor;
                }
            }
            Edit::Kernels(classes, factor) => faster_kernels(self, classes, *factor),
            Edit::Latency(factor) => self.actions.iter_mut().flat_map(Action::flows_mut).for_each(|flow| {
                flow.latency = Time((flow.latency.0 as f64 * factor).round() as u64);
            }),
            Edit::NoPipeline => no_pipeline(self),
            Edit::Undisturbed => {
                let programs = self.programs.iter_mut().map(Arc::make_mut);
                programs.flat_map(|p| &mut p.ops).for_each(|op| (op.slowdown, op.memory_rate) = (0, 0.0));
            }
            Edit::SlowResource(resource, factor) => {
                if let Some(resource) = self.resources.get_mut(resource.index()) {
                    resource.capacity = Bandwidth(resource.capacity.0 / factor);
                }
            }
        }
    }
}

/// Gives kernels on devices other times, those that are meant.
fn retime(world: &mut World, meant: impl Fn(&OpInfo) -> bool, other: impl Fn(Time) -> Time) {
    for program in world.programs.iter_mut().map(Arc::make_mut) {
        for op in &mut program.ops {
            if let Work::Compute { time } = &mut op.work
                && program.streams[usize::from(op.stream)].kind == StreamKind::Compute
                && meant(&program.infos[op.info as usize])
            {
                *time = other(*time);
            }
        }
    }
}

fn faster_kernels(world: &mut World, classes: &[KernelClass], factor: f64) {
    let meant = |info: &OpInfo| classes.is_empty() || info.class.is_some_and(|c| classes.contains(&c));
    retime(world, meant, |time| Time((time.0 as f64 / factor).round() as u64));
}

fn no_pipeline(world: &mut World) {
    for program in world.programs.iter_mut().map(Arc::make_mut) {
        for op in &mut program.ops {
            if let StreamKind::PipelineSend | StreamKind::PipelineRecv =
                program.streams[usize::from(op.stream)].kind
            {
                op.work = Work::Compute { time: Time::ZERO };
            }
        }
    }
}

/// Gives every communication op on streams of the chosen kinds an action of no time.
fn make_free(world: &mut World, free: impl Fn(StreamKind) -> bool) {
    let nothing = world.actions.len() as u32;
    world.actions.push(Action::Fixed(Time::ZERO));
    // The transfers of each program by slot.
    let moved: Vec<Vec<(u16, u32)>> = world
        .programs
        .iter()
        .map(|program| {
            let ops = program.ops.iter().filter(|op| free(program.streams[usize::from(op.stream)].kind));
            let mut moved: Vec<(u16, u32)> = ops
                .filter_map(|op| match op.work {
                    Work::Comm { slot, transfer } => Some((slot, transfer.0)),
                    Work::Compute { .. } => None,
                })
                .collect();
            moved.sort_unstable();
            moved.dedup();
            moved
        })
        .collect();
    let mut transfers: Vec<(CommId, u32)> = Vec::new();
    for (rank, is) in world.ranks.iter().enumerate() {
        let slots = world.slots_of(RankId(rank as u32));
        transfers.extend(moved[is.program.index()].iter().map(|&(slot, t)| (slots[usize::from(slot)], t)));
    }
    transfers.sort_unstable();
    transfers.dedup();
    // A communicator gets a profile that differs in its free transfers; equal ones share it.
    let mut made: Vec<(u32, Vec<u32>, u32)> = Vec::new();
    let mut profiles: Vec<(usize, u32)> = Vec::new();
    for of_comm in transfers.chunk_by(|a, b| a.0 == b.0) {
        let comm = of_comm[0].0.index();
        let profile = world.comms[comm].profile;
        let set: Vec<u32> = of_comm.iter().map(|t| t.1).collect();
        let known = made.iter().find(|m| m.0 == profile && m.1 == set).map(|m| m.2);
        let new = known.unwrap_or_else(|| {
            let mut actions = world.profiles[profile as usize].clone();
            set.iter().for_each(|&t| actions[t as usize] = nothing);
            world.profiles.push(actions);
            let new = world.profiles.len() as u32 - 1;
            made.push((profile, set, new));
            new
        });
        profiles.push((comm, new));
    }
    world.comms.set_profiles(profiles.into_iter());
}
