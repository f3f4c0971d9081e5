//! A machine file: devices, nodes, memory tiers, networks. Files: `topologies/*.json`.
//!
//! A machine is either built (`node`, and `fabric` and `sites` around it) or drawn vertex by vertex (`graph`).
//! *Node* means one scale-up domain: a server of 8 GPUs, a rack of 72, a TPU slice. Bandwidths are per direction and
//! on the wire; `efficiency` says which part of it payload can reach, with its source beside it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::collectives::Collectives;
use super::device::Device;
use super::number;
use stepsim_core::declare::one;

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Its description, one sentence.
    #[serde(default)]
    pub description: String,
    /// The device: a name of the catalogue, a path relative to this file, or the device itself.
    #[schemars(with = "InlineReference<Device>")]
    pub device: Device,
    /// How many nodes (for each site, if there are sites).
    #[serde(default = "one", deserialize_with = "number::count")]
    pub nodes: u32,
    /// Nodes whose devices are of another class; all else is alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_nodes: Vec<OtherNodes>,
    /// The node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// The network between the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric: Option<Fabric>,
    /// The network between the sites, each of `nodes` nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sites: Option<Sites>,
    /// Any other machine, vertex by vertex; instead of `node`, `fabric` and `sites`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<Graph>,
    /// Rules and measured times of collectives: a name of the catalogue, a path relative to this file, or in place.
    /// Absent: NCCL's choice on devices that its tuning is known of, else the best closed form.
    #[schemars(with = "Option<InlineReference<Collectives>>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collectives: Option<Collectives>,
    /// Where each figure comes from: path of the field → source.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, String>,
}

/// Nodes in a row whose devices are of another class than the machine's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OtherNodes {
    /// Number of the first of them, from 0 (over all sites).
    #[serde(deserialize_with = "number::count_or_zero")]
    pub first: u32,
    /// How many.
    #[serde(deserialize_with = "number::count")]
    pub count: u32,
    /// Their device: a name of the catalogue, a path relative to this file, or the device itself.
    #[schemars(with = "InlineReference<Device>")]
    pub device: Device,
}

/// A value given in place, or the name or path of its file (resolved before typed parsing; for the schema only).
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(clippy::large_enum_variant)]
pub enum InlineReference<T> {
    /// Name in the catalogue, or path relative to the referring file.
    Name(String),
    /// The value itself.
    Value(T),
}

/// A link: both directions alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Wire bandwidth of each direction in 10⁹ B/s.
    #[serde(rename = "bandwidth_GBps_per_direction", deserialize_with = "number::rate")]
    pub gbps: f64,
    /// Part of the wire bandwidth that payload can reach.
    #[serde(default = "unity", deserialize_with = "number::efficiency")]
    pub efficiency: f64,
    /// Time from one end to the other, paid before a transfer occupies the link.
    #[serde(default, deserialize_with = "number::non_negative")]
    pub latency_us: f64,
    /// `full`: the directions are independent; `half`: they share one capacity.
    #[serde(default)]
    pub duplex: Duplex,
    /// Limit of both directions together, as measured, in 10⁹ B/s (no efficiency applied).
    #[serde(default, rename = "combined_GBps", skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "number::optional_positive")]
    pub combined_gbps: Option<f64>,
    /// Where the figures come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// The sharing of a link's capacity between its directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Duplex {
    /// Each direction has the full bandwidth.
    #[default]
    Full,
    /// Both directions together have it.
    Half,
}

/// A node: one scale-up domain with its hosts, network interfaces and memory tiers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Number of devices; may be left out with a torus, whose dimensions say it.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub devices: Option<u32>,
    /// The network between the devices of a node; absent: only the fabric joins them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScaleUp>,
    /// The hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// The network interfaces, required with a fabric or sites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nics: Option<Nics>,
    /// Memory tiers behind the device memory, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<Memory>,
}

/// The network between the devices of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScaleUp {
    /// A crossbar: every device has one port, any pairing at full rate.
    Switch(Switch),
    /// A link between every two devices.
    FullMesh(FullMesh),
    /// A grid of one to several axes, each a ring or a line. Device 0, 1, 2, … run along the first axis.
    Torus(Torus),
}

/// A crossbar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// The port of one device (all its parallel links together).
    pub link: Link,
    /// Port to port through the switch.
    #[serde(default, deserialize_with = "number::non_negative")]
    pub latency_us: f64,
    /// True if the switch can reduce and multicast (NVLS).
    #[serde(default)]
    pub in_switch_reduction: bool,
}

/// A link between every two devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FullMesh {
    /// The link to one peer.
    pub link: Link,
}

/// A torus, mesh, ring or line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Torus {
    /// Length of each axis.
    #[serde(deserialize_with = "dims")]
    pub dims: Vec<u32>,
    /// The axes that close to a ring.
    #[serde(default)]
    pub wrap: Wrap,
    /// The link to one neighbour.
    pub link: Link,
}

/// The axes of a torus that close to a ring. An axis of length two never does: it has one link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Wrap {
    /// Every axis longer than two.
    #[default]
    Always,
    /// No axis: a mesh.
    Never,
    /// Axes of exactly this length (TPU v5e, v6e: 16).
    AtLength(u32),
    /// All axes if all are multiples of this, else none (TPU v4, v5p: cubes of 4×4×4 joined by optical switches).
    CubesOf(u32),
    /// Said for each axis.
    Axes(Vec<bool>),
}

/// The hosts of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Devices of one host; all of the node if absent.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub shared_by: Option<u32>,
    /// The link between device and host.
    pub link: Link,
    /// Devices that share one such link.
    #[serde(default = "one", deserialize_with = "number::count")]
    pub link_shared_by: u32,
    /// Bytes that one core streams through the host's memory, in 10⁹ B/s; default: 16 (a Skylake-SP core: 12 GB/s of
    /// the STREAM triad and a third more that it reads before it writes, anandtech.com 11544).
    #[serde(default = "core_gbps", rename = "core_GBps", deserialize_with = "number::rate")]
    pub core_gbps: f64,
}

/// The default of [`Host::core_gbps`].
pub fn core_gbps() -> f64 {
    16.0
}

/// The network interfaces of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nics {
    /// Devices that share one NIC.
    #[serde(default = "one", deserialize_with = "number::count")]
    pub shared_by: u32,
    /// NICs side by side where the link says one: their bandwidths add.
    #[serde(default = "one", deserialize_with = "number::count")]
    pub bundle: u32,
    /// One NIC's link to its first switch.
    pub link: Link,
}

/// A memory tier behind the device memory: host DRAM, CXL, NVMe, a memory server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Its kind, by which workloads name it: `host`, `cxl`, `nvme`, …
    pub name: String,
    /// Capacity of one instance.
    #[serde(rename = "capacity_GiB", deserialize_with = "number::capacity")]
    pub capacity_gib: f64,
    /// Devices that share one instance; may span nodes (a pool). Absent: as many as share a host, else the node.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub shared_by: Option<u32>,
    /// Where it is attached.
    #[serde(default)]
    pub via: Via,
    /// The instance's own bandwidth: its port or its media.
    pub link: Link,
    /// Bandwidth towards the memory in 10⁹ B/s, where it differs from the link's (NVMe writes).
    #[serde(default, rename = "write_GBps", skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "number::optional_positive")]
    pub write_gbps: Option<f64>,
    /// Bytes of a step, in 10⁹, that it writes at the bandwidth of its link before `write_GBps` sets the pace (flash
    /// that is written one bit a cell first); empty when a step begins.
    #[serde(default, rename = "write_cache_GB", skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "number::optional_positive")]
    pub write_cache_gb: Option<f64>,
    /// The link from each host, device or NIC to the instance; absent: no limit but the instance's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<Link>,
}

/// The owner of a memory tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// The host: copies cross the host link.
    #[default]
    Host,
    /// The device itself.
    Device,
    /// The network interface: copies share it with collectives.
    Nic,
}

/// The network between the nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fabric {
    /// Tiers of switches: leaf–spine, three-tier Clos, rail-optimised or not.
    Clos(Clos),
    /// Groups of switches, all to all inside and between groups.
    Dragonfly(Dragonfly),
}

/// Tiers of switches, lowest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Clos {
    /// Rail-optimised: NIC `i` of every node goes to lowest-tier switch `i` of its unit.
    #[serde(default)]
    pub rails: bool,
    /// With rails: reach another rail through the peer device of the own node (NCCL's PXN), not through the spine.
    #[serde(default)]
    pub pxn: bool,
    /// The tiers, lowest first. The last joins everything.
    pub tiers: Vec<SwitchTier>,
    /// True if the switches can reduce and multicast (SHARP).
    #[serde(default)]
    pub in_switch_reduction: bool,
}

/// One tier of switches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchTier {
    /// The name of its switches: leaf, spine.
    pub name: String,
    /// Nodes under one switch (lowest tier), or lower units under one (others); absent in the last tier: all.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub serves: Option<u32>,
    /// Capacity from below over capacity to above; not in the last tier.
    #[serde(default = "unity", deserialize_with = "number::positive")]
    pub oversubscription: f64,
    /// Port to port through one switch.
    #[serde(default, deserialize_with = "number::non_negative")]
    pub latency_us: f64,
}

/// A dragonfly: NICs on switches, switches all to all in a group, groups all to all. Routes are minimal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dragonfly {
    /// Switches of a group.
    #[serde(deserialize_with = "number::count")]
    pub switches_per_group: u32,
    /// NICs on one switch.
    #[serde(deserialize_with = "number::count")]
    pub nics_per_switch: u32,
    /// Link between two switches of a group.
    pub local_link: Link,
    /// Links between every two groups.
    #[serde(deserialize_with = "number::count")]
    pub links_between_groups: u32,
    /// One of them.
    pub global_link: Link,
    /// Port to port through one switch.
    #[serde(default, deserialize_with = "number::non_negative")]
    pub latency_us: f64,
}

/// Sites joined by long-distance links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sites {
    /// How many.
    #[serde(deserialize_with = "number::count")]
    pub count: u32,
    /// The pairs of sites that have a link.
    pub join: Join,
    /// The link between two sites; its `latency_us` comes on top of the fibre's.
    pub link: Link,
    /// Length of one such link.
    #[serde(deserialize_with = "number::non_negative")]
    pub link_km: f64,
    /// One-way fibre latency: 4.9 µs/km is light in glass of refractive index 1.468.
    #[serde(default = "fibre", deserialize_with = "number::non_negative")]
    pub us_per_km: f64,
}

/// The pairs of sites that have a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// Each with the next, the last with the first.
    Ring,
    /// Each with the next.
    Line,
    /// Each with every other.
    FullMesh,
}

/// A machine drawn vertex by vertex. Devices are numbered in the order in which they stand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// The vertices.
    pub vertices: Vec<Vertex>,
    /// The links.
    pub links: Vec<Edge>,
}

/// A vertex of a drawn machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vertex {
    /// Its name, unique in the machine.
    pub name: String,
    /// The kind of vertex.
    pub kind: VertexKind,
    /// Port-to-port latency of a switch, host or NIC.
    #[serde(default, deserialize_with = "number::non_negative")]
    pub latency_us: f64,
    /// Of a device: another device class than the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<InlineReference<Device>>")]
    pub device: Option<Device>,
    /// Of a device: which node it belongs to.
    #[serde(default, deserialize_with = "number::count_or_zero")]
    pub node: u32,
    /// Of a device: names of the memory vertices that are its tiers, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<String>,
    /// Of a memory: the tier kind by which workloads name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Of a memory: its capacity.
    #[serde(default, rename = "capacity_GiB", skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "number::optional_capacity")]
    pub capacity_gib: Option<f64>,
}

/// The kind of a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VertexKind {
    /// An accelerator. Transfers between others may pass through it.
    Device,
    /// A switch.
    Switch,
    /// A host.
    Host,
    /// A network interface.
    Nic,
    /// A memory. Nothing passes through it.
    Memory,
}

/// A link of a drawn machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// One end.
    pub from: String,
    /// The other end.
    pub to: String,
    /// The link.
    pub link: Link,
}

impl Link {
    /// A link of a bandwidth per direction and a latency, at full efficiency.
    pub fn of(gbps: f64, latency_us: f64) -> Link {
        Link { gbps, efficiency: 1.0, latency_us, duplex: Duplex::Full, combined_gbps: None, source: None }
    }
}

fn fibre() -> f64 {
    4.9
}

/// Lengths of axes: one to six of them, each a count.
fn dims<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Vec<u32>, D::Error> {
    #[derive(Deserialize)]
    struct Length(#[serde(deserialize_with = "number::count")] u32);
    let dims: Vec<Length> = Vec::deserialize(d)?;
    if dims.is_empty() || dims.len() > 6 {
        return Err(serde::de::Error::invalid_length(dims.len(), &"one to six axes"));
    }
    Ok(dims.into_iter().map(|Length(n)| n).collect())
}

fn unity() -> f64 {
    1.0
}
