//! The geometry of a group is measured on a few of its routes (one inside the first node, and those from the first node
//! to the next), not on all.

use rustc_hash::FxHashMap;

use super::geometry::{DomainWiring, Geometry, NeighbourLink, SiteLinks, TorusAxis};
use super::network::Network;
use stepsim_core::ids::{DeviceId, ResourceId};
use stepsim_core::units::Time;

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
    let across = if nodes > 1 {
        // Every member of the first node sends to its counterpart on the next, as far as there is one: shared ports
        // show as crossings.
        let counterparts = in_first.min(n as usize - in_first);
        Some(probe.both_ways((0..counterparts).map(|i| (devices[i], devices[i + in_first])))?)
    } else {
        None
    };
    let intra = inside.or(across).unwrap_or_default();
    let one_way = one_way.unwrap_or(intra);
    let mut inter = across.unwrap_or(intra);
    let of_site = site_size(net, &devices);
    let ports = ports(net, &devices[..in_first]);
    // Places to the next member with another network port.
    let apart = in_first / ports.max(1) as usize;
    let has_rails = nodes > 1 && apart < in_first;
    let hops = has_rails && probe.hops(&devices, in_first, apart)?;
    let (mut uplinks, mut other_rails) = (None, None);
    if let Some(within) = across.filter(|_| per_node > 0 && of_site == n as usize) {
        uplinks = probe.uplinks(&devices, per_node as usize, within)?;
        if has_rails && !hops {
            other_rails = probe.other_rails(&devices, per_node as usize, apart)?;
        }
    }
    let mut pairs = None;
    if nodes > 1 && net.ways_meet() {
        pairs = Some(probe.pairs(&devices)?);
        if uplinks.is_none() {
            // Some nodes may share links that the first does not.
            let to = |i: usize| devices[(i + in_first) % devices.len()];
            inter = probe.together((0..devices.len()).map(|i| (devices[i], to(i))))?;
        }
    }
    if let Some(uplinks) = &uplinks {
        inter.rate = inter.rate.min(uplinks.across.rate);
    }
    let alone = if nodes > 1 { probe.alone(&devices)? } else { intra };
    let sites = if of_site < n as usize {
        let count = n as usize / of_site;
        let to = |apart: usize| {
            let devices = &devices;
            (0..n as usize).map(move |i| (devices[i], devices[(i + apart * of_site) % n as usize]))
        };
        // From the last site of a line to the first is the longest way.
        let wide = probe.together(to(1))?;
        let even = (n as usize).is_multiple_of(of_site) && even_sites(net, &devices, of_site);
        let all = if even { probe.together((1..count).flat_map(to))? } else { wide };
        let mut links = SiteLinks { count: count as u32, within: inter, across: wide, all };
        if of_site == in_first {
            // A site of one node has no network within: what leaves a node leaves its site.
            let rate = inter.rate.max(links.to_all().rate);
            links.within = NeighbourLink { latency: Time::ZERO, rate };
        }
        inter = NeighbourLink { latency: inter.latency.max(wide.latency), rate: inter.rate.min(wide.rate) };
        even.then_some(links)
    } else {
        None
    };
    let fabric = match fabric {
        DomainWiring::Torus(_) => DomainWiring::Graph,
        other => other.clone(),
    };
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
        other_rails,
        pairs,
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
        other_rails: None,
        pairs: None,
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
