//! Routes of a built machine: arithmetic on regular numbers.

use super::clos::ClosSwitches;
use super::dragonfly::{DragonflySwitches, pair};
use super::graph::LinkHop;
use super::torus::TorusLinks;
use super::wan::Wan;

/// Routes of a built machine.
#[derive(Debug)]
pub(super) struct BuiltRoutes {
    pub(super) per_node: u32,
    pub(super) nodes_per_site: u32,
    pub(super) up: Up,
    /// NICs of a node; 0 without a network.
    pub(super) nics_per_node: u32,
    pub(super) per_nic: u32,
    /// Hop from each device to its NIC's own vertex, or none where the NIC is the device's alone.
    pub(super) to_nic: Vec<LinkHop>,
    /// Hop from each NIC to its first switch.
    pub(super) uplink: Vec<LinkHop>,
    pub(super) out: Out,
    pub(super) pxn: bool,
    pub(super) parts: u32,
}

/// Routes inside a node.
#[derive(Debug)]
pub(super) enum Up {
    None,
    /// Hop from each device to its switch, consecutive from the first.
    Switch(LinkHop),
    /// Hop of the first link.
    Mesh(LinkHop),
    Torus(TorusLinks),
}

/// Routes between nodes.
#[derive(Debug)]
pub(super) enum Out {
    None,
    Clos(ClosSwitches, Option<Wan>),
    Dragonfly(DragonflySwitches),
}

impl BuiltRoutes {
    pub fn parts(&self) -> u32 {
        self.parts
    }
    /// The hops between two different devices; whether there is a way.
    pub fn route(&self, from: u32, to: u32, part: u32, cross: &mut impl FnMut(LinkHop)) -> bool {
        let (a, b) = (from / self.per_node, to / self.per_node);
        if a == b && self.inside(from, to, cross) {
            return true;
        }
        if self.nics_per_node == 0 {
            return false;
        }
        let nic = |device: u32| device % self.per_node / self.per_nic;
        let mut from = from;
        if self.pxn && nic(from) != nic(to) {
            let peer = from - from % self.per_node + to % self.per_node;
            self.inside(from, peer, cross);
            from = peer;
        }
        let ends = ((a, nic(from)), (b, nic(to)));
        self.leave(from, cross);
        if ends.0 != ends.1 {
            cross(self.uplink[(a * self.nics_per_node + ends.0.1) as usize]);
            self.between(ends.0, ends.1, part, cross);
            cross(self.uplink[(b * self.nics_per_node + ends.1.1) as usize].back());
        }
        if let Some(hop) = self.to_nic.get(to as usize) {
            cross(hop.back());
        }
        true
    }
    /// From a device to its NIC, where that is a vertex.
    fn leave(&self, device: u32, cross: &mut impl FnMut(LinkHop)) {
        if let Some(hop) = self.to_nic.get(device as usize) {
            cross(*hop);
        }
    }
    fn inside(&self, from: u32, to: u32, cross: &mut impl FnMut(LinkHop)) -> bool {
        match &self.up {
            Up::None => return false,
            Up::Switch(first) => {
                cross(first.plus(from));
                cross(first.plus(to).back());
            }
            Up::Mesh(first) => {
                let g = self.per_node;
                let (node, a, b) = (from / g, from % g, to % g);
                let hop = first.plus(node * (g * (g - 1) / 2) + pair(a.min(b), a.max(b), g));
                cross(if a < b { hop } else { hop.back() });
            }
            Up::Torus(torus) => torus.route(from, to, cross),
        }
        true
    }
    fn between(&self, from: (u32, u32), to: (u32, u32), part: u32, cross: &mut impl FnMut(LinkHop)) {
        match &self.out {
            Out::None => {}
            Out::Dragonfly(fly) => {
                let number = |end: (u32, u32)| end.0 * self.nics_per_node + end.1;
                fly.route(number(from), number(to), part, cross);
            }
            Out::Clos(clos, wan) => {
                let (a, b) = (from.0 / self.nodes_per_site, to.0 / self.nodes_per_site);
                match wan {
                    Some(wan) if a != b => {
                        clos.ascend(from, cross);
                        wan.route((a, clos.top(from.1)), (b, clos.top(to.1)), cross);
                        clos.descend(to, cross);
                    }
                    _ => clos.route(from, to, cross),
                }
            }
        }
    }
}
