//! Where a network gives a group less than its members' own ports do: uplinks that are thinner than what hangs below
//! them, and what messages from node to node get.

use super::geometry::{NeighbourLink, Uplinks};
use super::probe::Probe;
use stepsim_core::ids::DeviceId;

impl Probe<'_> {
    /// The routes from the last member of each node to the first of the next, round the group, all used at once.
    pub fn alone(&mut self, devices: &[DeviceId]) -> Result<NeighbourLink, String> {
        let next = devices.iter().cycle().skip(1);
        let pairs: Vec<_> = devices.iter().copied().zip(next.copied()).collect();
        let net = self.net;
        self.together(pairs.into_iter().filter(|(from, to)| net.node_of(*from) != net.node_of(*to)))
    }
    /// True if the way from a member of the first node to another member's counterpart on the next begins as the way to
    /// that other member does.
    pub fn hops(&mut self, devices: &[DeviceId], in_first: usize) -> Result<bool, String> {
        let far = devices[(in_first + 1).min(devices.len() - 1)];
        self.path.clear();
        self.net.route(devices[0], devices[1], &mut self.path)?;
        let first = self.path.first().copied();
        self.path.clear();
        self.net.route(devices[0], far, &mut self.path)?;
        Ok(first.is_some() && self.path.first().copied() == first)
    }
    /// The uplinks that leave members the least of what `within` gives them; nothing where none does. A part of the
    /// group is what lies between two routes from node to node that climb as high as any; members hop to their rail
    /// inside the node, or reach other rails over the network.
    pub fn uplinks(
        &mut self,
        devices: &[DeviceId],
        per_node: usize,
        within: NeighbourLink,
        hops: bool,
    ) -> Result<Option<Uplinks>, String> {
        let nodes = devices.len() / per_node;
        let mut climbs = Vec::with_capacity(nodes);
        for node in 0..nodes {
            self.path.clear();
            self.net.route(
                devices[node * per_node],
                devices[(node + 1) % nodes * per_node],
                &mut self.path,
            )?;
            climbs.push(self.path.len());
        }
        let lowest = climbs.iter().min().copied().unwrap_or(0);
        let mut heights: Vec<usize> = climbs.iter().copied().filter(|climb| *climb > lowest).collect();
        heights.sort_unstable();
        heights.dedup();
        let mut least: Option<Uplinks> = None;
        for height in heights {
            let (mut part, mut first) = (0..0, 0);
            for node in (0..nodes).filter(|node| climbs[*node] >= height) {
                if node + 1 - first > part.len() {
                    part = first..node + 1;
                }
                first = node + 1;
            }
            let members = part.len() * per_node;
            let from = part.start * per_node;
            let to = |i: usize| devices[(i + members) % devices.len()];
            let across = self.both_ways((from..from + members).map(|i| (devices[i], to(i))))?;
            if across.rate < least.map_or(within.rate, |l| l.across.rate) {
                let rails_cross = !hops && per_node > 1 && members > per_node && {
                    self.path.clear();
                    self.net.route(devices[from], devices[from + per_node + 1], &mut self.path)?;
                    self.path.len() >= height
                };
                least = Some(Uplinks { members: members as u32, within, across, rails_cross });
            }
        }
        Ok(least)
    }
}
