//! The machine as collectives see it.

use super::geometry::{DomainWiring, EndDistance, TorusAxis};
use crate::topology::{Machine, ScaleOut, ScaleUpShape};
use stepsim_core::ids::{DeviceId, ResourceId};
use stepsim_core::units::{Bandwidth, Time};
use stepsim_spec::topology::Join;

/// The machine as collectives see it.
pub trait Network {
    /// Appends the resources of the route from one device to another and returns its latency. Where transfers split
    /// into [`Network::parts`] equal parts, the resources of each part follow one another.
    ///
    /// # Errors
    /// In words, if there is no route.
    fn route(&self, from: DeviceId, to: DeviceId, path: &mut Vec<ResourceId>) -> Result<Time, String>;
    /// Into how many equal parts a transfer splits.
    fn parts(&self) -> u32 {
        1
    }
    /// Capacity of a resource.
    fn capacity(&self, resource: ResourceId) -> Bandwidth;
    /// The node (scale-up domain) of a device.
    fn node_of(&self, device: DeviceId) -> u32;
    /// The network port that a device uses: devices of one number share it.
    fn port_of(&self, device: DeviceId) -> u32 {
        device.0
    }
    /// How the devices of one node (for a torus: of the pod) are wired.
    fn fabric(&self) -> DomainWiring;
    /// True if messages of members without a common port or uplink may cross one link.
    fn ways_meet(&self) -> bool {
        false
    }
    /// The line or ring that joins sites, if anything does.
    fn sites(&self) -> Option<TorusAxis> {
        None
    }
    /// The site of a device.
    fn site_of(&self, _device: DeviceId) -> u32 {
        0
    }
    /// Coordinates of a device on the axes of a torus; unused on other fabrics.
    fn coordinates(&self, _device: DeviceId) -> [u32; 3] {
        [0; 3]
    }
}

impl Network for Machine {
    fn route(&self, from: DeviceId, to: DeviceId, path: &mut Vec<ResourceId>) -> Result<Time, String> {
        let mut latency = Time::ZERO;
        for part in 0..self.parts() {
            latency = latency.max(self.route_part(from, to, part, path).map_err(|e| e.to_string())?);
        }
        Ok(latency)
    }
    fn parts(&self) -> u32 {
        Machine::parts(self)
    }
    fn capacity(&self, resource: ResourceId) -> Bandwidth {
        Machine::capacity(self, resource)
    }
    fn node_of(&self, device: DeviceId) -> u32 {
        Machine::node_of(self, device)
    }
    fn port_of(&self, device: DeviceId) -> u32 {
        let fabric = Machine::fabric(self);
        let slot = Machine::slot_in_node(self, device) / fabric.devices_per_nic().max(1);
        Machine::node_of(self, device) * fabric.nics_per_node.max(1) + slot
    }
    fn fabric(&self) -> DomainWiring {
        match &Machine::fabric(self).scale_up {
            ScaleUpShape::Switch { in_switch_reduction } => {
                DomainWiring::Switch { reduces: *in_switch_reduction }
            }
            ScaleUpShape::FullMesh => DomainWiring::Mesh,
            ScaleUpShape::Torus { dims, wrap } if dims.len() <= 3 => DomainWiring::Torus(
                dims.iter().zip(wrap).map(|(&len, &wraps)| TorusAxis { len, wraps }).collect(),
            ),
            _ => DomainWiring::Graph,
        }
    }
    fn ways_meet(&self) -> bool {
        matches!(Machine::fabric(self).scale_out, ScaleOut::Dragonfly { .. })
    }
    fn sites(&self) -> Option<TorusAxis> {
        let fabric = Machine::fabric(self);
        let wraps = match fabric.sites_join? {
            Join::Ring => fabric.sites > 2,
            Join::Line => false,
            Join::FullMesh => return None,
        };
        Some(TorusAxis { len: fabric.sites, wraps })
    }
    fn site_of(&self, device: DeviceId) -> u32 {
        let fabric = Machine::fabric(self);
        Machine::node_of(self, device) / (fabric.nodes / fabric.sites).max(1)
    }
    fn coordinates(&self, device: DeviceId) -> [u32; 3] {
        let ScaleUpShape::Torus { dims, .. } = &Machine::fabric(self).scale_up else { return [0; 3] };
        let mut rest = self.slot_in_node(device);
        std::array::from_fn(|k| {
            let len = dims.get(k).copied().unwrap_or(1);
            let at = rest % len;
            rest /= len;
            at
        })
    }
}

impl EndDistance {
    pub fn of(net: &dyn Network, a: DeviceId, b: DeviceId) -> EndDistance {
        if net.node_of(a) == net.node_of(b) {
            EndDistance::InNode
        } else if net.site_of(a) == net.site_of(b) {
            EndDistance::BetweenNodes
        } else {
            EndDistance::BetweenSites
        }
    }
}
