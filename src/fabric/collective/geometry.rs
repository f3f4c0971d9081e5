//! A group of ranks as an algorithm sees it: how many, on how many nodes, over which links.
//!
//! Groups of equal geometry behave alike and share their actions. `formula` and the chooser use these numbers, while
//! `fluid` and `steps` use every route and are right for uneven groups too.

use stepsim_core::units::Time;

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

/// How far the two ends of a send lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum EndDistance {
    InNode,
    BetweenNodes,
    BetweenSites,
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
    /// Between counterparts on nodes of one site.
    pub within: NeighbourLink,
    /// Between counterparts on a site and the next, round the sites, while all members send: one member's share.
    pub across: NeighbourLink,
    /// The same of one message while every member sends to its counterparts on all other sites at once.
    pub all: NeighbourLink,
}

impl SiteLinks {
    /// A member's share while it sends to its counterparts on all other sites at once, as every member does.
    pub fn to_all(&self) -> NeighbourLink {
        NeighbourLink { rate: self.all.rate * u64::from(self.count - 1), ..self.all }
    }
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
    /// To members on other rails of other nodes, while all members send there, where that is a longer way than along a
    /// rail (without PXN); none over several sites.
    pub other_rails: Option<NeighbourLink>,
    /// The share of one message while each member sends to each other, where messages meet on links that are neither
    /// ports nor uplinks (dragonflies).
    pub pairs: Option<NeighbourLink>,
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
            other_rails: None,
            pairs: None,
            sites: None,
            fabric,
        }
    }
    /// Two members with one link between them.
    pub(super) fn pair(link: NeighbourLink, apart: EndDistance) -> Geometry {
        let (nodes, per_node) = if apart == EndDistance::InNode { (1, 2) } else { (2, 1) };
        let within = NeighbourLink { latency: Time::ZERO, ..link };
        let sites = SiteLinks { count: 2, within, across: link, all: link };
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
        let sites = SiteLinks { across: near(of.across), all: near(of.all), ..of };
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
        let sites = self.sites.map(|s| SiteLinks {
            within: change(s.within),
            across: change(s.across),
            all: change(s.all),
            ..s
        });
        let uplinks =
            self.uplinks.map(|u| Uplinks { within: change(u.within), across: change(u.across), ..u });
        let [intra, one_way, inter, alone] = [self.intra, self.one_way, self.inter, self.alone].map(&change);
        let [other_rails, pairs] = [self.other_rails, self.pairs].map(|class| class.map(&change));
        Geometry { intra, one_way, inter, alone, uplinks, other_rails, pairs, sites, ..self.clone() }
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
    /// The same while each sends to all others at once: messages to sites on either side of a ring share no link.
    pub(super) fn border_of_pairs(&self) -> Option<(u32, NeighbourLink)> {
        let sites = self.sites.map(|sites| (self.size / sites.count, sites.to_all()));
        sites.or(self.border())
    }
    /// The members that one of them reaches across the border of its part, and the way there.
    pub(super) fn across_border(&self) -> Option<(f64, NeighbourLink)> {
        let whole = self.other_rails.map(|across| (self.size, across));
        let (of, across) = self.border_of_pairs().or(whole)?;
        let beyond = f64::from(self.size - of);
        let beside = f64::from(of / self.per_node.max(1)) - 1.0;
        let within = if self.other_rails.is_some() { beside * self.off_rail() } else { 0.0 };
        Some((beyond + within, across))
    }
    /// Members of a node that do not share a member's network port.
    pub(super) fn off_rail(&self) -> f64 {
        f64::from(self.per_node) - f64::from(self.per_node) / f64::from(self.ports.max(1))
    }
    /// Messages to each member of the own node, in terms of one to each, while each member sends to each other: those
    /// for other rails of other nodes may hop to them first.
    pub(super) fn inside_of_pairs(&self) -> f64 {
        let peers = f64::from(self.per_node.saturating_sub(1).max(1));
        1.0 + if self.hops { f64::from(self.nodes - 1) * self.off_rail() / peers } else { 0.0 }
    }
    /// Each member to its counterpart on the next node, round the nodes: of each part only one node sends across its
    /// border.
    pub(super) fn next_node(&self) -> NeighbourLink {
        let of_node = f64::from(self.per_node.max(1));
        let Some((of, across)) = self.border() else { return self.inter };
        let border = f64::from(of) / of_node * across.bandwidth();
        let latency = self.inter.latency.max(across.latency);
        NeighbourLink { latency, rate: self.near().rate.min(border.round() as u64) }
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
        let off_rail = self.other_rails.unwrap_or(self.inter);
        NeighbourLink { latency: self.inter.latency.max(off_rail.latency), rate: rate.min(off_rail.rate) }
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
