//! A group of ranks as an algorithm sees it: how many, on how many nodes, over which links.
//!
//! Groups of equal geometry behave alike and share their actions. A geometry is measured on a few routes of the group
//! (one inside the first node, and those from the first node to the next), not on all: `formula` and the chooser use
//! these numbers, while `fluid` and `steps` use every route and are right for uneven groups too.

use rustc_hash::FxHashMap;

use crate::spec::topology::Join;
use crate::topology::{Machine, ScaleUpShape};
use stepsim_core::ids::{DeviceId, ResourceId};
use stepsim_core::units::{Bandwidth, Time};

/// The machine as collectives see it.
pub trait Network {
    /// Appends the resources of the route from one device to another and returns its latency. Where transfers split
    /// into [`Network::parts`] equal parts, the resources of each part follow one another.
    ///
    /// # Errors
    /// In words, if there is no route.
    fn route(&self, from: DeviceId, to: DeviceId, path: &mut Vec<ResourceId>) -> Result<Time, String>;
    /// Into how many equal parts a transfer splits (ECMP sub-flows).
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

/// How the devices of a node or pod are wired.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DomainWiring {
    /// Each device has a port on a non-blocking switch.
    Switch {
        /// True if the switch adds and multicasts (NVLS, SHARP).
        reduces: bool,
    },
    /// A link of its own between each pair of devices.
    Mesh,
    /// Links between neighbours on up to three axes; on each, a device has one link either way.
    Torus(Vec<TorusAxis>),
    /// Anything else: only what routes say is known.
    Graph,
}

/// One axis of a torus, or of the part of it that a group covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TorusAxis {
    /// Number of positions.
    pub len: u32,
    /// True if the last is a neighbour of the first.
    pub wraps: bool,
}

impl TorusAxis {
    /// Hops between the two positions that are farthest apart.
    pub fn longest_way(self) -> u32 {
        if self.wraps { self.len / 2 } else { self.len - 1 }
    }
}

/// A kind of link between neighbours of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NeighbourLink {
    /// Paid by each transfer before it occupies links: α.
    pub latency: Time,
    /// Whole bytes per second, one direction of one rank: B. Where ranks share a link, one rank's share.
    pub rate: u64,
}

impl NeighbourLink {
    /// A class from its two numbers in seconds and bytes per second.
    pub fn new(latency_s: f64, bytes_per_s: f64) -> NeighbourLink {
        NeighbourLink { latency: Time::from_s(latency_s), rate: bytes_per_s.round() as u64 }
    }
    /// α in seconds.
    pub fn alpha(self) -> f64 {
        self.latency.s()
    }
    /// B in bytes per second.
    pub fn bandwidth(self) -> f64 {
        self.rate as f64
    }
    /// `steps·α + bytes/B` in seconds.
    pub fn time(self, steps: f64, bytes: f64) -> f64 {
        steps * self.alpha() + bytes / self.bandwidth()
    }
}

/// A group on several sites, the members of a site next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SiteLinks {
    /// How many.
    pub count: u32,
    /// True if each site has a link to each other site.
    pub joined: bool,
    /// Between counterparts on nodes of one site.
    pub within: NeighbourLink,
    /// Between counterparts on two sites, while all members of a site send: one member's share.
    pub across: NeighbourLink,
}

/// A group below several switches of a network (leaves, pods, groups of a dragonfly) whose uplinks carry less than
/// what sends below them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Uplinks {
    /// Members below each, next to each other; the last may have fewer.
    pub members: u32,
    /// Between counterparts on two nodes below one of them.
    pub within: NeighbourLink,
    /// Between counterparts below two of them, while all members below one send: one member's share.
    pub across: NeighbourLink,
}

/// How far the two ends of a send lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum EndDistance {
    InNode,
    BetweenNodes,
    BetweenSites,
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

/// A group as an algorithm sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Number of members.
    pub size: u32,
    /// Number of nodes that hold members.
    pub nodes: u32,
    /// Members on each node; 0 where nodes hold different numbers.
    pub per_node: u32,
    /// Network ports of a node that its members use, evenly; the number of members where it is not even.
    pub ports: u32,
    /// Between members of one node (on a torus: between neighbours).
    pub intra: NeighbourLink,
    /// The same while nothing comes back: faster where both directions share a link.
    pub one_way: NeighbourLink,
    /// True if bytes for a member of another node hop to their rail inside the node first (PXN).
    pub hops: bool,
    /// Between counterparts on different nodes; equal to `intra` for a group within one node. Over several sites:
    /// what an algorithm that does not tell them apart has to reckon with: the long way, and a share of its link as
    /// if all sent; over uplinks that limit, their share.
    pub inter: NeighbourLink,
    /// From members to the next in order, where that is on another node, all such ways used; equal to `intra` for a
    /// group within one node, on a torus from every member to the next.
    pub alone: NeighbourLink,
    /// The uplinks that limit what leaves a part of the group, where any do; none over several sites.
    pub uplinks: Option<Uplinks>,
    /// The sites that the group lies on, where they are several with equally many members.
    pub sites: Option<SiteLinks>,
    /// Wiring among the members of a node; a torus has the axes of the box that the group covers.
    pub fabric: DomainWiring,
}

impl Geometry {
    /// `n` members behind one switch: bytes per second of a port's direction, latency in seconds.
    pub fn switch(n: u32, bytes_per_s: f64, latency_s: f64) -> Geometry {
        let class = NeighbourLink::new(latency_s, bytes_per_s);
        let fabric = DomainWiring::Switch { reduces: true };
        Geometry {
            size: n,
            nodes: 1,
            per_node: n,
            ports: n,
            intra: class,
            one_way: class,
            hops: false,
            inter: class,
            alone: class,
            uplinks: None,
            sites: None,
            fabric,
        }
    }
    /// Two members with one link between them.
    pub(super) fn pair(link: NeighbourLink, apart: EndDistance) -> Geometry {
        let (nodes, per_node) = if apart == EndDistance::InNode { (1, 2) } else { (2, 1) };
        let within = NeighbourLink { latency: Time::ZERO, ..link };
        let sites = SiteLinks { count: 2, joined: true, within, across: link };
        let sites = (apart == EndDistance::BetweenSites).then_some(sites);
        let one = Geometry::switch(2, link.bandwidth(), link.alpha());
        let fabric = DomainWiring::Graph;
        Geometry { nodes, per_node, ports: per_node, sites, fabric, ..one }
    }
    /// Number of rings that a flat ring algorithm runs at once: one for each network port of a node; one within a
    /// node, and where nodes hold different numbers of members.
    pub fn rings(&self) -> u32 {
        if self.nodes > 1 && self.per_node > 0 { self.ports.max(1) } else { 1 }
    }
    /// The same links without latency: what bytes alone take.
    pub fn instant(&self) -> Geometry {
        self.with(|class| NeighbourLink { latency: Time::ZERO, ..class })
    }
    /// The same links, but between sites with no more latency than within a site.
    pub(super) fn on_one_site(&self) -> Geometry {
        let Some(of) = self.sites else { return self.clone() };
        let near =
            |class: NeighbourLink| NeighbourLink { latency: class.latency.min(of.within.latency), ..class };
        let sites = SiteLinks { across: near(of.across), ..of };
        Geometry { inter: near(self.inter), alone: near(self.alone), sites: Some(sites), ..self.clone() }
    }
    /// The same links, on which each byte of payload takes `overhead` bytes of the wire.
    pub(super) fn laden(&self, overhead: f64) -> Geometry {
        if overhead == 1.0 {
            return self.clone();
        }
        self.with(|class| NeighbourLink { rate: (class.bandwidth() / overhead).round() as u64, ..class })
    }
    /// The same links between nodes while other groups send over each of them.
    #[must_use]
    pub fn crowded(&self, crowd: f64) -> Geometry {
        let share = |class: NeighbourLink| NeighbourLink {
            rate: (class.rate as f64 / crowd).round() as u64,
            ..class
        };
        Geometry { intra: self.intra, one_way: self.one_way, sites: self.sites, ..self.with(share) }
    }
    /// The same links, of whose latency a part is paid.
    pub(super) fn hurried(&self, part: f64) -> Geometry {
        if part == 1.0 {
            return self.clone();
        }
        self.with(|class| NeighbourLink { latency: Time::from_s(class.alpha() * part), ..class })
    }
    /// Each class of links changed.
    fn with(&self, change: impl Fn(NeighbourLink) -> NeighbourLink) -> Geometry {
        let sites = self.sites.map(|s| SiteLinks { within: change(s.within), across: change(s.across), ..s });
        let uplinks =
            self.uplinks.map(|u| Uplinks { within: change(u.within), across: change(u.across), ..u });
        let [intra, one_way, inter, alone] = [self.intra, self.one_way, self.inter, self.alone].map(change);
        Geometry { intra, one_way, inter, alone, uplinks, sites, ..self.clone() }
    }
    /// From each member of a node to the next, round the node: of three and more on links of their own, each link
    /// carries one way.
    pub(super) fn around(&self) -> NeighbourLink {
        let (of_node, owns) = match self.fabric {
            DomainWiring::Mesh => (self.per_node, true),
            DomainWiring::Torus(_) => (self.size, true),
            _ => (0, false),
        };
        if owns && of_node > 2 { self.one_way } else { self.intra }
    }
    /// Seconds in which each member of a node sends `bytes` to each other.
    pub(super) fn node_pairs_s(&self, bytes: f64) -> f64 {
        let peers = if self.fabric == DomainWiring::Mesh { 1 } else { self.per_node.saturating_sub(1) };
        f64::from(peers) * bytes / self.intra.bandwidth()
    }
    /// Between counterparts on two nodes that are neighbours in the network.
    pub(super) fn near(&self) -> NeighbourLink {
        let of_site = self.sites.map(|sites| sites.within);
        of_site.or(self.uplinks.map(|uplinks| uplinks.within)).unwrap_or(self.inter)
    }
    /// The border around each equal part of the group that less leaves than its members can send: how many members a
    /// part has, and a member's share while all of them send.
    pub(super) fn border(&self) -> Option<(u32, NeighbourLink)> {
        let sites = self.sites.map(|sites| (self.size / sites.count, sites.across));
        sites.or(self.uplinks.map(|uplinks| (uplinks.members, uplinks.across)))
    }
    /// Each member to its counterpart on the next node, round the nodes: of each part only one node sends across its
    /// border.
    pub(super) fn next_node(&self) -> NeighbourLink {
        let of_node = f64::from(self.per_node.max(1));
        let border = self.border().map(|(of, across)| f64::from(of) / of_node * across.bandwidth());
        let rate = border.map_or(self.inter.rate, |border| self.near().rate.min(border.round() as u64));
        NeighbourLink { rate, ..self.inter }
    }
    /// Bytes per second that the members of a node send to other nodes together.
    pub fn egress(&self) -> f64 {
        f64::from(self.per_node.max(1)) * self.inter.bandwidth()
    }
    /// Latency of a ring's hop to the next node: a hop inside the node may come first.
    pub(super) fn leaving(&self, link: NeighbourLink) -> f64 {
        link.alpha() + if self.rings() > 1 { self.intra.alpha() } else { 0.0 }
    }
    /// The class that limits an algorithm which does not tell nodes apart.
    pub fn flat(&self) -> NeighbourLink {
        if self.nodes <= 1 {
            return self.intra;
        }
        let rate = if self.per_node == 1 { self.inter.rate } else { self.inter.rate.min(self.intra.rate) };
        NeighbourLink { latency: self.inter.latency, rate }
    }
    /// Members that a message crosses nodes to reach, with `log2` rounded up.
    pub fn log2_ceil(&self) -> u32 {
        self.size.next_power_of_two().trailing_zeros()
    }
    /// In words, for errors: `12 ranks on 2 nodes`.
    pub fn describe(&self) -> String {
        let fabric = match &self.fabric {
            DomainWiring::Switch { reduces: true } => "behind a switch that reduces".into(),
            DomainWiring::Switch { reduces: false } => "behind a switch that does not reduce".into(),
            DomainWiring::Mesh => "in a full mesh".into(),
            DomainWiring::Torus(axes) => {
                let lens: Vec<String> = axes
                    .iter()
                    .map(|a| format!("{}{}", a.len, if a.wraps { " (ring)" } else { " (line)" }))
                    .collect();
                format!("on torus axes {}", lens.join(" x "))
            }
            DomainWiring::Graph => "on a general graph".into(),
        };
        format!("{} ranks on {} node(s) {fabric}", self.size, self.nodes)
    }
}

/// A group with its devices in the order of positions.
#[derive(Clone, Debug)]
pub(super) struct GroupLayout {
    /// Device of each position.
    pub devices: Vec<DeviceId>,
    /// The group's geometry.
    pub geometry: Geometry,
}

/// Puts a group in order and measures it.
///
/// # Errors
/// In words, if two members have no route between them.
pub(super) fn measure(
    net: &dyn Network,
    fabric: &DomainWiring,
    devices: &[DeviceId],
) -> Result<GroupLayout, String> {
    let one_node = || devices.iter().all(|&d| net.node_of(d) == net.node_of(devices[0]));
    if let DomainWiring::Torus(axes) = fabric
        && one_node()
        && let Some(layout) = measure_torus(net, axes, devices, |d| net.coordinates(d))?
    {
        return Ok(layout);
    }
    // One member on each of several sites: the links between sites are a torus of one axis.
    if let Some(axis) = net.sites()
        && !one_node()
        && let Some(layout) = measure_torus(net, &[axis], devices, |d| [net.site_of(d), 0, 0])?
    {
        return Ok(layout);
    }
    let (mut devices, nodes, per_node) = by_node(net, devices);
    // The nodes of a site next to each other.
    devices.sort_by_key(|d| net.site_of(*d));
    let n = devices.len() as u32;
    let mut probe = Probe { net, path: Vec::new(), crossings: FxHashMap::default() };
    let first = net.node_of(devices[0]);
    let in_first = devices.iter().take_while(|d| net.node_of(**d) == first).count();
    // Whoever sends to one neighbour receives from another: a link of half duplex carries both.
    let pair = (in_first > 1).then(|| (devices[0], devices[1]));
    let inside = pair.map(|pair| probe.both_ways(std::iter::once(pair))).transpose()?;
    let one_way = pair.map(|(from, to)| probe.one(from, to)).transpose()?;
    let across =
        if nodes > 1 {
            // Every member of the first node sends to its counterpart on the next: shared ports show as crossings.
            Some(probe.both_ways(
                (0..in_first).map(|i| (devices[i], devices[(i + in_first).min(n as usize - 1)])),
            )?)
        } else {
            None
        };
    let intra = inside.or(across).unwrap_or_default();
    let one_way = one_way.unwrap_or(intra);
    let mut inter = across.unwrap_or(intra);
    let of_site = site_size(net, &devices);
    let uplinks = match across {
        Some(within) if per_node > 0 && of_site == n as usize => {
            probe.uplinks(&devices, per_node as usize, within)?
        }
        _ => None,
    };
    if let Some(uplinks) = &uplinks {
        inter.rate = inter.rate.min(uplinks.across.rate);
    }
    let alone = if nodes > 1 { probe.alone(&devices)? } else { intra };
    let hops = nodes > 1 && in_first > 1 && probe.hops(&devices, in_first)?;
    let sites = if of_site < n as usize {
        // All members of the first site send to their counterparts on the next.
        let pairs = (0..of_site).map(|i| (devices[i], devices[(i + of_site) % n as usize]));
        let wide = if n as usize == 2 * of_site { probe.both_ways(pairs)? } else { probe.together(pairs)? };
        // A site of one node has no network within: all that leaves a node takes the long way.
        let within = if of_site == in_first { NeighbourLink { latency: Time::ZERO, ..inter } } else { inter };
        inter = NeighbourLink { latency: inter.latency.max(wide.latency), rate: within.rate.min(wide.rate) };
        let even = (n as usize).is_multiple_of(of_site) && even_sites(net, &devices, of_site);
        let joined = net.sites().is_none();
        even.then_some(SiteLinks { count: n / of_site as u32, joined, within, across: wide })
    } else {
        None
    };
    let fabric = match fabric {
        DomainWiring::Torus(_) => DomainWiring::Graph,
        other => other.clone(),
    };
    let ports = ports(net, &devices[..in_first]);
    let geometry = Geometry {
        size: n,
        nodes,
        per_node,
        ports,
        intra,
        one_way,
        hops,
        inter,
        alone,
        uplinks,
        sites,
        fabric,
    };
    Ok(GroupLayout { devices, geometry })
}

/// Devices grouped by node in order of first appearance, the number of nodes, and members per node (0 if uneven).
fn by_node(net: &dyn Network, devices: &[DeviceId]) -> (Vec<DeviceId>, u32, u32) {
    let mut first = FxHashMap::default();
    for (i, d) in devices.iter().enumerate() {
        first.entry(net.node_of(*d)).or_insert(i);
    }
    let mut devices = devices.to_vec();
    devices.sort_by_cached_key(|d| first[&net.node_of(*d)]);
    let nodes = devices.chunk_by(|a, b| net.node_of(*a) == net.node_of(*b));
    let per_node = even(nodes.map(|node| node.len() as u32));
    (devices, first.len() as u32, per_node)
}

/// Network ports that the members of a node use, if each is used by as many.
fn ports(net: &dyn Network, devices: &[DeviceId]) -> u32 {
    let ports: Vec<u32> = devices.iter().map(|d| net.port_of(*d)).collect();
    let runs: Vec<&[u32]> = ports.chunk_by(|a, b| a == b).collect();
    let even = runs.iter().all(|run| run.len() == runs[0].len());
    if even { runs.len() as u32 } else { devices.len() as u32 }
}

/// Members on the first site.
fn site_size(net: &dyn Network, devices: &[DeviceId]) -> usize {
    devices.iter().take_while(|d| net.site_of(**d) == net.site_of(devices[0])).count()
}

/// True if each run of `of_site` members is one site.
fn even_sites(net: &dyn Network, devices: &[DeviceId], of_site: usize) -> bool {
    devices.chunks(of_site).all(|site| site_size(net, site) == site.len())
}

/// The common value of some counts, or 0.
fn even(mut counts: impl Iterator<Item = u32>) -> u32 {
    let first = counts.next().unwrap_or(0);
    if counts.all(|c| c == first) { first } else { 0 }
}

/// Orders a group by torus coordinates if it fills a box; `None` if it does not.
fn measure_torus(
    net: &dyn Network,
    axes: &[TorusAxis],
    devices: &[DeviceId],
    coordinates: impl Fn(DeviceId) -> [u32; 3],
) -> Result<Option<GroupLayout>, String> {
    let at: Vec<[u32; 3]> = devices.iter().map(|&d| coordinates(d)).collect();
    let mut covered: Vec<TorusAxis> = Vec::new();
    let mut used: Vec<usize> = Vec::new();
    let mut volume = 1usize;
    for (k, axis) in axes.iter().enumerate() {
        let mut seen: Vec<u32> = at.iter().map(|c| c[k]).collect();
        seen.sort_unstable();
        seen.dedup();
        volume *= seen.len();
        if seen.len() > 1 {
            // Every s-th position all the way round is a ring as well, with longer hops.
            let stride = seen[1] - seen[0];
            if seen.windows(2).any(|w| w[1] - w[0] != stride) {
                return Ok(None);
            }
            covered.push(TorusAxis {
                len: seen.len() as u32,
                wraps: axis.wraps && seen.len() as u32 * stride == axis.len && seen.len() > 2,
            });
            used.push(k);
        }
    }
    if volume != devices.len() || devices.len() < 2 {
        return Ok(None);
    }
    let mut order: Vec<usize> = (0..devices.len()).collect();
    order.sort_by_key(|&i| [at[i][2], at[i][1], at[i][0]]);
    let devices: Vec<DeviceId> = order.iter().map(|&i| devices[i]).collect();
    let mut probe = Probe { net, path: Vec::new(), crossings: FxHashMap::default() };
    let one_way = probe.one(devices[0], devices[1])?;
    let class = probe.both_ways(std::iter::once((devices[0], devices[1])))?;
    let next = devices.iter().cycle().skip(1);
    // Where only neighbours reach each other there is no way round.
    let alone = probe.together(devices.iter().copied().zip(next.copied())).unwrap_or(class);
    let geometry = Geometry {
        size: devices.len() as u32,
        nodes: 1,
        per_node: devices.len() as u32,
        ports: devices.len() as u32,
        intra: class,
        one_way,
        hops: false,
        inter: class,
        alone,
        uplinks: None,
        sites: None,
        fabric: DomainWiring::Torus(covered),
    };
    Ok(Some(GroupLayout { devices, geometry }))
}

/// Measures routes.
pub(super) struct Probe<'m> {
    pub net: &'m dyn Network,
    pub path: Vec<ResourceId>,
    crossings: FxHashMap<ResourceId, u32>,
}

impl Probe<'_> {
    /// Latency and rate of one route.
    pub fn one(&mut self, from: DeviceId, to: DeviceId) -> Result<NeighbourLink, String> {
        self.together(std::iter::once((from, to)))
    }
    /// The same of some routes, with as much coming back.
    pub fn both_ways(
        &mut self,
        pairs: impl Iterator<Item = (DeviceId, DeviceId)>,
    ) -> Result<NeighbourLink, String> {
        self.together(pairs.flat_map(|(from, to)| [(from, to), (to, from)]))
    }
    /// Largest latency of some routes, and the rate that each gets when all are used at once.
    pub fn together(
        &mut self,
        pairs: impl Iterator<Item = (DeviceId, DeviceId)>,
    ) -> Result<NeighbourLink, String> {
        self.crossings.clear();
        let mut latency = Time::ZERO;
        let mut rate = f64::INFINITY;
        let parts = f64::from(self.net.parts());
        for (from, to) in pairs {
            self.path.clear();
            latency = latency.max(self.net.route(from, to, &mut self.path)?);
            for &r in &self.path {
                let count = self.crossings.entry(r).or_insert(0);
                *count += 1;
                rate = rate.min(self.net.capacity(r).0 * parts / f64::from(*count));
            }
        }
        Ok(NeighbourLink { latency, rate: rate.round() as u64 })
    }
}
