//! How a machine's devices are joined, in the words that collective algorithms choose by.

use stepsim_spec::topology::{Clos, Fabric as FabricSpec, Join, ScaleUp as ScaleUpSpec, Topology, core_gbps};

/// The shape of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineShape {
    /// Devices of a node (scale-up domain).
    pub node_size: u32,
    /// Nodes of the machine.
    pub nodes: u32,
    /// Sites over which the nodes spread evenly; 1 without a WAN.
    pub sites: u32,
    /// Nodes after which all ways between nodes repeat themselves; none where they do not.
    pub repeats: Option<u32>,
    /// The pairs of sites that have a link.
    pub sites_join: Option<Join>,
    /// NICs of a node; 0 without a network.
    pub nics_per_node: u32,
    /// Bytes a second that one core of a host streams.
    pub core_rate: f64,
    /// The network between the devices of a node.
    pub scale_up: ScaleUpShape,
    /// The network between the nodes.
    pub scale_out: ScaleOut,
}

/// The network between the devices of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum ScaleUpShape {
    /// Nothing but the network (or the node has one device).
    None,
    /// A crossbar.
    Switch {
        /// It can reduce and multicast (NVLS).
        in_switch_reduction: bool,
    },
    /// A link between every two devices.
    FullMesh,
    /// A torus; a ring or a line is one of one axis. Device 0, 1, 2, … run along the first axis.
    Torus {
        /// Length of each axis.
        dims: Vec<u32>,
        /// The axes that close to a ring.
        wrap: Vec<bool>,
    },
    /// Any graph.
    General,
}

/// The network between the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleOut {
    /// There is one node.
    None,
    /// Tiers of switches.
    Clos {
        /// NIC `i` of every node is on one switch with the NICs `i` of its neighbours.
        rails: bool,
        /// Other rails are reached through the peer device of the own node.
        pxn: bool,
        /// Nodes under one lowest switch or unit of rail switches.
        unit_nodes: u32,
        /// The switches can reduce and multicast (SHARP).
        in_switch_reduction: bool,
    },
    /// A dragonfly.
    Dragonfly {
        /// NICs of one group.
        group_nics: u32,
    },
    /// Any graph.
    General,
}

impl MachineShape {
    /// Devices that share one NIC; 0 without a network.
    pub fn devices_per_nic(&self) -> u32 {
        self.node_size.checked_div(self.nics_per_node).unwrap_or(0)
    }

    pub(super) fn of(spec: &Topology, nics_per_node: u32) -> MachineShape {
        let node = spec.node.as_ref();
        MachineShape {
            node_size: node.map_or(1, |node| node.size()),
            nodes: spec.total_nodes() as u32,
            sites: spec.sites.as_ref().map_or(1, |sites| sites.count),
            repeats: repeats(spec),
            sites_join: spec.sites.as_ref().map(|sites| sites.join),
            nics_per_node,
            core_rate: node.and_then(|node| node.host.as_ref()).map_or_else(core_gbps, |host| host.core_gbps)
                * 1e9,
            scale_up: match node.and_then(|node| node.scale_up.as_ref()) {
                None => ScaleUpShape::None,
                Some(ScaleUpSpec::Switch(switch)) => {
                    ScaleUpShape::Switch { in_switch_reduction: switch.in_switch_reduction }
                }
                Some(ScaleUpSpec::FullMesh(_)) => ScaleUpShape::FullMesh,
                Some(ScaleUpSpec::Torus(torus)) => ScaleUpShape::Torus {
                    dims: torus.dims.clone(),
                    wrap: super::torus::wraps(&torus.dims, &torus.wrap),
                },
            },
            scale_out: match &spec.fabric {
                Some(FabricSpec::Clos(clos)) => ScaleOut::of(clos, spec.nodes),
                Some(FabricSpec::Dragonfly(fly)) => ScaleOut::Dragonfly {
                    group_nics: fly.switches_per_group.saturating_mul(fly.nics_per_switch),
                },
                None if spec.sites.is_some() => ScaleOut::of(&Clos::one_switch("site", 0.0), spec.nodes),
                None => ScaleOut::None,
            },
        }
    }
}

/// The nodes under one switch of the last tier but the topmost, on one site.
fn repeats(spec: &Topology) -> Option<u32> {
    match &spec.fabric {
        _ if spec.sites.is_some() || spec.graph.is_some() => None,
        None => Some(1),
        Some(FabricSpec::Clos(clos)) => {
            let below = clos.tiers.iter().map_while(|tier| tier.serves);
            Some(below.fold(1, u32::saturating_mul))
        }
        Some(_) => None,
    }
}

impl ScaleOut {
    fn of(clos: &Clos, nodes: u32) -> ScaleOut {
        ScaleOut::Clos {
            rails: clos.rails,
            pxn: clos.pxn,
            unit_nodes: clos.tiers[0].serves.map_or(nodes, |n| n.min(nodes)),
            in_switch_reduction: clos.in_switch_reduction,
        }
    }
}
