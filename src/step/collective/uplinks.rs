//! Where a network gives a group less than its members' own ports do: uplinks that are thinner than what hangs below
//! them, and what one message alone gets.

use super::geometry::{NeighbourLink, Probe, Uplinks};
use stepsim_core::ids::DeviceId;

impl Probe<'_> {
    /// The slowest of the routes from the last member of a node to the first of the next, round the group, each by
    /// itself: of those within a site and of those that leave it, the one over most links.
    pub fn alone(&mut self, devices: &[DeviceId], of_site: usize) -> Result<NeighbourLink, String> {
        let n = devices.len();
        let crosses = |i: &usize| self.net.node_of(devices[*i]) != self.net.node_of(devices[(i + 1) % n]);
        let mut ends: Vec<usize> = (0..n).filter(crosses).collect();
        if of_site < n {
            ends.retain(|i| self.net.site_of(devices[*i]) != self.net.site_of(devices[(i + 1) % n]));
        }
        let mut slowest: Option<(usize, NeighbourLink)> = None;
        for i in ends {
            let class = self.one(devices[i], devices[(i + 1) % n])?;
            let links = self.path.len();
            if slowest.is_none_or(|(most, other)| links > most || class.rate < other.rate) {
                slowest = Some((links, class));
            }
        }
        Ok(slowest.map(|(_, class)| class).unwrap_or_default())
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
            let across = self.together((from..from + members).map(|i| (devices[i], to(i))))?;
            if across.rate < least.map_or(within.rate, |l| l.across.rate) {
                least = Some(Uplinks { members: members as u32, within, across });
            }
        }
        Ok(least)
    }
}
