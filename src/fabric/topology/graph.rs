//! The graph under a machine: vertices, links, and the resources that a crossing occupies.

use petgraph::graph::{EdgeIndex, NodeIndex, UnGraph};

use stepsim_core::ids::{DeviceId, ResourceId, TierId};
use stepsim_core::known::number_of;
use stepsim_core::units::{Bandwidth, Time};
use stepsim_spec::Device;
use stepsim_spec::topology::{Duplex, Link as LinkSpec};

/// The kind of a vertex of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineVertex {
    /// An accelerator.
    Device(DeviceId),
    /// A memory tier instance; nothing passes through it.
    Memory(TierId),
    /// A switch, host, NIC or gateway: its class and its number within the class.
    Switch {
        /// Index into the classes.
        class: u32,
        /// Number within the class.
        index: u32,
    },
}

/// The properties that all switches of one class share.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SwitchClass {
    pub name: String,
    /// True if the number belongs to the name (a drawn vertex has a name of its own).
    pub numbered: bool,
    pub latency: Time,
}

/// The properties that all links of one class share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LinkClass {
    /// From the edge's source to its target, and back.
    pub capacity: [Bandwidth; 2],
    /// Limit of both directions together.
    pub combined: Option<Bandwidth>,
    /// Both directions are one resource.
    pub half: bool,
    pub latency: Time,
}

impl LinkClass {
    pub fn of(link: &LinkSpec) -> LinkClass {
        let capacity = Bandwidth::from_gbps(link.gbps * link.efficiency);
        LinkClass {
            capacity: [capacity; 2],
            combined: link.combined_gbps.map(Bandwidth::from_gbps),
            half: link.duplex == Duplex::Half,
            latency: Time::from_us(link.latency_us),
        }
    }
    /// A device's own memory, whose reads and writes share its bandwidth; `None` if that is unlimited.
    pub fn memory(device: &Device) -> Option<LinkClass> {
        device.hbm.as_ref()?;
        let capacity = [device.memory_bandwidth(); 2];
        Some(LinkClass { capacity, combined: None, half: true, latency: Time::ZERO })
    }
    /// The same link `k` times as wide.
    pub fn times(mut self, k: f64) -> LinkClass {
        let wider = |b: Bandwidth| Bandwidth(b.0 * k);
        self.capacity = self.capacity.map(wider);
        self.combined = self.combined.map(wider);
        self
    }
    /// The same link without latency.
    pub fn instant(mut self) -> LinkClass {
        self.latency = Time::ZERO;
        self
    }
    fn resources(&self) -> u32 {
        u32::from(!self.half) + 1 + u32::from(self.combined.is_some())
    }
}

/// A link: its class and the first of its resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineLink {
    pub(super) class: u32,
    pub(super) first: u32,
}

/// A link in one direction: twice the edge's index, plus one for target to source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkHop(pub u32);

impl LinkHop {
    pub const NONE: LinkHop = LinkHop(u32::MAX);

    pub fn back(self) -> LinkHop {
        LinkHop(self.0 ^ 1)
    }
    pub fn edge(self) -> EdgeIndex<u32> {
        EdgeIndex::new(self.0 as usize / 2)
    }
    /// 0 from source to target, 1 back.
    pub fn direction(self) -> usize {
        self.0 as usize % 2
    }
    /// `n` edges of one kind further on.
    pub fn plus(self, n: u32) -> LinkHop {
        LinkHop(self.0 + 2 * n)
    }
}

/// Vertices and links with their classes.
#[derive(Clone, Debug, Default)]
pub(super) struct Net {
    pub graph: UnGraph<MachineVertex, MachineLink, u32>,
    pub links: Vec<LinkClass>,
    pub switches: Vec<SwitchClass>,
    /// For each resource its edge times four plus its part: 0 forward, 1 back, 2 both together.
    resources: Vec<u32>,
    /// True if some link that messages may cross has one limit for both ways.
    pub both_ways: bool,
}

impl Net {
    pub fn link_class(&mut self, class: LinkClass) -> u32 {
        number_of(&mut self.links, class)
    }
    pub fn switch_class(&mut self, name: &str, numbered: bool, latency_us: f64) -> u32 {
        self.switches.push(SwitchClass { name: name.into(), numbered, latency: Time::from_us(latency_us) });
        (self.switches.len() - 1) as u32
    }
    pub fn switch(&mut self, class: u32, index: u32) -> NodeIndex<u32> {
        self.graph.add_node(MachineVertex::Switch { class, index })
    }
    /// Adds a link and returns the hop from `a` to `b`.
    pub fn link(&mut self, a: NodeIndex<u32>, b: NodeIndex<u32>, class: u32) -> LinkHop {
        let first = self.resources.len() as u32;
        let edge = self.graph.add_edge(a, b, MachineLink { class, first }).index() as u32;
        let of = self.links[class as usize];
        self.resources.push(edge * 4);
        if !of.half {
            self.resources.push(edge * 4 + 1);
        }
        if of.combined.is_some() {
            self.resources.push(edge * 4 + 2);
        }
        assert_eq!(self.resources.len() as u32 - first, of.resources());
        self.both_ways |= of.half || of.combined.is_some();
        LinkHop(edge * 2)
    }
    pub fn resources(&self) -> u32 {
        self.resources.len() as u32
    }
    /// The resources that crossing a hop occupies.
    pub fn occupy(&self, hop: LinkHop, resources: &mut Vec<ResourceId>) {
        let link = self.graph[hop.edge()];
        let class = &self.links[link.class as usize];
        let direction = if class.half { 0 } else { hop.direction() as u32 };
        resources.push(ResourceId(link.first + direction));
        if class.combined.is_some() {
            resources.push(ResourceId(link.first + class.resources() - 1));
        }
    }
    /// Latency of crossing a hop, without the vertices at its ends.
    pub fn latency(&self, hop: LinkHop) -> Time {
        self.links[self.graph[hop.edge()].class as usize].latency
    }
    /// The vertex that a hop leads to.
    pub fn head(&self, hop: LinkHop) -> NodeIndex<u32> {
        let edge = &self.graph.raw_edges()[hop.edge().index()];
        if hop.direction() == 0 { edge.target() } else { edge.source() }
    }
    /// Port-to-port latency of a vertex.
    pub fn transit(&self, vertex: NodeIndex<u32>) -> Time {
        match self.graph[vertex] {
            MachineVertex::Switch { class, .. } => self.switches[class as usize].latency,
            _ => Time::ZERO,
        }
    }
    /// Latency of the link that a resource is of.
    pub fn latency_of(&self, resource: ResourceId) -> Time {
        let edge = &self.graph.raw_edges()[self.resources[resource.index()] as usize / 4];
        self.links[edge.weight.class as usize].latency
    }
    pub fn capacity(&self, resource: ResourceId) -> Bandwidth {
        let code = self.resources[resource.index()];
        let class = &self.links[self.graph.raw_edges()[code as usize / 4].weight.class as usize];
        match code % 4 {
            2 => class.combined.unwrap_or(class.capacity[0]),
            part => class.capacity[part as usize],
        }
    }
    /// The ends of the link that a resource is of, in its direction, and whether it counts both directions.
    pub fn ends(&self, resource: ResourceId) -> (NodeIndex<u32>, NodeIndex<u32>, bool) {
        let code = self.resources[resource.index()];
        let edge = &self.graph.raw_edges()[code as usize / 4];
        let half = self.links[edge.weight.class as usize].half;
        match code % 4 {
            1 => (edge.target(), edge.source(), false),
            part => (edge.source(), edge.target(), part == 2 || half),
        }
    }
}
