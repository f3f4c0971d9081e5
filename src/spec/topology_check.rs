//! Checks of a machine file across fields: sums, products, and who needs whom.

use super::number::MAX_COUNT;
use super::topology::{
    Clos, Dragonfly, Fabric, Graph, Node, OtherNodes, ScaleUp, Topology, VertexKind, Wrap,
};
use super::{Kind, Spec, SpecError, nearest};

/// The most links of one machine: a full mesh of 1,000 devices in 32 nodes.
const MAX_LINKS: u64 = 1 << 24;
/// The most vertices of a drawn machine, whose routes are searched, not computed.
const MAX_DRAWN: usize = 1 << 14;

impl Spec for Topology {
    const KIND: Kind = Kind::Topology;

    fn validate(&self) -> Result<(), SpecError> {
        self.device.validate().map_err(|e| e.under("device"))?;
        if let Some(collectives) = &self.collectives {
            collectives.validate().map_err(|e| e.under("collectives"))?;
        }
        if let Some(graph) = &self.graph {
            let other = [
                ("node", self.node.is_some()),
                ("fabric", self.fabric.is_some()),
                ("sites", self.sites.is_some()),
                ("other_nodes", !self.other_nodes.is_empty()),
            ];
            if let Some((name, _)) = other.iter().find(|(_, given)| *given) {
                return Err(SpecError::at(*name, format!("`{name}` stands beside `graph`"))
                    .allowed("either `graph`, or `node` with `fabric` and `sites`")
                    .hint("a file over a `base` removes a field of the base by setting it to null"));
            }
            return check_graph(graph).map_err(|e| e.under("graph"));
        }
        let Some(node) = &self.node else {
            return Err(SpecError::at("", "neither `node` nor `graph` is given").hint(
                "describe a node (\"node\": {\"devices\": 8, …}) or draw the machine (\"graph\": {…})",
            ));
        };
        check_node(node, self.total_nodes()).map_err(|e| e.under("node"))?;
        self.check_size(node)?;
        self.check_joined(node)?;
        self.check_other_nodes()?;
        match &self.fabric {
            Some(Fabric::Clos(clos)) => {
                check_clos(clos, node, self.nodes, self.total_nodes()).map_err(|e| e.under("fabric.clos"))
            }
            Some(Fabric::Dragonfly(fly)) => {
                check_dragonfly(fly, node, self).map_err(|e| e.under("fabric.dragonfly"))
            }
            None => Ok(()),
        }
    }
}

impl Topology {
    /// Nodes of other devices are nodes of the machine, each named once; all devices have a memory, or none.
    fn check_other_nodes(&self) -> Result<(), SpecError> {
        let nodes = self.total_nodes();
        for (i, other) in self.other_nodes.iter().enumerate() {
            let at = format!("other_nodes[{i}]");
            other.device.validate().map_err(|e| e.under("device").under(&at))?;
            let end = u64::from(other.first) + u64::from(other.count);
            let wrong = |problem: String, allowed: String| Err(SpecError::at(&at, problem).allowed(allowed));
            if end > nodes {
                let problem = format!("nodes {} to {} are not all there", other.first, end - 1);
                return wrong(problem, format!("nodes 0 to {} of the machine", nodes - 1));
            }
            let overlaps = |o: &OtherNodes| {
                u64::from(other.first) < u64::from(o.first) + u64::from(o.count) && u64::from(o.first) < end
            };
            if self.other_nodes[..i].iter().any(overlaps) {
                return wrong("nodes that an entry before has".into(), "each node once".into());
            }
            if other.device.hbm.is_some() != self.device.hbm.is_some() {
                let allowed = "devices that all state their memory (`hbm`), or none";
                return wrong("a device unlike the others in this".into(), allowed.into());
            }
        }
        Ok(())
    }
    /// Nodes of all sites.
    pub fn total_nodes(&self) -> u64 {
        u64::from(self.nodes) * self.sites.as_ref().map_or(1, |sites| u64::from(sites.count))
    }

    fn check_size(&self, node: &Node) -> Result<(), SpecError> {
        let per_node = u64::from(node.size());
        let devices = self.total_nodes() * per_node;
        if devices > MAX_COUNT {
            let problem = format!("{} nodes of {per_node} devices are {devices} devices", self.total_nodes());
            return Err(SpecError::at("nodes", problem)
                .allowed(format!("at most {MAX_COUNT} devices"))
                .hint("fewer nodes, sites, or devices of a node"));
        }
        let mesh = matches!(node.scale_up, Some(ScaleUp::FullMesh(_)));
        let links = self.total_nodes() * per_node * (per_node - 1) / 2;
        if mesh && links > MAX_LINKS {
            return Err(SpecError::at("node.scale_up.full_mesh", format!("{links} links are too many"))
                .allowed(format!("at most {MAX_LINKS}"))
                .hint("a switch stands for a mesh this large"));
        }
        Ok(())
    }

    /// Everything must be able to reach everything.
    fn check_joined(&self, node: &Node) -> Result<(), SpecError> {
        if self.nodes > 1 && self.fabric.is_none() {
            return Err(SpecError::at("nodes", format!("{} nodes, but nothing joins them", self.nodes))
                .hint("add \"fabric\", or set \"nodes\": 1"));
        }
        let outside = self.fabric.is_some() || self.sites.is_some();
        if outside && node.nics.is_none() && self.total_nodes() > 1 {
            return Err(SpecError::at("node", "the fabric has nothing to plug into: `nics` is missing")
                .hint("add \"nics\": {\"link\": {\"bandwidth_GBps_per_direction\": 50}}"));
        }
        if node.size() > 1 && node.scale_up.is_none() && !(outside && node.nics.is_some()) {
            return Err(SpecError::at("node", format!("nothing joins its {} devices", node.size()))
                .allowed("`scale_up` with `switch`, `full_mesh` or `torus`; or `nics` and a `fabric`"));
        }
        let via_nic = node.memory.iter().position(|tier| tier.via == super::topology::Via::Nic);
        if let (Some(i), None) = (via_nic, &node.nics) {
            let problem = "\"nic\" is not allowed: the node has no NICs";
            return Err(SpecError::at(format!("node.memory[{i}].via"), problem)
                .hint("add `node.nics`, or attach the tier to the host or the device"));
        }
        if self.sites.is_some() && matches!(self.fabric, Some(Fabric::Dragonfly(_))) {
            return Err(SpecError::at("sites", "a dragonfly cannot be one of several sites")
                .allowed("sites with a `clos` fabric, or of one node each"));
        }
        Ok(())
    }
}

impl Node {
    /// Devices of a node: as given, else as the torus says, else one.
    pub fn size(&self) -> u32 {
        match (self.devices, &self.scale_up) {
            (Some(n), _) => n,
            (None, Some(ScaleUp::Torus(torus))) => {
                torus.dims.iter().fold(1, |p: u32, n| p.saturating_mul(*n))
            }
            (None, _) => 1,
        }
    }
    /// Network interfaces of the node; without `nics`, as if each device had one.
    pub fn nic_count(&self) -> u32 {
        self.size().div_ceil(self.nics.as_ref().map_or(1, |nics| nics.shared_by))
    }
}

fn divides(what: &str, part: u32, whole: u32) -> Result<(), SpecError> {
    if whole.is_multiple_of(part) {
        return Ok(());
    }
    let divisors: Vec<String> =
        (1..=whole).filter(|d| whole.is_multiple_of(*d)).map(|d| d.to_string()).take(24).collect();
    let problem = format!("{part} is not allowed: it does not divide the {whole} devices of a node");
    Err(SpecError::at(what, problem).allowed(divisors.join(", ")))
}

/// Neighbours share interfaces, hosts and links in groups of equal size; where the machine is one node, or some
/// devices of one, its last groups may be smaller.
fn check_node(node: &Node, nodes: u64) -> Result<(), SpecError> {
    if let Some(ScaleUp::Torus(torus)) = &node.scale_up {
        let product = torus
            .dims
            .iter()
            .try_fold(1_u64, |p, n| p.checked_mul(u64::from(*n)).filter(|p| *p <= MAX_COUNT));
        let Some(product) = product else {
            return Err(SpecError::at("scale_up.torus.dims", format!("{:?} is not allowed", torus.dims))
                .allowed(format!("a product of at most {MAX_COUNT}")));
        };
        if let Some(devices) = node.devices
            && u64::from(devices) != product
        {
            let problem = format!("{devices} devices, but the torus has {product} places");
            return Err(
                SpecError::at("devices", problem).hint("leave `devices` out: the torus gives the number")
            );
        }
        check_wrap(&torus.wrap, torus.dims.len()).map_err(|e| e.under("scale_up.torus.wrap"))?;
    }
    let size = node.size();
    if let Some(host) = &node.host {
        let per_host = host.shared_by.unwrap_or(size);
        if nodes > 1 {
            divides("host.shared_by", per_host, size)?;
        }
        if nodes > 1 || per_host < size {
            divides("host.link_shared_by", host.link_shared_by, per_host)?;
        }
    }
    if let Some(nics) = node.nics.as_ref().filter(|_| nodes > 1) {
        divides("nics.shared_by", nics.shared_by, size)?;
    }
    for (i, tier) in node.memory.iter().enumerate() {
        check_tier(node, nodes, i).map_err(|e| e.under(&format!("memory[{i}]")))?;
        if tier.name == "hbm" || node.memory[..i].iter().any(|other| other.name == tier.name) {
            let problem = format!("a second tier is called `{}`", tier.name);
            return Err(SpecError::at(format!("memory[{i}].name"), problem)
                .hint("tiers are told apart by name; `hbm` is the device memory"));
        }
    }
    Ok(())
}

fn check_tier(node: &Node, nodes: u64, i: usize) -> Result<(), SpecError> {
    let tier = &node.memory[i];
    if tier.via == super::topology::Via::Host && node.host.is_none() {
        return Err(SpecError::at("via", "\"host\" is not allowed: the node has no host")
            .hint("add `node.host`, or attach the tier to the device"));
    }
    if tier.write_gbps.is_some() && tier.link.duplex == super::topology::Duplex::Half {
        let problem = "a rate of writes is not allowed: both ways of a half-duplex link are one";
        let hint = "link.duplex full, and link.combined_GBps for what both ways reach together";
        return Err(SpecError::at("write_GBps", problem).hint(hint));
    }
    if tier.write_cache_gb.is_some() && tier.write_gbps.is_none_or(|write| write >= tier.link.gbps) {
        return Err(SpecError::at(
            "write_cache_GB",
            "a cache of writes is not allowed: writes are as fast without",
        )
        .hint("write_GBps: what is written behind it, slower than the link"));
    }
    let Some(shared_by) = tier.shared_by else {
        return Ok(());
    };
    let size = node.size();
    let per_port = match tier.via {
        super::topology::Via::Host => node.host.as_ref().and_then(|host| host.shared_by).unwrap_or(size),
        super::topology::Via::Device => 1,
        super::topology::Via::Nic => node.nics.as_ref().map_or(1, |nics| nics.shared_by),
    };
    let (all, alone) = (u64::from(size) * nodes, nodes == 1);
    let fits = size.is_multiple_of(shared_by) || shared_by.is_multiple_of(size);
    let splits = shared_by.is_multiple_of(per_port) || per_port.is_multiple_of(shared_by);
    let splits = splits || (alone && per_port >= size);
    if splits && (alone || (fits && u64::from(shared_by) <= all)) {
        return Ok(());
    }
    Err(SpecError::at("shared_by", format!("{shared_by} is not allowed"))
        .allowed(format!(
            "a divisor or a multiple of the {size} devices of a node (and of the {per_port} at \
             one attachment), at most {all}"
        ))
        .hint("instances are shared by neighbours: whole hosts, whole nodes, or equal parts of them"))
}

fn check_wrap(wrap: &Wrap, axes: usize) -> Result<(), SpecError> {
    match wrap {
        Wrap::Axes(flags) if flags.len() != axes => {
            Err(SpecError::at("axes", format!("{} entries for {axes} axes", flags.len()))
                .allowed("one for each axis"))
        }
        Wrap::AtLength(n) | Wrap::CubesOf(n) if *n == 0 => {
            Err(SpecError::at("", "0 is not allowed").allowed("a whole number from 1"))
        }
        _ => Ok(()),
    }
}

fn check_clos(clos: &Clos, node: &Node, nodes: u32, total_nodes: u64) -> Result<(), SpecError> {
    if clos.tiers.is_empty() || clos.tiers.len() > 6 {
        return Err(SpecError::at("tiers", format!("{} tiers", clos.tiers.len())).allowed("one to six tiers"));
    }
    let nics = u64::from(node.nic_count());
    let (mut units, mut links) = (u64::from(nodes), 0_u64);
    for (l, tier) in clos.tiers.iter().enumerate() {
        let last = l + 1 == clos.tiers.len();
        let at = |field: &str| format!("tiers[{l}].{field}");
        match tier.serves {
            None if !last => {
                return Err(SpecError::at(format!("tiers[{l}]"), "the field `serves` is missing").hint(
                    "every tier but the last says how many nodes or lower units one of its switches joins",
                ));
            }
            serves => units = serves.map_or(1, |n| units.div_ceil(u64::from(n))),
        }
        if last && units > 1 {
            return Err(SpecError::at(at("serves"), format!("the last tier leaves {units} parts unjoined"))
                .hint("leave `serves` out of the last tier, or add a tier above it"));
        }
        if !last {
            let switches = units.saturating_mul(if l == 0 && clos.rails { nics } else { 1 });
            links = links.saturating_add(switches.saturating_mul(total_nodes.div_ceil(u64::from(nodes))));
            if links > MAX_LINKS {
                return Err(SpecError::at(
                    at("serves"),
                    format!("{links} links between switches are too many"),
                )
                .allowed(format!("at most {MAX_LINKS} links"))
                .hint("fewer nodes, or more of them under one switch"));
            }
        }
    }
    if clos.pxn && !(clos.rails && matches!(node.scale_up, Some(ScaleUp::Switch(_) | ScaleUp::FullMesh(_)))) {
        return Err(SpecError::at("pxn", "true is not allowed").allowed(
            "only with `rails` and a scale-up switch or full mesh, over which the peer device is reached",
        ));
    }
    Ok(())
}

fn check_dragonfly(fly: &Dragonfly, node: &Node, machine: &Topology) -> Result<(), SpecError> {
    let nics = u64::from(node.nic_count()) * machine.total_nodes();
    let per_group = u64::from(fly.switches_per_group) * u64::from(fly.nics_per_switch);
    let groups = nics.div_ceil(per_group);
    let s = u64::from(fly.switches_per_group);
    let pairs = |n: u64| n.saturating_mul(n.saturating_sub(1)) / 2;
    let links = groups
        .saturating_mul(pairs(s))
        .saturating_add(pairs(groups).saturating_mul(u64::from(fly.links_between_groups)));
    if links > MAX_LINKS {
        return Err(SpecError::at("", format!("{links} links between switches are too many"))
            .allowed(format!("at most {MAX_LINKS}")));
    }
    Ok(())
}

fn check_graph(graph: &Graph) -> Result<(), SpecError> {
    let count = graph.vertices.len().max(graph.links.len());
    if count > MAX_DRAWN {
        return Err(SpecError::at("vertices", format!("{count} vertices or links are too many to draw"))
            .allowed(format!("at most {MAX_DRAWN}"))
            .hint("larger machines are built: `node` and `fabric`"));
    }
    let mut names: Vec<&str> = graph.vertices.iter().map(|v| v.name.as_str()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(SpecError::at("vertices", format!("two vertices are called `{}`", twice[0])));
    }
    let known = |path: String, name: &str| match names.binary_search(&name) {
        Ok(_) => Ok(()),
        Err(_) => Err(SpecError::at(path, format!("no vertex is called `{name}`")).hint(
            match nearest(name, names.iter().copied()).first() {
                Some(near) => format!("did you mean `{near}`?"),
                None => "add it to `graph.vertices`".into(),
            },
        )),
    };
    for (i, edge) in graph.links.iter().enumerate() {
        known(format!("links[{i}].from"), &edge.from)?;
        known(format!("links[{i}].to"), &edge.to)?;
        if edge.from == edge.to {
            let problem = format!("`{}` is linked with itself", edge.to);
            return Err(SpecError::at(format!("links[{i}].to"), problem));
        }
    }
    if !graph.vertices.iter().any(|v| v.kind == VertexKind::Device) {
        return Err(SpecError::at("vertices", "no vertex is a device").hint("add one of kind \"device\""));
    }
    for (i, vertex) in graph.vertices.iter().enumerate() {
        check_vertex(graph, vertex, &known, i)?;
    }
    Ok(())
}

fn check_vertex(
    graph: &Graph,
    vertex: &super::topology::Vertex,
    known: &impl Fn(String, &str) -> Result<(), SpecError>,
    i: usize,
) -> Result<(), SpecError> {
    let at = |field: &str| format!("vertices[{i}].{field}");
    let is_device = vertex.kind == VertexKind::Device;
    let is_memory = vertex.kind == VertexKind::Memory;
    if let Some(device) = &vertex.device {
        device.validate().map_err(|e| e.under(&at("device")))?;
    }
    if !is_device && (vertex.device.is_some() || !vertex.tiers.is_empty()) {
        return Err(SpecError::at(at("kind"), "only a device has `device` and `tiers`"));
    }
    if is_memory != vertex.capacity_gib.is_some() || is_memory != vertex.tier.is_some() {
        let problem = if is_memory {
            "a memory needs `tier` and `capacity_GiB`"
        } else {
            "only a memory has `tier` and `capacity_GiB`"
        };
        return Err(SpecError::at(format!("vertices[{i}]"), problem));
    }
    for (t, name) in vertex.tiers.iter().enumerate() {
        known(format!("vertices[{i}].tiers[{t}]"), name)?;
        let target = graph.vertices.iter().find(|v| v.name == *name);
        if target.is_some_and(|v| v.kind != VertexKind::Memory) {
            let problem = format!("`{name}` is not a memory");
            return Err(SpecError::at(format!("vertices[{i}].tiers[{t}]"), problem));
        }
    }
    Ok(())
}
