//! The machine: one graph of devices, switches, hosts and memories, and what a transfer between two of them occupies.
//!
//! Vertices are devices, memory tier instances, and switches (NICs, hosts and gateways pass things on and count as
//! such). An edge is a link. Each direction of a link is one **resource** with a capacity; a half-duplex link is one
//! resource for both; a link whose directions together are limited has a third. The resources of a transfer are those
//! of the links on its route; its latency is the sum over those links and over the switches between them, paid once,
//! before the transfer occupies them.
//!
//! ```text
//!  hbm ─ device ─ switch ─ device ─ hbm        one node (scale-up domain)
//!           ├──── host ─── memory (DRAM, CXL, NVMe)
//!           └─(nic)─ leaf ─ spine ─ leaf ─ …   fabric
//!                           └─ gateway ═══ gateway ─ …   sites
//! ```
//! Built machines compute routes by arithmetic on regular numbers; drawn ones search the graph. Names of
//! resources are made when asked for.
//!
//! Hazards: resources of links that nothing can load (both ends of a chain) exist too; `route` of a device to itself
//! is empty; the device memory's own bandwidth is part of the routes of copies, not of transfers between devices.

mod build;
mod clos;
mod dragonfly;
mod drawn;
mod fabric;
mod graph;
mod mesh;
pub mod place;
mod tiers;
mod torus;
mod wan;

use petgraph::graph::{NodeIndex, UnGraph};

use crate::ids::{DeviceId, ResourceId, TierId};
use crate::spec::{Device, Loaded, SpecError, Topology, load};
use crate::units::{Bandwidth, Bytes, Time};

pub use fabric::{Fabric, ScaleOut, ScaleUp};
pub use graph::{Link, Vertex};
pub use mesh::Mesh;
pub use place::{Axis, Layout};

use build::Built;
use drawn::Drawn;
use graph::{Hop, Net};

/// There is no way between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// Between two devices.
    #[error("no route from device {} to device {}", .0.0, .1.0)]
    Device(DeviceId, DeviceId),
    /// The device has no such memory tier.
    #[error("device {} has no memory tier number {}", .0.0, .1)]
    Tier(DeviceId, usize),
}

/// Direction of a copy between a device's memory and another tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyDirection {
    /// Towards the device.
    In,
    /// Away from the device.
    Out,
}

/// A machine.
#[derive(Debug)]
pub struct Machine {
    net: Net,
    classes: Vec<Device>,
    devices: Vec<Place>,
    /// Tiers of each device behind its own memory: `Place::tiers` is a span of it.
    tier_uses: Vec<TierUse>,
    /// Hops of the copies: `TierUse::hops` is a span of it.
    copy_hops: Vec<Hop>,
    tiers: Vec<TierClass>,
    /// Class of each tier instance.
    tier_class: Vec<u32>,
    router: Router,
    fabric: Fabric,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    class: u32,
    node: u32,
    slot: u32,
    /// Hop to its own memory, if that is limited.
    memory: Hop,
    hbm: TierId,
    tiers: (u32, u32),
}

#[derive(Clone, Copy, Debug)]
struct TierUse {
    tier: TierId,
    hops: (u32, u32),
}

#[derive(Clone, Debug, PartialEq)]
struct TierClass {
    name: String,
    capacity: Bytes,
}

#[derive(Debug)]
enum Router {
    Built(Box<Built>),
    Drawn(Drawn),
}

impl Machine {
    /// Loads a machine by name, by path, or from the form of a simple one (`switch:8,100,2`), and builds it.
    ///
    /// # Errors
    /// As [`load`] and [`Machine::build`].
    pub fn load(topology: &str, sets: &[String]) -> Result<(Loaded<Topology>, Machine), SpecError> {
        let loaded: Loaded<Topology> = load(topology, sets)?;
        let machine = Machine::build(&loaded.value).map_err(|e| e.in_file(&loaded.file))?;
        Ok((loaded, machine))
    }

    /// Builds a machine.
    ///
    /// # Errors
    /// The description does not hold together, or the graph falls apart.
    pub fn build(spec: &Topology) -> Result<Machine, SpecError> {
        build::machine(spec)
    }

    /// Number of devices.
    pub fn devices(&self) -> u32 {
        self.devices.len() as u32
    }
    /// The class of a device: its peaks, memory and compute units.
    pub fn device(&self, device: DeviceId) -> &Device {
        &self.classes[self.devices[device.index()].class as usize]
    }
    /// Number of the device's class: devices with equal numbers are alike.
    pub fn device_class(&self, device: DeviceId) -> u32 {
        self.devices[device.index()].class
    }
    /// All classes of devices; the index is a class's number.
    pub fn device_classes(&self) -> &[Device] {
        &self.classes
    }
    /// The node (scale-up domain) of a device.
    pub fn node_of(&self, device: DeviceId) -> u32 {
        self.devices[device.index()].node
    }
    /// Number of a device within its node.
    pub fn slot_in_node(&self, device: DeviceId) -> u32 {
        self.devices[device.index()].slot
    }

    /// Number of resources.
    pub fn resources(&self) -> u32 {
        self.net.resources()
    }
    /// Capacity of a resource: payload bytes per second (wire bandwidth × efficiency).
    pub fn capacity(&self, resource: ResourceId) -> Bandwidth {
        self.net.capacity(resource)
    }
    /// Latency of the link that a resource is of, without that of the switches at its ends.
    pub fn link_latency(&self, resource: ResourceId) -> Time {
        self.net.latency_of(resource)
    }
    /// Name of a resource for readers: `node3.dev5 -> nvswitch3`; `<->` where it counts both directions.
    pub fn resource_name(&self, resource: ResourceId) -> String {
        let (a, b, both) = self.net.ends(resource);
        let arrow = if both { "<->" } else { "->" };
        format!("{} {arrow} {}", self.vertex_name(a), self.vertex_name(b))
    }
    /// Name of a vertex: `node3.dev5`, `leaf12`, `host7`, or as drawn.
    pub fn vertex_name(&self, vertex: NodeIndex<u32>) -> String {
        match self.net.graph[vertex] {
            Vertex::Device(d) if self.fabric.nodes == 1 => format!("dev{}", d.0),
            Vertex::Device(d) => {
                let place = &self.devices[d.index()];
                format!("node{}.dev{}", place.node, place.slot)
            }
            Vertex::Memory(tier) => {
                let class = self.tier_class[tier.index()];
                let first = self.tier_class.iter().position(|c| *c == class).unwrap_or(0);
                format!("{}{}", self.tiers[class as usize].name, tier.index() - first)
            }
            Vertex::Switch { class, index } => {
                let class = &self.net.switches[class as usize];
                if class.numbered { format!("{}{index}", class.name) } else { class.name.clone() }
            }
        }
    }
    /// The graph under it, for readers.
    pub fn graph(&self) -> &UnGraph<Vertex, Link, u32> {
        &self.net.graph
    }
    /// How its devices are joined, in the words that collective algorithms choose by.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Appends the resources that a transfer between two devices crosses, in order, and returns its latency.
    ///
    /// # Errors
    /// There is no way between the two.
    pub fn route(
        &self,
        from: DeviceId,
        to: DeviceId,
        links: &mut Vec<ResourceId>,
    ) -> Result<Time, Unreachable> {
        self.route_part(from, to, 0, links)
    }
    /// The same for one of the [`Machine::parts`] equal parts into which transfers through the fabric split.
    ///
    /// # Errors
    /// There is no way between the two.
    pub fn route_part(
        &self,
        from: DeviceId,
        to: DeviceId,
        part: u32,
        links: &mut Vec<ResourceId>,
    ) -> Result<Time, Unreachable> {
        let mut latency = Time::ZERO;
        let mut cross = |hop| latency += self.cross(hop, links);
        let found = match &self.router {
            _ if from == to => true,
            Router::Built(built) => built.route(from.0, to.0, part, &mut cross),
            Router::Drawn(drawn) => drawn.route(&self.net, from.0, drawn.vertex(to.0), &mut cross),
        };
        if found { Ok(latency) } else { Err(Unreachable::Device(from, to)) }
    }
    /// Into how many equal parts a transfer through the fabric splits, each with a route of its own: 1 unless several
    /// sub-flows are hashed over parallel links, or a dragonfly routes adaptively.
    pub fn parts(&self) -> u32 {
        match &self.router {
            Router::Built(built) => built.parts(),
            Router::Drawn(_) => 1,
        }
    }
    /// The neighbour of a device along an axis of its torus, up or down, with the resources of the link to it and its
    /// latency; `None` at the end of a line or without a torus.
    pub fn torus_step(
        &self,
        device: DeviceId,
        axis: usize,
        up: bool,
        links: &mut Vec<ResourceId>,
    ) -> Option<(DeviceId, Time)> {
        let Router::Built(built) = &self.router else {
            return None;
        };
        let (next, hop) = built.torus()?.step(device.0, axis, up)?;
        Some((DeviceId(next), self.cross(hop, links)))
    }

    /// Number of memory tiers of a device, its own memory included.
    pub fn tier_count(&self, device: DeviceId) -> usize {
        self.devices[device.index()].tiers.1 as usize + 1
    }
    /// The tier instances of a device: its own memory first, then as the machine file lists them.
    pub fn tiers_of(&self, device: DeviceId) -> impl Iterator<Item = TierId> + use<'_> {
        let place = &self.devices[device.index()];
        std::iter::once(place.hbm).chain(self.uses_of(place).iter().map(|u| u.tier))
    }
    /// Number of tier instances of the whole machine.
    pub fn tiers(&self) -> u32 {
        self.tier_class.len() as u32
    }
    /// Kind and capacity of a tier instance.
    pub fn tier(&self, tier: TierId) -> (&str, Bytes) {
        let class = &self.tiers[self.tier_class[tier.index()] as usize];
        (&class.name, class.capacity)
    }
    /// The kinds of memory tiers that the machine has, `hbm` first.
    pub fn tier_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for tier in &self.tiers {
            if !names.contains(&tier.name.as_str()) {
                names.push(&tier.name);
            }
        }
        names
    }
    /// Number of the tier of that kind among a device's tiers.
    pub fn tier_named(&self, device: DeviceId, name: &str) -> Option<usize> {
        self.tiers_of(device).position(|tier| self.tier(tier).0 == name)
    }
    /// The resource that is a device memory's bandwidth, reads and writes together; `None` if it is unlimited.
    pub fn memory_resource(&self, device: DeviceId) -> Option<ResourceId> {
        let hop = self.devices[device.index()].memory;
        (hop != Hop::NONE).then(|| ResourceId(self.net.graph[hop.edge()].first))
    }
    /// Appends the resources that a copy between a device's memory and its tier number `tier` (1 or more) crosses, the
    /// device memory's own ([`Machine::memory_resource`]) among them, and returns its latency.
    ///
    /// # Errors
    /// The device has no such tier.
    pub fn copy_route(
        &self,
        device: DeviceId,
        tier: usize,
        direction: CopyDirection,
        links: &mut Vec<ResourceId>,
    ) -> Result<Time, Unreachable> {
        let uses = self.uses_of(&self.devices[device.index()]);
        let missing = Unreachable::Tier(device, tier);
        let tier_use = tier.checked_sub(1).and_then(|t| uses.get(t)).ok_or(missing)?;
        let (start, count) = tier_use.hops;
        let hops = &self.copy_hops[start as usize..(start + count) as usize];
        Ok(match direction {
            CopyDirection::Out => {
                links.extend(self.memory_resource(device));
                hops.iter().map(|hop| self.cross(*hop, links)).sum()
            }
            CopyDirection::In => {
                let latency = hops.iter().rev().map(|hop| self.cross(hop.back(), links)).sum();
                links.extend(self.memory_resource(device));
                latency
            }
        })
    }

    fn uses_of(&self, place: &Place) -> &[TierUse] {
        let (start, count) = place.tiers;
        &self.tier_uses[start as usize..(start + count) as usize]
    }
    /// Occupies a hop and returns its latency with that of the switch it leads to.
    fn cross(&self, hop: Hop, links: &mut Vec<ResourceId>) -> Time {
        self.net.occupy(hop, links);
        self.net.latency(hop) + self.net.transit(self.net.head(hop))
    }
}

/// A well-mixed hash of some numbers (the finalizer of splitmix64, folded over them).
fn hash(parts: &[u64]) -> u64 {
    parts.iter().fold(0, |state, part| {
        let mut z = (state ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

#[cfg(test)]
mod tests;
