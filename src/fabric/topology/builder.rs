//! Work in progress on a built machine.

use petgraph::graph::NodeIndex;

use super::graph::Net;
use super::machine::TierClass;
use stepsim_spec::topology::{Node, Topology};

/// Work in progress on a built machine.
pub(super) struct Builder<'a> {
    pub spec: &'a Topology,
    pub node: &'a Node,
    pub net: Net,
    pub nodes: u32,
    pub per_node: u32,
    pub tiers: Vec<TierClass>,
    pub tier_class: Vec<u32>,
    pub nic_vertices: Vec<NodeIndex<u32>>,
}

impl<'a> Builder<'a> {
    pub fn new(spec: &'a Topology, node: &'a Node) -> Builder<'a> {
        Builder {
            spec,
            node,
            net: Net::default(),
            nodes: spec.total_nodes() as u32,
            per_node: node.size(),
            tiers: Vec::new(),
            tier_class: Vec::new(),
            nic_vertices: Vec::new(),
        }
    }
    pub fn devices(&self) -> u32 {
        self.nodes * self.per_node
    }
}
