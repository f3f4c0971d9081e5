//! How long messages take on an idle machine: the closed forms of collectives over the groups of one rank.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::known::{Groups, Known, Surroundings};
use crate::core::ids::{DeviceId, RankId, ResourceId};
use crate::step::collective::{Chooser, CollectiveError, Geometry, Network, Op, Transfer};
use crate::step::model::CommGroup;
use crate::step::plan::step::border::leaves_node;
use crate::step::plan::step::groups::{Degrees, Group};
use crate::step::spec::workload::WorkloadSpec;
use crate::step::topology::{Axis, CopyDirection, Layout, Machine};

/// One copy or one hop: latency in seconds, bandwidth in B/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pipe {
    /// Paid once.
    pub latency: f64,
    /// Rate on an idle machine.
    pub bandwidth: f64,
}

impl Pipe {
    /// Seconds for so many bytes; none for none.
    pub fn time(&self, bytes: f64) -> f64 {
        if bytes > 0.0 { self.latency + bytes / self.bandwidth } else { 0.0 }
    }
}

/// The groups of rank 0, as the machine carries them. Other ranks' groups are taken to be alike.
pub struct Links<'a> {
    chooser: &'a Chooser,
    groups: Arc<Groups>,
    known: &'a Known,
    /// What each group was asked for last, as neighbouring layers ask for the same: op, bytes and seconds.
    last: Vec<Cell<(Op, f64, f64)>>,
    /// To the next pipeline stage.
    pub border: Pipe,
    /// Members of a tensor-parallel group whose pipeline has stages on more than one node; else none.
    pub crossing: u32,
    /// By tier number: towards the device, away from it, and in place (an update reads and writes it).
    pub copies: BTreeMap<u8, [Pipe; 3]>,
}

impl<'a> Links<'a> {
    /// Measures the groups of `workload`, laid out with these degrees, the stage border and the copies to `tiers`.
    ///
    /// # Errors
    /// Two members have no route between them.
    pub fn new(
        machine: &Machine,
        workload: &WorkloadSpec,
        (layout, degrees): (&Layout, &Degrees),
        tiers: &[u8],
        chooser: &'a Chooser,
        known: &'a Known,
    ) -> Result<Links<'a>, CollectiveError> {
        let groups = known.groups(workload, degrees, || {
            let (mut found, mut members) = (Groups::new(), Vec::new());
            for group in GROUPS.into_iter().filter(|group| degrees.size(*group) > 1) {
                degrees.members(layout, RankId(0), group, &mut members);
                let devices: Vec<DeviceId> = members.iter().map(|rank| layout.device(*rank)).collect();
                let geometry = Geometry::of(machine, &devices)?;
                let number = known.number(&geometry);
                found.push((group, geometry, number));
            }
            Ok::<_, CollectiveError>(found)
        })?;
        let copies = tiers
            .iter()
            .map(|&tier| {
                let way = |direction| copy(machine, layout.device(RankId(0)), tier, direction);
                let ((inward, read), (outward, write)) = (way(CopyDirection::In)?, way(CopyDirection::Out)?);
                Ok((tier, [inward, outward, Pipe { latency: 0.0, bandwidth: read.min(write) }]))
            })
            .collect::<Result<_, CollectiveError>>()?;
        let last = groups.iter().map(|_| Cell::new((Op::SendRecv, f64::NAN, 0.0))).collect();
        let crossing = if leaves_node(machine, layout) { degrees.tensor } else { 0 };
        Ok(Links { chooser, groups, known, last, border: border(machine, layout)?, crossing, copies })
    }
    fn place(&self, group: Group) -> Option<usize> {
        self.groups.iter().position(|known| known.0 == group)
    }
    /// What layers find around them, with or without copies of shards.
    pub(super) fn surroundings(&self, copies: bool) -> Surroundings {
        let inside = INSIDE.map(|group| self.place(group).map_or(0, |at| self.groups[at].2 + 1));
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
            Op::SendRecv => self.groups[at].1.flat().time(1.0, bytes),
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
        let (_, geometry, number) = &self.groups[at];
        self.known.seconds(*number, transfer, || Ok(self.chooser.choose(transfer, geometry)?.expected_s))
    }

    /// Whether a group has more than one member.
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
const INSIDE: [Group; 6] = [
    Group::Layer(CommGroup::Tensor),
    Group::Layer(CommGroup::Context),
    Group::Layer(CommGroup::ContextInner),
    Group::Layer(CommGroup::ContextOuter),
    Group::Layer(CommGroup::Expert),
    Group::Layer(CommGroup::ExpertTensor),
];

/// All groups that a step may use.
const GROUPS: [Group; 11] = [
    INSIDE[0],
    INSIDE[1],
    INSIDE[2],
    INSIDE[3],
    INSIDE[4],
    INSIDE[5],
    Group::Gradients,
    Group::Weights,
    Group::Replicas,
    Group::ExpertGradients,
    Group::ExpertWeights,
];

/// From the first stage's rank 0 to the second stage's.
fn border(machine: &Machine, layout: &Layout) -> Result<Pipe, CollectiveError> {
    if layout.size(Axis::Pp) == 1 {
        return Ok(Pipe { latency: 0.0, bandwidth: f64::INFINITY });
    }
    let mut coords = layout.coords(RankId(0));
    coords[Axis::Pp as usize] = 1;
    let ends = [layout.device(RankId(0)), layout.device(layout.rank(coords))];
    let mut path = Vec::new();
    let route = Network::route(machine, ends[0], ends[1], &mut path);
    let latency = route.map_err(CollectiveError::NotConnected)?;
    Ok(Pipe { latency: latency.s(), bandwidth: slowest(machine, &path) * f64::from(machine.parts()) })
}

/// The way between a device and a tier, and the rate of the tier's own end of it.
fn copy(
    machine: &Machine,
    device: DeviceId,
    tier: u8,
    direction: CopyDirection,
) -> Result<(Pipe, f64), CollectiveError> {
    let mut path = Vec::new();
    let latency = machine
        .copy_route(device, usize::from(tier), direction, &mut path)
        .map_err(|e| CollectiveError::NotConnected(e.to_string()))?;
    let end = match direction {
        CopyDirection::In => path.first(),
        CopyDirection::Out => path.last(),
    };
    let memory = end.map_or(f64::INFINITY, |link| machine.capacity(*link).0);
    Ok((Pipe { latency: latency.s(), bandwidth: slowest(machine, &path) }, memory))
}

fn slowest(machine: &Machine, path: &[ResourceId]) -> f64 {
    path.iter().map(|link| machine.capacity(*link).0).fold(f64::INFINITY, f64::min)
}
