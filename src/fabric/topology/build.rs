//! From a machine file to the machine: vertices and links in a regular order, so that routes are arithmetic.

use petgraph::graph::NodeIndex;

use super::builder::Builder;
use super::built::{BuiltRoutes, Out, Up};
use super::clos::{Below, ClosSwitches};
use super::dragonfly::DragonflySwitches;
use super::fabric::{MachineShape, ScaleOut};
use super::graph::{LinkClass, LinkHop, MachineVertex};
use super::machine::{DevicePlace, Router, TierClass, TierPath};
use super::tiers::Chains;
use super::torus::TorusLinks;
use super::wan::Wan;
use super::{Machine, drawing};
use stepsim_core::ids::{DeviceId, TierId};
use stepsim_core::known::number_of;
use stepsim_core::units::Bytes;
use stepsim_spec::device::Device;
use stepsim_spec::topology::{
    Clos as ClosSpec, Fabric as FabricSpec, Nics, ScaleUp as ScaleUpSpec, Topology, Via,
};
use stepsim_spec::{LoadedSpec, Spec, SpecError, load};

impl Machine {
    /// Loads a machine by name, by path, or from the form of a simple one (`switch:8,100,2`), and builds it.
    ///
    /// # Errors
    /// As [`load`] and [`Machine::build`].
    pub fn load(topology: &str, sets: &[String]) -> Result<(LoadedSpec<Topology>, Machine), SpecError> {
        let loaded: LoadedSpec<Topology> = load(topology, sets)?;
        let machine = Machine::build(&loaded.value).map_err(|e| e.in_file(&loaded.file))?;
        Ok((loaded, machine))
    }

    /// Builds a machine.
    ///
    /// # Errors
    /// The description does not hold together, or the graph falls apart.
    pub fn build(spec: &Topology) -> Result<Machine, SpecError> {
        machine(spec)
    }
}

/// Builds any machine.
fn machine(spec: &Topology) -> Result<Machine, SpecError> {
    spec.validate()?;
    match (&spec.graph, &spec.node) {
        (Some(graph), _) => drawing::machine(spec, graph),
        (None, Some(node)) => Ok(Builder::new(spec, node).build()),
        (None, None) => Err(SpecError::at("", "neither `node` nor `graph` is given")),
    }
}

impl Builder<'_> {
    fn build(mut self) -> Machine {
        for device in 0..self.devices() {
            self.net.graph.add_node(MachineVertex::Device(DeviceId(device)));
        }
        let memory = self.device_memory();
        self.net.both_ways = false;
        let up = self.scale_up();
        let of_messages = self.net.both_ways;
        let hosts = self.hosts();
        // Messages cross the links to the host where devices have none between them.
        self.net.both_ways = of_messages || (self.node.scale_up.is_none() && self.net.both_ways);
        let (to_nic, nics_per_node) = self.nics();
        let (out, uplink) = self.scale_out(nics_per_node);
        let of_messages = self.net.both_ways;
        let chains: Vec<Chains> =
            self.node.memory.iter().map(|tier| self.memory_tier(tier, &hosts, &to_nic)).collect();
        self.net.both_ways = of_messages;
        let (classes, class_of) = self.classes();
        let mut copy_hops = Vec::new();
        let mut tier_uses = Vec::new();
        let mut devices = Vec::with_capacity(self.devices() as usize);
        for device in 0..self.devices() {
            let start = tier_uses.len() as u32;
            for chain in &chains {
                let first = copy_hops.len() as u32;
                chain.append(device, &hosts, &to_nic, &mut copy_hops);
                let hops = (first, copy_hops.len() as u32 - first);
                let (tier, past_cache) = (chain.tier(device), chain.past_cache(device));
                tier_uses.push(TierPath { tier, hops, past_cache });
            }
            devices.push(DevicePlace {
                class: class_of[(device / self.per_node) as usize],
                node: device / self.per_node,
                slot: device % self.per_node,
                memory: if memory == LinkHop::NONE { memory } else { memory.plus(device) },
                hbm: TierId(device),
                tiers: (start, chains.len() as u32),
            });
        }
        let fabric = MachineShape::of(self.spec, nics_per_node);
        let pxn = matches!(fabric.scale_out, ScaleOut::Clos { pxn: true, .. });
        let built = BuiltRoutes {
            per_node: self.per_node,
            nodes_per_site: self.spec.nodes,
            up,
            nics_per_node,
            per_nic: self.node.nics.as_ref().map_or(1, |nics| nics.shared_by),
            to_nic,
            uplink,
            parts: parts(self.spec, &out),
            out,
            pxn,
        };
        Machine {
            net: self.net,
            classes,
            devices,
            tier_uses,
            copy_hops,
            tiers: self.tiers,
            tier_class: self.tier_class,
            router: Router::Built(Box::new(built)),
            fabric,
        }
    }

    /// The classes of devices, and the class of each node's.
    fn classes(&self) -> (Vec<Device>, Vec<u32>) {
        let mut classes = vec![self.spec.device.clone()];
        let mut of_node = vec![0; self.nodes as usize];
        for other in &self.spec.other_nodes {
            let class = number_of(&mut classes, other.device.clone());
            of_node[other.first as usize..][..other.count as usize].fill(class);
        }
        (classes, of_node)
    }

    /// The device memories: tier instances 0 to devices − 1. Returns the hop to the first, if they are limited.
    fn device_memory(&mut self) -> LinkHop {
        let (classes, of_node) = self.classes();
        let tier = |device: &Device| TierClass {
            name: "hbm".into(),
            capacity: device.memory(),
            write_cache: Bytes::default(),
        };
        self.tiers.extend(classes.iter().map(tier));
        let class_of = |device: u32| of_node[(device / self.per_node) as usize];
        self.tier_class = (0..self.devices()).map(class_of).collect();
        let memories: Option<Vec<LinkClass>> = classes.iter().map(LinkClass::memory).collect();
        let Some(memories) = memories else { return LinkHop::NONE };
        let memories: Vec<_> = memories.into_iter().map(|class| self.net.link_class(class)).collect();
        for device in 0..self.devices() {
            let memory = self.net.graph.add_node(MachineVertex::Memory(TierId(device)));
            let class = memories[self.tier_class[device as usize] as usize];
            self.net.link(NodeIndex::new(device as usize), memory, class);
        }
        LinkHop(0)
    }

    fn scale_up(&mut self) -> Up {
        let first = LinkHop(2 * self.net.graph.edge_count() as u32);
        let (g, devices) = (self.per_node, self.devices());
        match &self.node.scale_up {
            None => Up::None,
            Some(ScaleUpSpec::Switch(spec)) => {
                let class = self.net.switch_class("nvswitch", true, spec.latency_us);
                let link = self.net.link_class(LinkClass::of(&spec.link));
                let switches: Vec<_> = (0..self.nodes).map(|node| self.net.switch(class, node)).collect();
                for device in 0..devices {
                    self.net.link(NodeIndex::new(device as usize), switches[(device / g) as usize], link);
                }
                Up::Switch(first)
            }
            Some(ScaleUpSpec::FullMesh(spec)) => {
                let link = self.net.link_class(LinkClass::of(&spec.link));
                for a in 0..devices {
                    for b in a + 1..(a / g + 1) * g {
                        self.net.link(NodeIndex::new(a as usize), NodeIndex::new(b as usize), link);
                    }
                }
                Up::Mesh(first)
            }
            Some(ScaleUpSpec::Torus(spec)) => Up::Torus(TorusLinks::build(spec, self.nodes, &mut self.net)),
        }
    }

    /// NIC vertices where several devices share one; returns the hops to them and NICs per node.
    fn nics(&mut self) -> (Vec<LinkHop>, u32) {
        let Some(Nics { shared_by, bundle, link }) = &self.node.nics else {
            return (Vec::new(), 0);
        };
        let needs_vertex = *shared_by > 1 || self.node.memory.iter().any(|tier| tier.via == Via::Nic);
        if !needs_vertex {
            self.nic_vertices = (0..self.devices()).map(|d| NodeIndex::new(d as usize)).collect();
            return (Vec::new(), self.per_node);
        }
        let port = LinkClass::of(link).times(f64::from(*bundle)).instant();
        let port = self.net.link_class(port);
        let nic = self.net.switch_class("nic", true, 0.0);
        let count = self.nodes * self.node.nic_count();
        self.nic_vertices = (0..count).map(|i| self.net.switch(nic, i)).collect();
        let to_nic = (0..self.devices())
            .map(|d| {
                self.net.link(NodeIndex::new(d as usize), self.nic_vertices[(d / shared_by) as usize], port)
            })
            .collect();
        (to_nic, self.node.nic_count())
    }

    fn scale_out(&mut self, nics_per_node: u32) -> (Out, Vec<LinkHop>) {
        let Some(nics) = &self.node.nics else {
            return (Out::None, Vec::new());
        };
        let nic = LinkClass::of(&nics.link).times(f64::from(nics.bundle));
        let below = Below {
            sites: self.nodes / self.spec.nodes,
            nodes_per_site: self.spec.nodes,
            nics_per_node,
            nic,
        };
        let count = self.nic_vertices.len() as u32;
        let out = match (&self.spec.fabric, &self.spec.sites) {
            (Some(FabricSpec::Dragonfly(spec)), _) => {
                Out::Dragonfly(DragonflySwitches::build(spec, count, &mut self.net))
            }
            (Some(FabricSpec::Clos(spec)), sites) => {
                let clos = ClosSwitches::build(spec, &below, &mut self.net);
                let wan = sites.as_ref().map(|sites| Wan::build(sites, &clos, &mut self.net));
                Out::Clos(clos, wan)
            }
            (None, Some(sites)) => {
                let clos = ClosSwitches::build(&ClosSpec::one_switch("site", 0.0), &below, &mut self.net);
                let wan = Wan::build(sites, &clos, &mut self.net);
                Out::Clos(clos, Some(wan))
            }
            (None, None) => return (Out::None, Vec::new()),
        };
        let class = self.net.link_class(nic);
        let uplink = (0..count)
            .map(|n| {
                let leaf = match &out {
                    Out::Dragonfly(fly) => fly.leaf(n),
                    Out::Clos(clos, _) => clos.leaf(n / nics_per_node, n % nics_per_node),
                    Out::None => self.nic_vertices[n as usize],
                };
                self.net.link(self.nic_vertices[n as usize], leaf, class)
            })
            .collect();
        (out, uplink)
    }
}

fn parts(spec: &Topology, out: &Out) -> u32 {
    match (&spec.fabric, out) {
        (Some(FabricSpec::Dragonfly(_)), Out::Dragonfly(built)) => built.between(),
        _ => 1,
    }
}
