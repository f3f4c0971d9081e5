//! The expansion of a machine file.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::list::rates;
use stepsim_core::ids::{DeviceId, ResourceId};
use stepsim_core::units::{Bandwidth, Bytes, Time};
use stepsim_fabric::topology::{CopyDirection, Machine};
pub use stepsim_read::analysis::table::{grouped, new_table};
use stepsim_spec::{Device, LoadedSpec, Topology};

/// A machine for readers.
#[derive(Debug, Serialize)]
pub(super) struct MachineView {
    name: String,
    description: String,
    devices: u32,
    nodes: u32,
    sites: u32,
    device: Device,
    links: Vec<LinkKind>,
    tiers: Vec<TierView>,
    routes: Vec<RouteView>,
}

/// Links that differ only in their numbers.
#[derive(Debug, Serialize)]
struct LinkKind {
    /// Its two ends without numbers.
    between: String,
    /// True if one capacity serves both directions.
    shared_by_both_directions: bool,
    /// How many capacities of this kind there are: two for a link with one for each direction.
    count: u64,
    #[serde(rename = "capacity_GBps")]
    capacity_gbps: f64,
    latency_us: f64,
}

/// One of a device's memory tiers.
#[derive(Debug, Serialize)]
struct TierView {
    name: String,
    capacity_bytes: u64,
    /// How many of it the machine has.
    count: u64,
    /// Towards the device, on an idle machine; absent for the device's own memory.
    #[serde(rename = "in_GBps", skip_serializing_if = "Option::is_none")]
    in_gbps: Option<f64>,
    #[serde(rename = "out_GBps", skip_serializing_if = "Option::is_none")]
    out_gbps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_us: Option<f64>,
}

/// The way from one device to another.
#[derive(Debug, Serialize)]
struct RouteView {
    from: u32,
    to: u32,
    links: Vec<String>,
    latency_us: f64,
    /// Of its narrowest link.
    #[serde(rename = "capacity_GBps")]
    capacity_gbps: f64,
}

impl MachineView {
    pub(super) fn of(topology: &LoadedSpec<Topology>, machine: &Machine) -> MachineView {
        let fabric = machine.fabric();
        let (first, far) = (DeviceId(0), last(machine));
        let mut routes: Vec<RouteView> = Vec::new();
        for to in [DeviceId(1), far] {
            if to.0 > 0 && to <= far && routes.iter().all(|r| r.to != to.0) {
                routes.extend(RouteView::of(machine, first, to));
            }
        }
        MachineView {
            name: topology.name.clone(),
            description: topology.value.description.clone(),
            devices: machine.devices(),
            nodes: fabric.nodes,
            sites: fabric.sites,
            device: machine.device(first).clone(),
            links: link_kinds(machine),
            tiers: tiers(machine),
            routes,
        }
    }

    pub(super) fn text(&self, width: u16) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "machine {}: {}", self.name, self.description);
        let sites = if self.sites > 1 { format!(" at {} sites", self.sites) } else { String::new() };
        let _ = writeln!(
            out,
            "  {} devices in {} nodes{sites}; each a {}",
            grouped(self.devices.into()),
            grouped(self.nodes.into()),
            device_words(&self.device)
        );
        let head = ["  links", "capacities", "GB/s", "latency", ""].map(String::from).to_vec();
        let mut table = new_table(width, head);
        for kind in &self.links {
            let each =
                if kind.shared_by_both_directions { "both directions share" } else { "each direction" };
            table.add_row([
                format!("  {}", kind.between),
                grouped(kind.count),
                number(kind.capacity_gbps),
                Time::from_us(kind.latency_us).to_string(),
                each.to_string(),
            ]);
        }
        let _ = writeln!(out, "\n{table}");
        let head =
            ["  memory", "of one", "in all", "to the device", "back", "latency"].map(String::from).to_vec();
        let mut table = new_table(width, head);
        for tier in &self.tiers {
            let rate = |r: Option<f64>| r.map_or("·".to_string(), |r| format!("{} GB/s", number(r)));
            table.add_row([
                format!("  {}", tier.name),
                capacity(tier.capacity_bytes),
                grouped(tier.count),
                rate(tier.in_gbps),
                rate(tier.out_gbps),
                tier.latency_us.map_or("·".to_string(), |us| Time::from_us(us).to_string()),
            ]);
        }
        let _ = writeln!(out, "\n{table}");
        for route in &self.routes {
            let _ = writeln!(
                out,
                "\n  route from device {} to device {}: {} GB/s, {}\n    {}",
                route.from,
                route.to,
                number(route.capacity_gbps),
                Time::from_us(route.latency_us),
                route.links.join("\n    ")
            );
        }
        out
    }
}

/// A tier's capacity; simple machines have no limit.
pub(super) fn capacity(bytes: u64) -> String {
    if bytes >= Device::UNBOUNDED.0 { "unbounded".to_string() } else { Bytes(bytes).to_string() }
}

/// At most three decimals, none that are zero.
fn number(x: f64) -> String {
    if x.is_finite() { ((x * 1e3).round() / 1e3).to_string() } else { "unlimited".into() }
}

fn device_words(device: &Device) -> String {
    [vec![device.name.clone()], rates(device, 2)].concat().join(", ")
}

/// Resources grouped by the names of their ends without digits, capacity and latency; widest first.
fn link_kinds(machine: &Machine) -> Vec<LinkKind> {
    let mut kinds: BTreeMap<(String, bool, u64, Time), u64> = BTreeMap::new();
    for r in (0..machine.resources()).map(ResourceId) {
        let (between, both) = generic(&machine.resource_name(r));
        let capacity = machine.capacity(r).0.to_bits();
        *kinds.entry((between, both, capacity, machine.link_latency(r))).or_default() += 1;
    }
    let mut list: Vec<LinkKind> = kinds
        .into_iter()
        .map(|((between, both, capacity, latency), count)| LinkKind {
            between,
            shared_by_both_directions: both,
            count,
            capacity_gbps: Bandwidth(f64::from_bits(capacity)).gbps(),
            latency_us: latency.us(),
        })
        .collect();
    list.sort_by(|a, b| b.capacity_gbps.total_cmp(&a.capacity_gbps));
    list
}

/// `node3.dev5 -> nvswitch3` as `dev – nvswitch`; and whether both directions are meant.
fn generic(name: &str) -> (String, bool) {
    let both = name.contains(" <-> ");
    let (a, b) = name.split_once(if both { " <-> " } else { " -> " }).unwrap_or((name, ""));
    let class = |end: &str| {
        let last = end.rsplit('.').next().unwrap_or(end);
        last.trim_end_matches(|c: char| c.is_ascii_digit()).to_string()
    };
    let (a, b) = (class(a), class(b));
    let (a, b) = if a <= b { (a, b) } else { (b, a) };
    (format!("{a} – {b}"), both)
}

/// The tiers of device 0.
fn tiers(machine: &Machine) -> Vec<TierView> {
    let device = DeviceId(0);
    let names = machine.tiers_of(device).map(|t| (machine.tier(t).0.to_string(), machine.tier(t).1));
    names
        .enumerate()
        .map(|(i, (name, capacity))| {
            let copy = |direction| {
                let mut links = Vec::new();
                let latency = machine.copy_route(device, i, direction, &mut links).ok()?;
                Some((narrowest(machine, &links).gbps(), latency.us()))
            };
            let (inward, outward) = (copy(CopyDirection::In), copy(CopyDirection::Out));
            let count = (0..machine.tiers())
                .filter(|t| machine.tier(stepsim_core::ids::TierId(*t)).0 == name)
                .count();
            TierView {
                name,
                capacity_bytes: capacity.0,
                count: count as u64,
                in_gbps: inward.map(|c| c.0),
                out_gbps: outward.map(|c| c.0),
                latency_us: inward.map(|c| c.1),
            }
        })
        .collect()
}

fn narrowest(machine: &Machine, links: &[ResourceId]) -> Bandwidth {
    Bandwidth(links.iter().map(|r| machine.capacity(*r).0).fold(f64::INFINITY, f64::min))
}

impl RouteView {
    /// The way between two devices, of the first part where transfers split.
    fn of(machine: &Machine, from: DeviceId, to: DeviceId) -> Option<RouteView> {
        let mut links = Vec::new();
        let latency = machine.route(from, to, &mut links).ok()?;
        Some(RouteView {
            from: from.0,
            to: to.0,
            capacity_gbps: narrowest(machine, &links).gbps(),
            latency_us: latency.us(),
            links: links.iter().map(|r| machine.resource_name(*r)).collect(),
        })
    }
}

/// The last device of a machine.
pub(super) fn last(machine: &Machine) -> DeviceId {
    DeviceId(machine.devices().saturating_sub(1))
}
