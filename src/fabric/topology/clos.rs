//! Tiers of switches between NICs: leaf–spine, rail-optimised leaf–spine, three-tier Clos.
//!
//! Under adaptive routing a transfer uses all parallel uplinks of a switch evenly, so that the parallel switches above
//! act as one with the sum of their links: the fabric is a tree whose links grow fatter. Under static ECMP a switch
//! with `u` uplinks has `u` switches (planes) above it and a hash picks one for each transfer at each tier; planes
//! multiply from tier to tier.
//!
//! Capacity above a switch = capacity below it / oversubscription, spread evenly over its uplinks.

use petgraph::graph::NodeIndex;

use super::graph::{LinkClass, LinkHop, Net};
use stepsim_core::units::{Bandwidth, Time};
use stepsim_spec::topology::{Clos as ClosSpec, Ecmp};

/// The level that the tiers are built on.
pub(super) struct Below {
    /// Sites, each with a fabric of its own.
    pub sites: u32,
    pub nodes_per_site: u32,
    pub nics_per_node: u32,
    /// Bandwidth of one NIC.
    pub nic: LinkClass,
}

/// The switches of all sites.
#[derive(Clone, Debug)]
pub(super) struct ClosSwitches {
    nodes_per_site: u32,
    /// NICs of a node that go to switches of their own; 1 without rails.
    pub rails: u32,
    tiers: Vec<ClosTier>,
    hash: Option<u64>,
}

#[derive(Clone, Debug)]
struct ClosTier {
    /// Nodes of one site under one unit.
    nodes: u32,
    /// Units of one site.
    units: u32,
    planes: u32,
    uplinks: u32,
    first_vertex: NodeIndex<u32>,
    /// Hop of the first uplink.
    first_uplink: LinkHop,
}

/// The most tiers of switches (`spec` allows so many).
const MAX_TIERS: usize = 6;

impl ClosSwitches {
    /// Adds switches and the links between them.
    pub fn build(spec: &ClosSpec, below: &Below, net: &mut Net) -> ClosSwitches {
        let rails = if spec.rails { below.nics_per_node } else { 1 };
        let hash = match &spec.ecmp {
            Ecmp::Adaptive => None,
            Ecmp::Static(ecmp) => Some(ecmp.seed),
        };
        let mut clos = ClosSwitches { nodes_per_site: below.nodes_per_site, rails, tiers: Vec::new(), hash };
        let (mut nodes, mut planes) = (1_u32, 1);
        for tier in &spec.tiers {
            nodes = tier.serves.map_or(below.nodes_per_site, |n| nodes.saturating_mul(n));
            let units = below.nodes_per_site.div_ceil(nodes);
            let uplinks = if hash.is_some() { tier.uplinks } else { 1 };
            let class = net.switch_class(&tier.name, true, tier.latency_us);
            let first_vertex = NodeIndex::new(net.graph.node_count());
            clos.tiers.push(ClosTier {
                nodes,
                units,
                planes,
                uplinks,
                first_vertex,
                first_uplink: LinkHop::NONE,
            });
            for index in 0..below.sites * units * clos.rails_at(clos.tiers.len() - 1) * planes {
                net.switch(class, index);
            }
            planes *= uplinks;
        }
        clos.link_tiers(spec, below, net);
        clos
    }

    fn link_tiers(&mut self, spec: &ClosSpec, below: &Below, net: &mut Net) {
        let nics_on_a_leaf = if spec.rails { 1 } else { below.nics_per_node };
        let mut children = f64::from(spec.tiers[0].serves.unwrap_or(0)) * f64::from(nics_on_a_leaf);
        let mut link = below.nic.capacity[0];
        for l in 0..self.tiers.len() - 1 {
            let uplinks = self.tiers[l].uplinks;
            link = Bandwidth(link.0 * children / spec.tiers[l].oversubscription / f64::from(uplinks));
            children = f64::from(spec.tiers[l + 1].serves.unwrap_or(0)) * f64::from(self.rails_at(l));
            let class = LinkClass { capacity: [link; 2], combined: None, half: false, latency: Time::ZERO };
            let class = net.link_class(class);
            self.tiers[l].first_uplink = LinkHop(2 * net.graph.edge_count() as u32);
            let units = self.nodes_per_site.div_ceil(self.tiers[l].nodes);
            let sites = below.sites;
            for (site, unit, rail) in (0..sites)
                .flat_map(|s| (0..units).map(move |u| (s, u)))
                .flat_map(|(s, u)| (0..self.rails_at(l)).map(move |r| (s, u, r)))
            {
                let node = site * self.nodes_per_site + unit * self.tiers[l].nodes;
                for plane in 0..self.tiers[l].planes {
                    for choice in 0..uplinks {
                        let a = self.vertex(l, node, rail, plane);
                        let b = self.vertex(l + 1, node, 0, plane * uplinks + choice);
                        net.link(a, b, class);
                    }
                }
            }
        }
    }

    fn rails_at(&self, tier: usize) -> u32 {
        if tier == 0 { self.rails } else { 1 }
    }
    /// Number of a node's unit among all units of a tier.
    fn group(&self, tier: usize, node: u32, rail: u32) -> u32 {
        let t = &self.tiers[tier];
        let (site, inside) = (node / self.nodes_per_site, node % self.nodes_per_site);
        let unit = site * t.units + inside / t.nodes;
        unit * self.rails_at(tier) + if tier == 0 { rail % self.rails } else { 0 }
    }
    fn vertex(&self, tier: usize, node: u32, rail: u32, plane: u32) -> NodeIndex<u32> {
        let t = &self.tiers[tier];
        NodeIndex::new(t.first_vertex.index() + (self.group(tier, node, rail) * t.planes + plane) as usize)
    }
    fn uplink(&self, tier: usize, node: u32, rail: u32, plane: u32, choice: u32) -> LinkHop {
        let t = &self.tiers[tier];
        t.first_uplink.plus((self.group(tier, node, rail) * t.planes + plane) * t.uplinks + choice)
    }
    /// The lowest switch of a NIC, by its number within the node.
    pub fn leaf(&self, node: u32, nic: u32) -> NodeIndex<u32> {
        self.vertex(0, node, nic, 0)
    }
    /// The highest switches of a site.
    pub fn tops(&self, site: u32) -> impl Iterator<Item = NodeIndex<u32>> + use<'_> {
        let top = self.tiers.len() - 1;
        let rails = self.rails_at(top);
        (0..rails).flat_map(move |rail| {
            (0..self.tiers[top].planes)
                .map(move |plane| self.vertex(top, site * self.nodes_per_site, rail, plane))
        })
    }
    /// The index in [`ClosSwitches::tops`] of its site that a transfer passes when it leaves the site.
    pub fn top(&self, nic: u32, planes: &Planes) -> u32 {
        let top = self.tiers.len() - 1;
        self.rails_of_top(nic) * self.tiers[top].planes + planes.at[top]
    }
    fn rails_of_top(&self, nic: u32) -> u32 {
        if self.tiers.len() == 1 { nic % self.rails } else { 0 }
    }
    /// The planes that a transfer takes at each tier.
    pub fn planes(&self, from: (u32, u32), to: (u32, u32), part: u32) -> Planes {
        let mut planes = Planes { at: [0; MAX_TIERS] };
        let Some(seed) = self.hash else { return planes };
        for l in 1..self.tiers.len() {
            let uplinks = self.tiers[l - 1].uplinks;
            let choice = super::hash::hash(&[
                seed,
                from.0.into(),
                from.1.into(),
                to.0.into(),
                to.1.into(),
                part.into(),
                l as u64,
            ]);
            planes.at[l] = planes.at[l - 1] * uplinks + (choice % u64::from(uplinks)) as u32;
        }
        planes
    }
    /// The uplink of a node at a tier for the planes of a transfer.
    fn climb(&self, l: usize, end: (u32, u32), planes: &Planes) -> LinkHop {
        let choice = planes.at[l + 1] % self.tiers[l].uplinks;
        self.uplink(l, end.0, end.1, planes.at[l], choice)
    }
    /// The hops between the lowest switches of two (node, NIC) of one site.
    pub fn route(&self, from: (u32, u32), to: (u32, u32), part: u32, cross: &mut impl FnMut(LinkHop)) {
        let planes = self.planes(from, to, part);
        let meet = (0..self.tiers.len())
            .find(|&l| self.group(l, from.0, from.1) == self.group(l, to.0, to.1))
            .unwrap_or(self.tiers.len() - 1);
        (0..meet).for_each(|l| cross(self.climb(l, from, &planes)));
        (0..meet).rev().for_each(|l| cross(self.climb(l, to, &planes).back()));
    }
    /// The hops from the lowest switch of a (node, NIC) to the top of its site.
    pub fn ascend(&self, end: (u32, u32), planes: &Planes, cross: &mut impl FnMut(LinkHop)) {
        (0..self.tiers.len() - 1).for_each(|l| cross(self.climb(l, end, planes)));
    }
    /// The hops from the top of a site to the lowest switch of a (node, NIC).
    pub fn descend(&self, end: (u32, u32), planes: &Planes, cross: &mut impl FnMut(LinkHop)) {
        (0..self.tiers.len() - 1).rev().for_each(|l| cross(self.climb(l, end, planes).back()));
    }
}

/// The plane of a transfer at each tier.
pub(super) struct Planes {
    at: [u32; MAX_TIERS],
}
