//! Programs, ranks and communicators become a world.

use std::sync::Arc;

use super::groups::Group;
use super::templates::{Programs, VariantPrograms};
use super::{PlanError, Setup, Variant};
use crate::pipeline::Pipeline;
use stepsim_core::ids::{CommId, DeviceId, ProgramId, RankId, ResourceId, TierId, TransferId};
use stepsim_core::known::number_of;
use stepsim_core::program::{Program, Rank, Resource, Span, Tier, TierUse, World};
use stepsim_core::units::Time;
use stepsim_fabric::collective::{CollectiveError, Lowering};
use stepsim_fabric::topology::{Axis, CopyDirection, Layout, Machine};

/// Puts programs, ranks and communicators together.
pub(super) struct Assembly<'a, 'm> {
    pub machine: &'a Machine,
    pub layout: &'a Layout,
    pub setup: &'a Setup<'a>,
    pub used: &'a [Vec<Vec<TransferId>>],
    pub lowering: &'a mut Lowering<'m>,
    /// The variant that tells a rank's program from others of its pipeline rank.
    pub variant: &'a dyn Fn(RankId) -> Variant,
}

/// A slot that has no communicator yet.
const UNBOUND: CommId = CommId(u32::MAX);

impl Assembly<'_, '_> {
    /// `all`: the programs of every variant; they differ in their kernels alone.
    pub fn world(mut self, all: Programs) -> Result<World, PlanError> {
        let Some(VariantPrograms { pipeline, .. }) = all.written.first() else { return Ok(World::default()) };
        let mut world = World {
            resources: (0..self.machine.resources())
                .map(|r| Resource { capacity: self.machine.capacity(ResourceId(r)) })
                .collect(),
            ..World::default()
        };
        let mut names: Vec<Arc<str>> = Vec::new();
        world.tiers = (0..self.machine.tiers())
            .map(|t| {
                let (name, capacity) = self.machine.tier(TierId(t));
                let known = names.iter().position(|known| **known == *name).unwrap_or_else(|| {
                    names.push(name.into());
                    names.len() - 1
                });
                Tier { name: names[known].clone(), capacity }
            })
            .collect();
        let slots: Vec<u32> =
            pipeline.slots.iter().map(|s| (self.setup.shares.groups.len() + s.len()) as u32).collect();
        let programs = self.programs(&all);
        for r in 0..self.layout.ranks() {
            let rank = RankId(r);
            let program = programs.binary_search(&self.runs(rank)).unwrap_or(0);
            self.add_rank(&mut world, rank, ProgramId(program as u32), &slots);
        }
        for slot in 0..self.setup.shares.groups.len() {
            self.bind_group(&mut world, slot as u16)?;
        }
        self.bind_channels(&mut world, pipeline)?;
        for (written, own) in all.written.iter().zip(all.of) {
            let own = (0..).zip(own);
            let run = own.filter(|(stage, _)| programs.binary_search(&(written.variant, *stage)).is_ok());
            world.programs.extend(run.map(|(_, program)| program));
        }
        Ok(world)
    }

    /// Variant and pipeline rank of a rank: what decides its program.
    fn runs(&self, rank: RankId) -> (Variant, u32) {
        ((self.variant)(rank), self.layout.coordinate(rank, Axis::Pp))
    }
    /// The programs that some rank runs, in the order of variants and pipeline ranks.
    fn programs(&self, all: &Programs) -> Vec<(Variant, u32)> {
        let run: std::collections::BTreeSet<(Variant, u32)> =
            (0..self.layout.ranks()).map(|r| self.runs(RankId(r))).collect();
        let of_variant = |(written, own): (&VariantPrograms, &Vec<Arc<Program>>)| {
            let variant = written.variant;
            (0..own.len() as u32).map(|stage| (variant, stage)).collect::<Vec<_>>()
        };
        all.written.iter().zip(&all.of).flat_map(of_variant).filter(|p| run.contains(p)).collect()
    }

    fn add_rank(&self, world: &mut World, rank: RankId, program: ProgramId, slots: &[u32]) {
        let stage = self.layout.coordinate(rank, Axis::Pp);
        let device = self.layout.device(rank);
        let start = world.slots.len() as u32;
        world.slots.resize(world.slots.len() + slots[stage as usize] as usize, UNBOUND);
        let tiers = world.tier_uses.len() as u32;
        world.tier_uses.extend(self.machine.tiers_of(device).map(|tier| TierUse { tier, count: 1 }));
        let uses = world.uses.len() as u32;
        world.uses.extend(self.machine.memory_resource(device).map(|memory| (memory, 1)));
        let memory = Span { start: uses, len: world.uses.len() as u32 - uses };
        world.ranks.push(Rank {
            program,
            slots: Span { start, len: slots[stage as usize] },
            tiers: Span { start: tiers, len: world.tier_uses.len() as u32 - tiers },
            memory,
            slowness: 1.0,
            jitter_seed: 0,
        });
    }

    /// A communicator for every group of one kind.
    fn bind_group(&mut self, world: &mut World, slot: u16) -> Result<(), PlanError> {
        let group = self.setup.shares.groups[usize::from(slot)];
        let mut members = Vec::new();
        let mut devices = Vec::new();
        for r in 0..self.layout.ranks() {
            let rank = RankId(r);
            if world.slots_of(rank)[usize::from(slot)] != UNBOUND {
                continue;
            }
            self.setup.shares.degrees.members(self.layout, rank, group, &mut members);
            if !members.contains(&rank) {
                members.clear();
                members.push(rank);
            }
            devices.clear();
            devices.extend(members.iter().map(|m| self.layout.device(*m)));
            let mut transfers: Vec<TransferId> = Vec::new();
            let stages = members.iter().map(|m| self.layout.coordinate(*m, Axis::Pp) as usize);
            for transfer in stages.take(2).flat_map(|stage| &self.used[stage][usize::from(slot)]) {
                number_of(&mut transfers, *transfer);
            }
            let comm = if group.is_local() {
                let (route, latency) = local_route(self.machine, self.layout.device(rank), group)?;
                self.lowering.channel(world, &[rank], &route, latency, &transfers)
            } else {
                self.lowering.comm(world, &members, &devices, &transfers)?
            };
            members.iter().for_each(|m| world.bind(*m, slot, comm));
        }
        Ok(())
    }

    /// A communicator for each pipeline channel of each pipeline.
    fn bind_channels(&mut self, world: &mut World, pipeline: &Pipeline) -> Result<(), PlanError> {
        let first = self.setup.shares.groups.len();
        let transfers = self.setup.messages.transfers();
        // The first slot of each channel at its two ends.
        let mut ends: Vec<[(u32, u16); 2]> = vec![[(u32::MAX, 0); 2]; pipeline.channels.len()];
        for (rank, slots) in pipeline.slots.iter().enumerate() {
            for (i, channel) in slots.iter().enumerate().rev() {
                let end = usize::from(pipeline.channels[*channel as usize].from.rank != rank as u32);
                ends[*channel as usize][end] = (rank as u32, (first + i) as u16);
            }
        }
        // Channels of one rank to another differ in their slots alone: one for each pair of virtual stages and
        // direction.
        let mut twins: Vec<Option<usize>> = Vec::with_capacity(ends.len());
        for (i, [(from, _), (to, _)]) in ends.iter().enumerate() {
            let same = |[(a, _), (b, _)]: &[(u32, u16); 2]| (a, b) == (from, to);
            twins.push(ends[..i].iter().position(same));
        }
        let mut comms: Vec<CommId> = Vec::with_capacity(ends.len());
        world.comms.reserve(ends.len() * (self.layout.ranks() as usize / pipeline.slots.len().max(1)));
        let stages = pipeline.slots.len() as u32;
        // A front has ranks of its own number.
        let first = u32::from(self.setup.shares.degrees.front.is_some());
        for channel in ends.iter().filter(|ends| ends.iter().any(|end| end.0 < first)) {
            self.bind_across(world, channel, &transfers)?;
        }
        for r in self.layout.stage(first) {
            let mut coords = self.layout.coords(r);
            let at = (first..stages).map(|stage| {
                coords[Axis::Pp as usize] = stage;
                self.layout.rank(coords)
            });
            let at: Vec<RankId> = at.collect();
            comms.clear();
            for ([(from, from_slot), (to, to_slot)], twin) in ends.iter().zip(&twins) {
                if *from.min(to) < first {
                    comms.push(UNBOUND);
                    continue;
                }
                let members = [from, to].map(|stage| at[(stage - first) as usize]);
                let devices = members.map(|m| self.layout.device(m));
                let comm = match twin {
                    Some(first) => world.add_twin(comms[*first]),
                    None => self.lowering.comm(world, &members, &devices, &transfers)?,
                };
                comms.push(comm);
                world.bind(members[0], *from_slot, comm);
                world.bind(members[1], *to_slot, comm);
            }
        }
        Ok(())
    }
}

impl Assembly<'_, '_> {
    /// A communicator for each message of a micro-batch between two stages with unequal numbers of ranks: each rank
    /// of the one has as many in a row as it is ranks of the other.
    fn bind_across(
        &mut self,
        world: &mut World,
        ends: &[(u32, u16); 2],
        transfers: &[TransferId],
    ) -> Result<(), PlanError> {
        let ranks = ends.map(|(stage, _)| self.layout.stage(stage));
        let messages = ranks[0].len().max(ranks[1].len());
        for message in 0..messages {
            let fans = [0, 1].map(|end| messages / ranks[end].len());
            let members = [0, 1].map(|end| ranks[end][message / fans[end]]);
            let devices = members.map(|member| self.layout.device(member));
            let comm = self.lowering.comm(world, &members, &devices, transfers)?;
            for end in [0, 1] {
                world.bind(members[end], ends[end].1 + (message % fans[end]) as u16, comm);
            }
        }
        Ok(())
    }
}

/// The links that a copy, or an update by the host, occupies, and its latency.
///
/// Between two tiers: the way from the one to the device and back to the other, less what both have in common. An
/// update reads and writes the memory that holds the state: its last link, both ways (a half-duplex one twice).
fn local_route(
    machine: &Machine,
    device: DeviceId,
    group: Group,
) -> Result<(Vec<ResourceId>, Time), PlanError> {
    let way = |tier: u8, direction| {
        let mut links = Vec::new();
        let latency = machine
            .copy_route(device, usize::from(tier), direction, &mut links)
            .map_err(|e| PlanError::Collective(CollectiveError::NotConnected(e.to_string())))?;
        Ok::<_, PlanError>((links, latency))
    };
    use CopyDirection::{In, Out, OutPastCache};
    match group {
        Group::CopyIn(tier) => way(tier, In),
        Group::CopyOut(tier) => way(tier, Out),
        Group::PastCache(0, tier) => way(tier, OutPastCache),
        Group::TierIn(from, to) | Group::TierOut(from, to) | Group::PastCache(from, to) => {
            let towards = if matches!(group, Group::PastCache(..)) { OutPastCache } else { Out };
            let ((source, latency), (target, _)) = (way(from, In)?, way(to, towards)?);
            let (out, _) = way(from, Out)?;
            let common = out.iter().zip(&target).take_while(|(a, b)| a == b).count();
            Ok(([&source[..source.len() - common], &target[common..]].concat(), latency))
        }
        Group::HostUpdate(tier) => {
            let mut links = Vec::new();
            let route = machine.update_route(device, usize::from(tier), &mut links);
            route.map_err(|e| PlanError::Collective(CollectiveError::NotConnected(e.to_string())))?;
            Ok((links, Time::ZERO))
        }
        _ => Ok((Vec::new(), Time::ZERO)),
    }
}
