//! How long messages take on an idle machine: the closed forms of collectives over the groups of one rank.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::known::{ClosedFormCache, Groups, RankPlaces, Surroundings};
use super::pipe::Pipe;
use super::unlike::{regular, slowest_group};
use stepsim_core::ids::{DeviceId, RankId, ResourceId};
use stepsim_fabric::collective::TorusAxis;
use stepsim_fabric::collective::{Chooser, CollectiveError, DomainWiring, Geometry, Network, Op, Transfer};
use stepsim_fabric::topology::{Axis, CopyDirection, Layout, Machine, Unreachable};
use stepsim_plan::step::border::leaves_node;
use stepsim_plan::step::groups::{Degrees, Group};
use stepsim_price::model::CommGroup;
use stepsim_schedule::sharding::Exchange;
use stepsim_spec::workload::{CollectiveFidelity, WorkloadSpec};

/// The groups of one rank, as the machine carries them: of each kind the slowest, where the groups of other ranks
/// differ.
pub struct RankLinks<'a> {
    chooser: &'a Chooser,
    places: Arc<RankPlaces>,
    known: &'a ClosedFormCache,
    /// The last request of each group, as neighbouring layers ask for the same: op, bytes and seconds.
    last: Vec<Cell<(Op, f64, f64)>>,
    /// Members of a tensor-parallel group whose pipeline has stages on more than one node; else none.
    pub crossing: u32,
    /// By tier number: towards the device, away from it, and in place (an update reads and writes it).
    pub copies: BTreeMap<u8, [Pipe; 3]>,
}

impl<'a> RankLinks<'a> {
    /// Measures the groups of a pipeline rank of `workload`, laid out with these degrees, the stage borders and the
    /// copies to `tiers`.
    ///
    /// # Errors
    /// Two members have no route between them.
    pub fn new(
        machine: &Machine,
        workload: &WorkloadSpec,
        (layout, degrees, pipeline_rank): (&Layout, &Degrees, u32),
        tiers: &[u8],
        chooser: &'a Chooser,
        known: &'a ClosedFormCache,
    ) -> Result<RankLinks<'a>, CollectiveError> {
        let rank = layout.rank([0, 0, 0, 0, pipeline_rank]);
        let own = degrees.on(pipeline_rank);
        let places = known.places(workload, (degrees, own.front != degrees.front), || {
            let shared = LinkSharers::new(machine, layout, workload);
            let mut found = Groups::new();
            let alike = regular(machine, (layout, degrees), workload);
            let there = |group: &Group| {
                own.size(*group) > 1
                    && match group {
                        Group::Embedding => own.ends.is_some(),
                        Group::Layer(CommGroup::Data) => workload.exchanges_images(),
                        Group::Pipeline => workload.side_ranks() > 0 && workload.trains_modules(),
                        _ => true,
                    }
            };
            let among_holders = Exchange::ALL.into_iter().flat_map(|e| [Group::Dense(e), Group::Experts(e)]);
            let outside =
                among_holders.chain([Group::Embedding, Group::Pipeline]).chain(own.dynamic_groups());
            for group in INSIDE.into_iter().chain(outside).filter(there) {
                let place = (layout, degrees, rank);
                let (mut geometry, first) = slowest_group(machine, place, group, alike, chooser)?;
                if geometry.nodes > 1 {
                    geometry = geometry.crowded(shared.by_groups(degrees, first, group));
                } else if matches!(geometry.fabric, DomainWiring::Torus(_)) {
                    let between = shared.interleaved(degrees, first, group);
                    geometry.intra.rate /= between;
                    geometry.inter.rate /= between;
                }
                let number = known.number(&geometry);
                found.push((group, geometry, number));
            }
            let borders = borders(machine, layout, &shared)?;
            Ok::<_, CollectiveError>(RankPlaces { groups: found, borders })
        })?;
        let shared = (!tiers.is_empty()).then(|| LinkSharers::new(machine, layout, workload));
        let copies = shared
            .iter()
            .flat_map(|shared| tiers.iter().map(move |tier| (shared, *tier)))
            .map(|(shared, tier)| {
                let way = |direction| {
                    let pipe = copy(machine, layout.device(rank), tier, direction)?;
                    let [crowd, at_the_tier] = shared.by_copies(layout.device(rank), tier, direction);
                    let pipe = Pipe { bandwidth: pipe.bandwidth / crowd, ..pipe };
                    Ok::<_, CollectiveError>((pipe, at_the_tier))
                };
                let (inward, readers) = way(CopyDirection::In)?;
                // As if a cache of writes were full.
                let (outward, writers) = way(CopyDirection::OutPastCache)?;
                let alone =
                    machine.update_rate(layout.device(rank), usize::from(tier)).map_err(not_connected)?;
                let in_place = Pipe { latency: 0.0, bandwidth: alone / readers.max(writers) };
                Ok((tier, [inward, outward, in_place]))
            })
            .collect::<Result<_, CollectiveError>>()?;
        let last = places.groups.iter().map(|_| Cell::new((Op::SendRecv, f64::NAN, 0.0))).collect();
        let crossing = if leaves_node(machine, layout) { own.tensor } else { 0 };
        Ok(RankLinks { chooser, places, known, last, crossing, copies })
    }
    /// From the first rank of each pipeline rank to the first of the one behind it; the last entry is the way round.
    pub fn borders(&self) -> &[Pipe] {
        &self.places.borders
    }
    fn groups(&self) -> &Groups {
        &self.places.groups
    }
    fn place(&self, group: Group) -> Option<usize> {
        self.groups().iter().position(|known| known.0 == group)
    }
    /// The surroundings of layers, with or without copies of shards.
    pub(super) fn surroundings(&self, copies: bool) -> Surroundings {
        let number = |group| self.place(group).map_or(0, |at| self.groups()[at].2 + 1);
        let dynamic =
            |known: &&(Group, Geometry, u32)| matches!(known.0, Group::Layer(CommGroup::ContextOf(_)));
        let dynamic = self.groups().iter().filter(dynamic).map(|known| known.2 + 1);
        let inside = INSIDE.into_iter().map(number).chain(dynamic).collect();
        Surroundings { inside, crosses: self.crossing > 0, copies }
    }

    /// Seconds of one collective; none in a group of one.
    ///
    /// # Errors
    /// No algorithm can run it.
    pub fn time(&self, group: Group, op: Op, bytes: f64) -> Result<f64, CollectiveError> {
        let Some(at) = self.place(group).filter(|_| bytes > 0.0) else { return Ok(0.0) };
        let (last_op, last_bytes, last_seconds) = self.last[at].get();
        if (last_op, last_bytes) == (op, bytes) {
            return Ok(last_seconds);
        }
        let seconds = match op {
            Op::SendRecv => self.groups()[at].1.flat().time(1.0, bytes),
            _ => self.seconds(at, &Transfer::new(op, bytes.round() as u64))?,
        };
        self.last[at].set((op, bytes, seconds));
        Ok(seconds)
    }
    /// Seconds of one transfer of any kind; none in a group of one.
    ///
    /// # Errors
    /// No algorithm can run it.
    pub fn transfer(&self, group: Group, transfer: &Transfer) -> Result<f64, CollectiveError> {
        self.place(group).map_or(Ok(0.0), |at| self.seconds(at, transfer))
    }
    fn seconds(&self, at: usize, transfer: &Transfer) -> Result<f64, CollectiveError> {
        let (_, geometry, number) = &self.groups()[at];
        self.known.seconds(*number, transfer, || Ok(self.chooser.choose(transfer, geometry)?.expected_s))
    }

    /// True if a group has more than one member.
    pub fn has(&self, group: Group) -> bool {
        self.place(group).is_some()
    }

    /// B/s at which one member of a group gathers: 1 GiB over the time of its all-gather by the algorithm that would
    /// run, on all rails and axes; infinite in a group of one.
    ///
    /// # Errors
    /// No algorithm can run it.
    pub fn gather_rate(&self, group: Group) -> Result<f64, CollectiveError> {
        const BYTES: u64 = 1 << 30;
        if !self.has(group) {
            return Ok(f64::INFINITY);
        }
        Ok(BYTES as f64 / self.transfer(group, &Transfer::new(Op::AllGather, BYTES))?)
    }
}

/// The groups inside layers.
const INSIDE: [Group; 7] = [
    Group::Layer(CommGroup::Tensor),
    Group::Layer(CommGroup::Context),
    Group::Layer(CommGroup::ContextInner),
    Group::Layer(CommGroup::ContextOuter),
    Group::Layer(CommGroup::Expert),
    Group::Layer(CommGroup::ExpertTensor),
    Group::Layer(CommGroup::Data),
];

/// From the first rank of each pipeline rank to the first of the one behind it, and round from the last to the first.
fn borders(
    machine: &Machine,
    layout: &Layout,
    shared: &LinkSharers<'_>,
) -> Result<Vec<Pipe>, CollectiveError> {
    let ranks = layout.size(Axis::Pp);
    if ranks == 1 {
        return Ok(Vec::new());
    }
    // Stages with other degrees have fewer ranks or more: a rank sends to one that is as far on.
    let next = |other: RankId, at: u32| {
        let [own, to] = [at, (at + 1) % ranks].map(|at| u64::from(layout.stage_size(at)));
        let place = u64::from(layout.place_in_stage(other)) * to / own;
        layout.device(layout.in_stage((at + 1) % ranks, place as u32))
    };
    let first = |at: u32| layout.in_stage(at % ranks, 0);
    let device = |at| layout.device(first(at));
    let mut path = Vec::new();
    let hop = |rank| {
        path.clear();
        let route = Network::route(machine, device(rank), device(rank + 1), &mut path);
        let latency = route.map_err(CollectiveError::NotConnected)?;
        let crowd = shared.by(first(rank), |other| {
            let same = layout.coordinate(other, Axis::Pp) == rank;
            same.then(|| (other == first(rank), next(other, rank)))
        });
        let bandwidth = slowest(machine, &path) * f64::from(machine.parts()) / crowd;
        Ok(Pipe { latency: latency.s(), bandwidth })
    };
    (0..ranks).map(hop).collect()
}

/// Who shares links with a rank: the other ranks of its node, which send when it does. Where collectives take their
/// closed form, each has its links alone.
struct LinkSharers<'a> {
    machine: &'a Machine,
    layout: &'a Layout,
    alone: bool,
    /// By node: its ranks.
    ranks: FxHashMap<u32, Vec<RankId>>,
}

impl<'a> LinkSharers<'a> {
    fn new(machine: &'a Machine, layout: &'a Layout, workload: &WorkloadSpec) -> LinkSharers<'a> {
        let mut ranks: FxHashMap<u32, Vec<RankId>> = FxHashMap::default();
        for rank in (0..layout.ranks()).map(RankId) {
            ranks.entry(machine.node_of(layout.device(rank))).or_default().push(rank);
        }
        let alone = workload.fidelity.collectives == CollectiveFidelity::Formula;
        LinkSharers { machine, layout, alone, ranks }
    }

    /// How many times as much crosses the fullest link of a rank's way as is its own group's: `to` tells for each
    /// rank of its node to whom that sends, and whether it is of the group.
    fn by(&self, rank: RankId, to: impl Fn(RankId) -> Option<(bool, DeviceId)>) -> f64 {
        let device = self.layout.device(rank);
        let Some(ranks) = self.ranks.get(&self.machine.node_of(device)).filter(|_| !self.alone) else {
            return 1.0;
        };
        let mut uses: FxHashMap<ResourceId, [u32; 2]> = FxHashMap::default();
        let mut own = Vec::new();
        let mut path = Vec::new();
        for &other in ranks {
            let Some((same, peer)) = to(other) else { continue };
            path.clear();
            if Network::route(self.machine, self.layout.device(other), peer, &mut path).is_err() {
                continue;
            }
            for link in &path {
                let uses = uses.entry(*link).or_default();
                uses[0] += 1;
                uses[1] += u32::from(same);
            }
            if other == rank {
                own.clone_from(&path);
            }
        }
        let crowd =
            own.iter().filter_map(|link| uses.get(link)).map(|[all, own]| f64::from(*all) / f64::from(*own));
        crowd.fold(1.0, f64::max)
    }

    /// The same for the groups of one kind, each of whose members sends to the next node.
    fn by_groups(&self, degrees: &Degrees, first: RankId, group: Group) -> f64 {
        let mut members = Vec::new();
        degrees.members(self.layout, first, group, &mut members);
        let own = members.clone();
        let node = |rank: RankId| self.machine.node_of(self.layout.device(rank));
        self.by(first, |rank| {
            let mut members = Vec::new();
            degrees.members(self.layout, rank, group, &mut members);
            let at = members.iter().position(|member| *member == rank)?;
            let others = members[at..].iter().chain(&members[..at]);
            let peer = others.copied().find(|other| node(*other) != node(rank))?;
            Some((own.contains(&rank), self.layout.device(peer)))
        })
    }

    /// The number of groups of one kind that share each link of an axis of a torus: members n positions apart leave
    /// room for n groups between them. Of two members that are opposite on a ring, the groups at even positions go one
    /// way round and the groups at odd ones the other.
    fn interleaved(&self, degrees: &Degrees, first: RankId, group: Group) -> u64 {
        let DomainWiring::Torus(axes) = Network::fabric(self.machine) else { return 1 };
        if self.alone {
            return 1;
        }
        let mut members = Vec::new();
        degrees.members(self.layout, first, group, &mut members);
        let at = |rank: &RankId| self.machine.coordinates(self.layout.device(*rank));
        let apart = |(k, axis): (usize, &TorusAxis)| {
            let mut places: Vec<u32> = members.iter().map(|rank| at(rank)[k]).collect();
            places.sort_unstable();
            places.dedup();
            let apart = places.windows(2).map(|two| two[1] - two[0]).max().unwrap_or(1);
            let opposite = axis.wraps && places.len() == 2 && 2 * apart == axis.len;
            if opposite { apart.div_ceil(2) } else { apart }
        };
        axes.iter().enumerate().map(apart).max().map_or(1, u64::from)
    }

    /// The same for copies from or to a tier: on the fullest link of the way, and at the tier's own end of it.
    fn by_copies(&self, device: DeviceId, tier: u8, direction: CopyDirection) -> [f64; 2] {
        let Some(ranks) = self.ranks.get(&self.machine.node_of(device)).filter(|_| !self.alone) else {
            return [1.0; 2];
        };
        let way = |device| {
            let mut path = Vec::new();
            let route = self.machine.copy_route(device, usize::from(tier), direction, &mut path);
            route.map(|_| path).unwrap_or_default()
        };
        let own = way(device);
        let mut uses = vec![0.0_f64; own.len()];
        for path in ranks.iter().map(|rank| way(self.layout.device(*rank))) {
            own.iter()
                .zip(&mut uses)
                .filter(|(link, _)| path.contains(link))
                .for_each(|(_, uses)| *uses += 1.0);
        }
        // The slowest link once all share it.
        let rate = |i: usize| self.machine.capacity(own[i]).0;
        let alone = (0..own.len()).map(rate).fold(f64::INFINITY, f64::min);
        let together = (0..own.len()).map(|i| rate(i) / uses[i]).fold(f64::INFINITY, f64::min);
        let end = match direction {
            CopyDirection::In => uses.first(),
            CopyDirection::Out | CopyDirection::OutPastCache => uses.last(),
        };
        [if together > 0.0 { alone / together } else { 1.0 }, end.copied().unwrap_or(1.0)]
    }
}

fn not_connected(e: Unreachable) -> CollectiveError {
    CollectiveError::NotConnected(e.to_string())
}

/// The way between a device and a tier.
fn copy(
    machine: &Machine,
    device: DeviceId,
    tier: u8,
    direction: CopyDirection,
) -> Result<Pipe, CollectiveError> {
    let mut path = Vec::new();
    let latency =
        machine.copy_route(device, usize::from(tier), direction, &mut path).map_err(not_connected)?;
    Ok(Pipe { latency: latency.s(), bandwidth: slowest(machine, &path) })
}

fn slowest(machine: &Machine, path: &[ResourceId]) -> f64 {
    path.iter().map(|link| machine.capacity(*link).0).fold(f64::INFINITY, f64::min)
}
