//! Machines drawn vertex by vertex: routes are searched.
//!
//! A route has the fewest hops; among those the widest (largest smallest capacity), then the one whose links stand
//! first in the file. One search tree per source, made when it is first asked for.

use std::sync::OnceLock;

use petgraph::graph::NodeIndex;
use petgraph::visit::EdgeRef;

use super::graph::{LinkHop, MachineVertex, Net};

/// Search trees, one per source device.
#[derive(Debug)]
pub(super) struct DrawnRoutes {
    /// For each device: for each vertex the hop that leads to it.
    trees: Vec<OnceLock<Vec<LinkHop>>>,
    vertex_of: Vec<NodeIndex<u32>>,
}

impl DrawnRoutes {
    pub fn new(vertex_of: Vec<NodeIndex<u32>>) -> DrawnRoutes {
        DrawnRoutes { trees: vertex_of.iter().map(|_| OnceLock::new()).collect(), vertex_of }
    }
    pub fn vertex(&self, device: u32) -> NodeIndex<u32> {
        self.vertex_of[device as usize]
    }
    /// The hops from a device to a vertex; whether there is a way.
    pub fn route(&self, net: &Net, from: u32, to: NodeIndex<u32>, cross: &mut impl FnMut(LinkHop)) -> bool {
        let source = self.vertex(from);
        let tree = self.trees[from as usize].get_or_init(|| search(net, source));
        let mut hops = Vec::new();
        let mut at = to;
        while at != source {
            let hop = tree[at.index()];
            if hop == LinkHop::NONE {
                return false;
            }
            hops.push(hop);
            at = net.head(hop.back());
        }
        hops.into_iter().rev().for_each(cross);
        true
    }
}

/// Breadth first, layer by layer, keeping for each vertex of the next layer its widest way in.
fn search(net: &Net, source: NodeIndex<u32>) -> Vec<LinkHop> {
    let count = net.graph.node_count();
    let (mut into, mut width, mut depth) =
        (vec![LinkHop::NONE; count], vec![0.0_f64; count], vec![u32::MAX; count]);
    width[source.index()] = f64::INFINITY;
    depth[source.index()] = 0;
    let mut layer = vec![source];
    while !layer.is_empty() {
        let mut next = Vec::new();
        for &at in &layer {
            if matches!(net.graph[at], MachineVertex::Memory(_)) {
                continue;
            }
            for edge in net.graph.edges(at) {
                let direction = u32::from(net.graph.raw_edges()[edge.id().index()].source() != at);
                let hop = LinkHop(edge.id().index() as u32 * 2 + direction);
                let head = net.head(hop).index();
                let class = &net.links[edge.weight().class as usize];
                let wide = width[at.index()].min(class.capacity[direction as usize].0);
                if depth[head] == u32::MAX {
                    depth[head] = depth[at.index()] + 1;
                    next.push(NodeIndex::new(head));
                } else if depth[head] != depth[at.index()] + 1
                    || (wide, std::cmp::Reverse(hop.0)) <= (width[head], std::cmp::Reverse(into[head].0))
                {
                    continue;
                }
                (into[head], width[head]) = (hop, wide);
            }
        }
        next.sort_unstable();
        layer = next;
    }
    into
}
