//! Dragonfly: switches all to all inside a group, groups all to all; minimal routes (local, global, local).
//!
//! The `L` links between groups `g` and `h` leave `g` at the switches `(L·h' + j) mod s`, `j = 0…L−1`, where `h'` is
//! `h` counted without `g` itself: they spread evenly over the `s` switches of a group.

use petgraph::graph::NodeIndex;

use super::graph::{LinkClass, LinkHop, Net};
use stepsim_spec::topology::Dragonfly as DragonflySpec;

#[derive(Clone, Debug)]
pub(super) struct DragonflySwitches {
    switches: u32,
    nics_per_switch: u32,
    groups: u32,
    between: u32,
    first_switch: NodeIndex<u32>,
    first_local: LinkHop,
    first_global: LinkHop,
}

/// Number of the pair `a < b` among the pairs of `n`, in the order (0,1), (0,2), …, (1,2), ….
pub(super) fn pair(a: u32, b: u32, n: u32) -> u32 {
    let (a, b, n) = (u64::from(a), u64::from(b), u64::from(n));
    (a * (2 * n - a - 1) / 2 + b - a - 1) as u32
}

impl DragonflySwitches {
    /// Adds switches and links for `nics` NICs.
    pub fn build(spec: &DragonflySpec, nics: u32, net: &mut Net) -> DragonflySwitches {
        let (switches, between) = (spec.switches_per_group, spec.links_between_groups);
        let groups = nics.div_ceil(spec.nics_per_switch).div_ceil(switches);
        let class = net.switch_class("switch", true, spec.latency_us);
        let first_switch = NodeIndex::new(net.graph.node_count());
        for index in 0..groups * switches {
            net.switch(class, index);
        }
        let next_hop = |net: &Net| LinkHop(2 * net.graph.edge_count() as u32);
        let mut fly = DragonflySwitches {
            switches,
            nics_per_switch: spec.nics_per_switch,
            groups,
            between,
            first_switch,
            first_local: next_hop(net),
            first_global: LinkHop::NONE,
        };
        let local = net.link_class(LinkClass::of(&spec.local_link));
        for group in 0..groups {
            for a in 0..switches {
                for b in a + 1..switches {
                    net.link(fly.vertex(group * switches + a), fly.vertex(group * switches + b), local);
                }
            }
        }
        fly.first_global = next_hop(net);
        let global = net.link_class(LinkClass::of(&spec.global_link));
        for g in 0..groups {
            for h in g + 1..groups {
                for j in 0..between {
                    net.link(fly.vertex(fly.gateway(g, h, j)), fly.vertex(fly.gateway(h, g, j)), global);
                }
            }
        }
        fly
    }

    fn vertex(&self, switch: u32) -> NodeIndex<u32> {
        NodeIndex::new(self.first_switch.index() + switch as usize)
    }
    /// The switch of a NIC.
    pub fn leaf(&self, nic: u32) -> NodeIndex<u32> {
        self.vertex(nic / self.nics_per_switch)
    }
    /// Links between two groups: equal parts that a transfer splits into.
    pub fn between(&self) -> u32 {
        self.between
    }
    /// The switch of group `g` where link `j` to group `h` leaves.
    fn gateway(&self, g: u32, h: u32, j: u32) -> u32 {
        let other = if h > g { h - 1 } else { h };
        let port = u64::from(other) * u64::from(self.between) + u64::from(j);
        g * self.switches + (port % u64::from(self.switches)) as u32
    }
    fn local(&self, from: u32, to: u32) -> LinkHop {
        let (group, n) = (from / self.switches, self.switches);
        let (a, b) = (from % n, to % n);
        let base = group * (n * (n - 1) / 2);
        let hop = self.first_local.plus(base + pair(a.min(b), a.max(b), n));
        if a < b { hop } else { hop.back() }
    }
    fn global(&self, g: u32, h: u32, j: u32) -> LinkHop {
        let hop = self.first_global.plus(pair(g.min(h), g.max(h), self.groups) * self.between + j);
        if g < h { hop } else { hop.back() }
    }
    /// The hops between the switches of two NICs.
    pub fn route(&self, from: u32, to: u32, part: u32, cross: &mut impl FnMut(LinkHop)) {
        let (a, b) = (from / self.nics_per_switch, to / self.nics_per_switch);
        let (g, h) = (a / self.switches, b / self.switches);
        if g == h {
            if a != b {
                cross(self.local(a, b));
            }
            return;
        }
        let j = from.wrapping_add(to).wrapping_add(part) % self.between;
        let (exit, entry) = (self.gateway(g, h, j), self.gateway(h, g, j));
        if a != exit {
            cross(self.local(a, exit));
        }
        cross(self.global(g, h, j));
        if entry != b {
            cross(self.local(entry, b));
        }
    }
}
