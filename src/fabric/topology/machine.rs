//! The machine: what is where, and the way from one end to another.

use petgraph::graph::{NodeIndex, UnGraph};

use super::built::BuiltRoutes;
use super::drawn::DrawnRoutes;
use super::fabric::MachineShape;
use super::graph::{LinkHop, MachineLink, MachineVertex, Net};
use stepsim_core::ids::{DeviceId, ResourceId, TierId};
use stepsim_core::program::World;
use stepsim_core::units::{Bandwidth, Bytes, Time};
use stepsim_spec::Device;

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
    /// The same once the tier's cache of writes is full, if it has one.
    OutPastCache,
}

/// A machine.
#[derive(Debug)]
pub struct Machine {
    pub(super) net: Net,
    pub(super) classes: Vec<Device>,
    pub(super) devices: Vec<DevicePlace>,
    /// Tiers of each device behind its own memory: `DevicePlace::tiers` is a span of it.
    pub(super) tier_uses: Vec<TierPath>,
    /// Hops of the copies: `TierPath::hops` is a span of it.
    pub(super) copy_hops: Vec<LinkHop>,
    pub(super) tiers: Vec<TierClass>,
    /// Class of each tier instance.
    pub(super) tier_class: Vec<u32>,
    pub(super) router: Router,
    pub(super) fabric: MachineShape,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct DevicePlace {
    pub(super) class: u32,
    pub(super) node: u32,
    pub(super) slot: u32,
    /// Hop to its own memory, if that is limited.
    pub(super) memory: LinkHop,
    pub(super) hbm: TierId,
    pub(super) tiers: (u32, u32),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TierPath {
    pub(super) tier: TierId,
    pub(super) hops: (u32, u32),
    /// The hop beyond them of what is written once its cache of writes is full.
    pub(super) past_cache: LinkHop,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct TierClass {
    pub(super) name: String,
    pub(super) capacity: Bytes,
    /// Bytes of a step that it writes at the bandwidth of its link; 0: it has no such cache.
    pub(super) write_cache: Bytes,
}

#[derive(Debug)]
pub(super) enum Router {
    Built(Box<BuiltRoutes>),
    Drawn(DrawnRoutes),
}

impl Machine {
    /// Number of devices.
    pub fn devices(&self) -> u32 {
        self.devices.len() as u32
    }
    /// True if a link that messages may cross has one limit for both ways: closed forms of collectives take each way
    /// for half of it.
    pub fn limits_both_ways(&self) -> bool {
        self.net.both_ways
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
    /// The classes of devices with how many there are of each.
    pub fn class_sizes(&self) -> Vec<(&Device, f64)> {
        if let [all] = self.classes.as_slice() {
            return vec![(all, f64::from(self.devices()))];
        }
        let mut counts = vec![0.0; self.classes.len()];
        self.devices.iter().for_each(|place| counts[place.class as usize] += 1.0);
        self.classes.iter().zip(counts).filter(|(_, count)| *count > 0.0).collect()
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
    /// A world with its resources, in which nothing runs yet.
    pub fn world(&self) -> World {
        let mut world = World::default();
        (0..self.resources()).for_each(|r| _ = world.add_resource(self.capacity(ResourceId(r))));
        world
    }
    /// Latency of the link that a resource belongs to, without the switches at its ends.
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
            MachineVertex::Device(d) if self.fabric.nodes == 1 => format!("dev{}", d.0),
            MachineVertex::Device(d) => {
                let place = &self.devices[d.index()];
                format!("node{}.dev{}", place.node, place.slot)
            }
            MachineVertex::Memory(tier) => {
                let class = self.tier_class[tier.index()];
                // Device memories of several classes are numbered on.
                let name = &self.tiers[class as usize].name;
                let same = |c: &u32| self.tiers[*c as usize].name == *name;
                let first = self.tier_class.iter().position(same).unwrap_or(0);
                format!("{}{}", self.tiers[class as usize].name, tier.index() - first)
            }
            MachineVertex::Switch { class, index } => {
                let class = &self.net.switches[class as usize];
                if class.numbered { format!("{}{index}", class.name) } else { class.name.clone() }
            }
        }
    }
    /// The graph under it, for readers.
    pub fn graph(&self) -> &UnGraph<MachineVertex, MachineLink, u32> {
        &self.net.graph
    }
    /// How its devices are joined, in the words that collective algorithms choose by.
    pub fn fabric(&self) -> &MachineShape {
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
    /// Into how many equal parts a transfer through the fabric splits, each with a route of its own: 1 unless a
    /// dragonfly has parallel links between groups.
    pub fn parts(&self) -> u32 {
        match &self.router {
            Router::Built(built) => built.parts(),
            Router::Drawn(_) => 1,
        }
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
    /// Bytes of a step that a device writes to its tier number `tier` before what the tier keeps up sets the pace: its
    /// share of the cache of writes; 0 without one.
    pub fn write_cache(&self, device: DeviceId, tier: usize) -> u64 {
        let Some(instance) = self.tiers_of(device).nth(tier) else { return 0 };
        let class = &self.tiers[self.tier_class[instance.index()] as usize];
        if class.write_cache.0 == 0 {
            0
        } else {
            class.write_cache.0 / self.tier_sharers(device, tier) as u64
        }
    }
    /// Number of the tier of that kind among a device's tiers.
    pub fn tier_named(&self, device: DeviceId, name: &str) -> Option<usize> {
        self.tiers_of(device).position(|tier| self.tier(tier).0 == name)
    }
    /// The resource that is a device memory's bandwidth, reads and writes together; `None` if it is unlimited.
    pub fn memory_resource(&self, device: DeviceId) -> Option<ResourceId> {
        let hop = self.devices[device.index()].memory;
        (hop != LinkHop::NONE).then(|| ResourceId(self.net.graph[hop.edge()].first))
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
            CopyDirection::Out | CopyDirection::OutPastCache => {
                links.extend(self.memory_resource(device));
                let past = (direction == CopyDirection::OutPastCache).then_some(tier_use.past_cache);
                let past = past.filter(|hop| *hop != LinkHop::NONE);
                hops.iter().copied().chain(past).map(|hop| self.cross(hop, links)).sum()
            }
            CopyDirection::In => {
                let latency = hops.iter().rev().map(|hop| self.cross(hop.back(), links)).sum();
                links.extend(self.memory_resource(device));
                latency
            }
        })
    }

    /// Appends the resources of an update in place on a device's tier, which reads as many bytes as it writes: one that
    /// both directions share is there twice.
    ///
    /// # Errors
    /// The device has no such tier.
    pub fn update_route(
        &self,
        device: DeviceId,
        tier: usize,
        links: &mut Vec<ResourceId>,
    ) -> Result<(), Unreachable> {
        let (mut read, mut written) = (Vec::new(), Vec::new());
        self.copy_route(device, tier, CopyDirection::In, &mut read)?;
        self.copy_route(device, tier, CopyDirection::Out, &mut written)?;
        links.extend(read.first().into_iter().chain(written.last()));
        Ok(())
    }
    /// Bytes a second that such an update reads, and writes beside it, where it is alone.
    ///
    /// # Errors
    /// The device has no such tier.
    pub fn update_rate(&self, device: DeviceId, tier: usize) -> Result<f64, Unreachable> {
        let mut links = Vec::new();
        self.update_route(device, tier, &mut links)?;
        let uses = |link| links.iter().filter(|other| *other == link).count() as f64;
        Ok(links.iter().map(|link| self.capacity(*link).0 / uses(link)).fold(f64::INFINITY, f64::min))
    }
    /// Devices of the machine that share a device's tier instance.
    pub fn tier_sharers(&self, device: DeviceId, tier: usize) -> usize {
        let own = self.tiers_of(device).nth(tier);
        (0..self.devices()).filter(|other| self.tiers_of(DeviceId(*other)).nth(tier) == own).count()
    }

    fn uses_of(&self, place: &DevicePlace) -> &[TierPath] {
        let (start, count) = place.tiers;
        &self.tier_uses[start as usize..(start + count) as usize]
    }
    /// Occupies a hop and returns its latency, with the latency of the switch it leads to.
    fn cross(&self, hop: LinkHop, links: &mut Vec<ResourceId>) -> Time {
        self.net.occupy(hop, links);
        self.net.latency(hop) + self.net.transit(self.net.head(hop))
    }
}
