//! Tiers of switches between NICs: leaf–spine, rail-optimised leaf–spine, three-tier Clos.
//!
//! A transfer uses all parallel uplinks of a switch evenly, so that the parallel switches above act as one with the sum
//! of their links: the fabric is a tree whose links grow fatter.
//!
//! Capacity above a switch = capacity below it / oversubscription.

use petgraph::graph::NodeIndex;

use super::graph::{LinkClass, LinkHop, Net};
use stepsim_core::units::{Bandwidth, Time};
use stepsim_spec::topology::Clos as ClosSpec;

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
}

#[derive(Clone, Debug)]
struct ClosTier {
    /// Nodes of one site under one unit.
    nodes: u32,
    /// Units of one site.
    units: u32,
    first_vertex: NodeIndex<u32>,
    /// Hop of the first uplink.
    first_uplink: LinkHop,
}

impl ClosSwitches {
    /// Adds switches and the links between them.
    pub fn build(spec: &ClosSpec, below: &Below, net: &mut Net) -> ClosSwitches {
        let rails = if spec.rails { below.nics_per_node } else { 1 };
        let mut clos = ClosSwitches { nodes_per_site: below.nodes_per_site, rails, tiers: Vec::new() };
        let mut nodes = 1_u32;
        for tier in &spec.tiers {
            nodes = tier.serves.map_or(below.nodes_per_site, |n| nodes.saturating_mul(n));
            let units = below.nodes_per_site.div_ceil(nodes);
            let class = net.switch_class(&tier.name, true, tier.latency_us);
            let first_vertex = NodeIndex::new(net.graph.node_count());
            clos.tiers.push(ClosTier { nodes, units, first_vertex, first_uplink: LinkHop::NONE });
            for index in 0..below.sites * units * clos.rails_at(clos.tiers.len() - 1) {
                net.switch(class, index);
            }
        }
        clos.link_tiers(spec, below, net);
        clos
    }

    fn link_tiers(&mut self, spec: &ClosSpec, below: &Below, net: &mut Net) {
        let nics_on_a_leaf = if spec.rails { 1 } else { below.nics_per_node };
        let mut children = f64::from(spec.tiers[0].serves.unwrap_or(0)) * f64::from(nics_on_a_leaf);
        let mut link = below.nic.capacity[0];
        for l in 0..self.tiers.len() - 1 {
            link = Bandwidth(link.0 * children / spec.tiers[l].oversubscription);
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
                net.link(self.vertex(l, node, rail), self.vertex(l + 1, node, 0), class);
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
    fn vertex(&self, tier: usize, node: u32, rail: u32) -> NodeIndex<u32> {
        let first = self.tiers[tier].first_vertex.index();
        NodeIndex::new(first + self.group(tier, node, rail) as usize)
    }
    /// The uplink of a (node, NIC) at a tier.
    fn climb(&self, tier: usize, end: (u32, u32)) -> LinkHop {
        self.tiers[tier].first_uplink.plus(self.group(tier, end.0, end.1))
    }
    /// The lowest switch of a NIC, by its number within the node.
    pub fn leaf(&self, node: u32, nic: u32) -> NodeIndex<u32> {
        self.vertex(0, node, nic)
    }
    /// The highest switches of a site.
    pub fn tops(&self, site: u32) -> impl Iterator<Item = NodeIndex<u32>> + use<'_> {
        let top = self.tiers.len() - 1;
        (0..self.rails_at(top)).map(move |rail| self.vertex(top, site * self.nodes_per_site, rail))
    }
    /// The index in [`ClosSwitches::tops`] of its site that a transfer passes when it leaves the site.
    pub fn top(&self, nic: u32) -> u32 {
        if self.tiers.len() == 1 { nic % self.rails } else { 0 }
    }
    /// The hops between the lowest switches of two (node, NIC) of one site.
    pub fn route(&self, from: (u32, u32), to: (u32, u32), cross: &mut impl FnMut(LinkHop)) {
        let meet = (0..self.tiers.len())
            .find(|&l| self.group(l, from.0, from.1) == self.group(l, to.0, to.1))
            .unwrap_or(self.tiers.len() - 1);
        (0..meet).for_each(|l| cross(self.climb(l, from)));
        (0..meet).rev().for_each(|l| cross(self.climb(l, to).back()));
    }
    /// The hops from the lowest switch of a (node, NIC) to the top of its site.
    pub fn ascend(&self, end: (u32, u32), cross: &mut impl FnMut(LinkHop)) {
        (0..self.tiers.len() - 1).for_each(|l| cross(self.climb(l, end)));
    }
    /// The hops from the top of a site to the lowest switch of a (node, NIC).
    pub fn descend(&self, end: (u32, u32), cross: &mut impl FnMut(LinkHop)) {
        (0..self.tiers.len() - 1).rev().for_each(|l| cross(self.climb(l, end).back()));
    }
}
