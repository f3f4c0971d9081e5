//! How long messages take on an idle machine: the closed forms of collectives over the groups of one rank.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::collective::{Chooser, CollectiveError, Geometry, Network, Op, Transfer};
use crate::ids::{DeviceId, RankId, ResourceId};
use crate::plan::step::groups::{Degrees, Group};
use crate::topology::{Axis, CopyDirection, Layout, Machine};

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
    groups: BTreeMap<Group, Geometry>,
    /// Seconds of the transfers that were asked for: layers ask for the same ones.
    known: RefCell<FxHashMap<(Group, Transfer), f64>>,
    /// To the next pipeline stage.
    pub border: Pipe,
    /// By tier number: towards the device, away from it, and in place (an update reads and writes it).
    pub copies: BTreeMap<u8, [Pipe; 3]>,
}

impl<'a> Links<'a> {
    /// Measures the groups in `groups`, the stage border and the copies to `tiers`.
    ///
    /// # Errors
    /// Two members have no route between them.
    pub fn new(
        machine: &Machine,
        layout: &Layout,
        degrees: &Degrees,
        groups: &[Group],
        tiers: &[u8],
        chooser: &'a Chooser,
    ) -> Result<Links<'a>, CollectiveError> {
        let mut found = BTreeMap::new();
        let mut members = Vec::new();
        for &group in groups.iter().filter(|group| degrees.size(**group) > 1) {
            degrees.members(layout, RankId(0), group, &mut members);
            let devices: Vec<DeviceId> = members.iter().map(|rank| layout.device(*rank)).collect();
            found.insert(group, Geometry::of(machine, &devices)?);
        }
        let copies = tiers
            .iter()
            .map(|&tier| {
                let way = |direction| copy(machine, layout.device(RankId(0)), tier, direction);
                let ((inward, read), (outward, write)) = (way(CopyDirection::In)?, way(CopyDirection::Out)?);
                Ok((tier, [inward, outward, Pipe { latency: 0.0, bandwidth: read.min(write) }]))
            })
            .collect::<Result<_, CollectiveError>>()?;
        let known = RefCell::default();
        Ok(Links { chooser, groups: found, known, border: border(machine, layout)?, copies })
    }

    /// Seconds of one collective; none in a group of one.
    ///
    /// # Errors
    /// No algorithm can run it.
    pub fn time(&self, group: Group, op: Op, bytes: f64) -> Result<f64, CollectiveError> {
        let Some(geometry) = self.groups.get(&group).filter(|_| bytes > 0.0) else { return Ok(0.0) };
        if op == Op::SendRecv {
            return Ok(geometry.flat().time(1.0, bytes));
        }
        self.transfer(group, &Transfer::new(op, bytes.round() as u64))
    }
    /// Seconds of one transfer of any kind; none in a group of one.
    ///
    /// # Errors
    /// No algorithm can run it.
    pub fn transfer(&self, group: Group, transfer: &Transfer) -> Result<f64, CollectiveError> {
        let Some(geometry) = self.groups.get(&group) else { return Ok(0.0) };
        if let Some(seconds) = self.known.borrow().get(&(group, *transfer)) {
            return Ok(*seconds);
        }
        let seconds = self.chooser.choose(transfer, geometry)?.expected_s;
        self.known.borrow_mut().insert((group, *transfer), seconds);
        Ok(seconds)
    }

    /// Whether a group has more than one member.
    pub fn has(&self, group: Group) -> bool {
        self.groups.contains_key(&group)
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
