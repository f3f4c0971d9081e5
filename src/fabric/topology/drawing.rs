//! Draws a machine vertex by vertex, as its file does.

use std::collections::BTreeMap;

use petgraph::graph::NodeIndex;

use super::drawn::DrawnRoutes;
use super::fabric::{MachineShape, ScaleOut, ScaleUpShape};
use super::graph::{LinkClass, LinkHop, MachineVertex, Net};
use super::machine::{DevicePlace, Machine, Router, TierClass, TierPath};
use stepsim_core::ids::{DeviceId, TierId};
use stepsim_core::known::number_of;
use stepsim_core::units::Bytes;
use stepsim_spec::topology::{Graph, Topology, Vertex as VertexSpec, VertexKind, core_gbps};
use stepsim_spec::{Device, SpecError};

/// Builds a drawn machine.
pub(super) fn machine(spec: &Topology, graph: &Graph) -> Result<Machine, SpecError> {
    let mut drawing = MachineDrawing { classes: vec![spec.device.clone()], ..MachineDrawing::default() };
    for vertex in &graph.vertices {
        drawing.vertex(vertex);
    }
    for edge in &graph.links {
        let class = drawing.net.link_class(LinkClass::of(&edge.link));
        let end = |name: &String| drawing.index[name.as_str()];
        drawing.net.link(end(&edge.from), end(&edge.to), class);
    }
    check_connected(&drawing.net, graph)?;
    drawing.device_memories();
    drawing.machine(graph)
}

/// Work in progress on a drawn machine.
#[derive(Default)]
pub(super) struct MachineDrawing<'a> {
    net: Net,
    classes: Vec<Device>,
    devices: Vec<DevicePlace>,
    vertex_of: Vec<NodeIndex<u32>>,
    tiers: Vec<TierClass>,
    tier_class: Vec<u32>,
    index: BTreeMap<&'a str, NodeIndex<u32>>,
    /// Devices of each node so far.
    filled: BTreeMap<u32, u32>,
}

impl<'a> MachineDrawing<'a> {
    fn vertex(&mut self, vertex: &'a VertexSpec) {
        let weight = match vertex.kind {
            VertexKind::Device => MachineVertex::Device(self.device(vertex)),
            VertexKind::Memory => MachineVertex::Memory(self.tier(
                vertex.tier.as_deref().unwrap_or_default(),
                Bytes::from_gib(vertex.capacity_gib.unwrap_or_default()),
            )),
            VertexKind::Switch | VertexKind::Host | VertexKind::Nic => MachineVertex::Switch {
                class: self.net.switch_class(&vertex.name, false, vertex.latency_us),
                index: 0,
            },
        };
        let at = self.net.graph.add_node(weight);
        self.index.insert(&vertex.name, at);
        if vertex.kind == VertexKind::Device {
            self.vertex_of.push(at);
        }
    }
    fn device(&mut self, vertex: &VertexSpec) -> DeviceId {
        let own = |device: &Device| number_of(&mut self.classes, device.clone());
        let class = vertex.device.as_ref().map_or(0, own);
        let hbm = self.tier("hbm", self.classes[class as usize].memory());
        let filled = self.filled.entry(vertex.node).or_default();
        let slot = std::mem::replace(filled, *filled + 1);
        self.devices.push(DevicePlace {
            class,
            node: vertex.node,
            slot,
            memory: LinkHop::NONE,
            hbm,
            tiers: (0, 0),
        });
        DeviceId(self.devices.len() as u32 - 1)
    }
    /// Adds a tier instance.
    fn tier(&mut self, name: &str, capacity: Bytes) -> TierId {
        let class = number_of(
            &mut self.tiers,
            TierClass { name: name.into(), capacity, write_cache: Bytes::default() },
        );
        self.tier_class.push(class);
        TierId(self.tier_class.len() as u32 - 1)
    }
    fn device_memories(&mut self) {
        for (place, vertex) in self.devices.iter_mut().zip(&self.vertex_of) {
            if let Some(class) = LinkClass::memory(&self.classes[place.class as usize]) {
                let memory = self.net.graph.add_node(MachineVertex::Memory(place.hbm));
                let class = self.net.link_class(class);
                place.memory = self.net.link(*vertex, memory, class);
            }
        }
    }
    /// Finds the ways to the tiers and puts everything together.
    fn machine(self, graph: &Graph) -> Result<Machine, SpecError> {
        let MachineDrawing { net, classes, mut devices, vertex_of, tiers, tier_class, index, .. } = self;
        let drawn = DrawnRoutes::new(vertex_of);
        let (mut tier_uses, mut copy_hops) = (Vec::new(), Vec::new());
        let drawn_devices = graph.vertices.iter().filter(|v| v.kind == VertexKind::Device);
        for ((device, place), vertex) in (0..).zip(devices.iter_mut()).zip(drawn_devices) {
            place.tiers = (tier_uses.len() as u32, vertex.tiers.len() as u32);
            for name in &vertex.tiers {
                let (at, start) = (index[name.as_str()], copy_hops.len() as u32);
                let found = drawn.route(&net, device, at, &mut |hop| copy_hops.push(hop));
                let MachineVertex::Memory(tier) = net.graph[at] else { continue };
                if !found {
                    let problem = format!("`{}` cannot reach its tier `{name}`", vertex.name);
                    return Err(SpecError::at("graph", problem)
                        .hint("nothing passes through a memory: link them otherwise"));
                }
                let hops = (start, copy_hops.len() as u32 - start);
                tier_uses.push(TierPath { tier, hops, past_cache: LinkHop::NONE });
            }
        }
        let nodes = devices.iter().map(|d| d.node + 1).max().unwrap_or(1);
        let fabric = MachineShape {
            node_size: (devices.len() as u32).div_ceil(nodes),
            nodes,
            sites: 1,
            repeats: None,
            sites_join: None,
            nics_per_node: 0,
            core_rate: core_gbps() * 1e9,
            scale_up: ScaleUpShape::General,
            scale_out: if nodes == 1 { ScaleOut::None } else { ScaleOut::General },
        };
        let router = Router::Drawn(drawn);
        Ok(Machine { net, classes, devices, tier_uses, copy_hops, tiers, tier_class, router, fabric })
    }
}

/// Every vertex must be reachable from the first device.
pub(super) fn check_connected(net: &Net, graph: &Graph) -> Result<(), SpecError> {
    let mut seen = vec![false; graph.vertices.len()];
    let mut open = vec![NodeIndex::new(0)];
    seen[0] = true;
    while let Some(at) = open.pop() {
        let passes = at.index() == 0 || !matches!(net.graph[at], MachineVertex::Memory(_));
        for next in net.graph.neighbors(at).filter(|_| passes) {
            if !std::mem::replace(&mut seen[next.index()], true) {
                open.push(next);
            }
        }
    }
    let lost: Vec<&str> =
        graph.vertices.iter().zip(&seen).filter(|(_, seen)| !**seen).map(|(v, _)| v.name.as_str()).collect();
    if lost.is_empty() {
        return Ok(());
    }
    let first = &graph.vertices[0].name;
    let problem = format!(
        "the graph falls apart: {} of {} vertices cannot be reached from `{first}`",
        lost.len(),
        seen.len()
    );
    let some = lost.iter().take(8).copied().collect::<Vec<_>>().join(", ");
    Err(SpecError::at("graph.links", problem).hint(format!("link these to the rest, or remove them: {some}")))
}
