//! Where a network gives a group less than its members' own ports do: uplinks that are thinner than what hangs below
//! them, and what messages from node to node get.

use super::geometry::{NeighbourLink, Uplinks};
use super::probe::Probe;
use stepsim_core::ids::DeviceId;

/// Members that each sends to where the share of a message to all is measured; of a smaller group, all.
const DISTANCES: usize = 63;

impl Probe<'_> {
    /// The routes from the last member of each node to the first of the next, round the group, all used at once.
    pub fn alone(&mut self, devices: &[DeviceId]) -> Result<NeighbourLink, String> {
        let next = devices.iter().cycle().skip(1);
        let pairs: Vec<_> = devices.iter().copied().zip(next.copied()).collect();
        let net = self.net;
        self.together(pairs.into_iter().filter(|(from, to)| net.node_of(*from) != net.node_of(*to)))
    }
    /// Links of a route.
    fn climb(&mut self, from: DeviceId, to: DeviceId) -> Result<usize, String> {
        self.path.clear();
        self.net.route(from, to, &mut self.path)?;
        Ok(self.path.len())
    }
    /// True if the way from a member of the first node to the counterpart, on the next, of one that is `apart` places
    /// on and has another port begins as the way to that one does.
    pub fn hops(&mut self, devices: &[DeviceId], in_first: usize, apart: usize) -> Result<bool, String> {
        let far = devices[(in_first + apart).min(devices.len() - 1)];
        self.climb(devices[0], devices[apart])?;
        let first = self.path.first().copied();
        self.climb(devices[0], far)?;
        Ok(first.is_some() && self.path.first().copied() == first)
    }
    /// The way to members on other rails of other nodes, one that is `apart` places on for each member, where it is
    /// longer than the way along a rail.
    pub fn other_rails(
        &mut self,
        devices: &[DeviceId],
        per_node: usize,
        apart: usize,
    ) -> Result<Option<NeighbourLink>, String> {
        let along = self.climb(devices[0], devices[per_node])?;
        if self.climb(devices[0], devices[per_node + apart])? <= along {
            return Ok(None);
        }
        let to = |i: usize| (i / per_node + 1) * per_node + (i + apart) % per_node;
        let all = (0..devices.len()).map(|i| (devices[i], devices[to(i) % devices.len()]));
        self.together(all).map(Some)
    }
    /// The share of one message while each member sends to each other; in a large group messages to some members stand
    /// for messages to all.
    pub fn pairs(&mut self, devices: &[DeviceId]) -> Result<NeighbourLink, String> {
        let n = devices.len();
        let taken = (n - 1).min(DISTANCES);
        let distance = |k: usize| 1 + k * (n - 1) / taken;
        let to = |k: usize| (0..n).map(move |i| (devices[i], devices[(i + distance(k)) % n]));
        let link = self.together((0..taken).flat_map(to))?;
        Ok(NeighbourLink { rate: link.rate * taken as u64 / (n as u64 - 1), ..link })
    }
    /// The uplinks that leave members the least of what `within` gives them; nothing where none does. A part of the
    /// group is what lies between two routes from node to node that climb as high as any.
    pub fn uplinks(
        &mut self,
        devices: &[DeviceId],
        per_node: usize,
        within: NeighbourLink,
    ) -> Result<Option<Uplinks>, String> {
        let nodes = devices.len() / per_node;
        let mut climbs = Vec::with_capacity(nodes);
        for node in 0..nodes {
            climbs.push(self.climb(devices[node * per_node], devices[(node + 1) % nodes * per_node])?);
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
            // Of a part that is more than half, as many cross the border as there are beyond it.
            let crossing = members.min(devices.len() - members);
            let mut across = self.both_ways((from..from + crossing).map(|i| (devices[i], to(i))))?;
            across.rate = across.rate * crossing as u64 / members as u64;
            if across.rate < least.map_or(within.rate, |l| l.across.rate) {
                least = Some(Uplinks { members: members as u32, within, across });
            }
        }
        Ok(least)
    }
}
