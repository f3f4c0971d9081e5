//! Machines: routes, capacities, wrap rules, bisections, tiers.

use petgraph::graph::NodeIndex;
use stepsim_core::ids::{DeviceId, ResourceId};
use stepsim_core::units::{Bandwidth, Bytes, Time};
use stepsim_fabric::topology::*;

fn machine(topology: &str, sets: &[&str]) -> Machine {
    let sets: Vec<String> = sets.iter().map(|s| s.to_string()).collect();
    match Machine::load(topology, &sets) {
        Ok((_, machine)) => machine,
        Err(e) => panic!("{e}"),
    }
}

fn route(machine: &Machine, from: u32, to: u32) -> (Vec<String>, Time) {
    let mut links = Vec::new();
    let latency = machine.route(DeviceId(from), DeviceId(to), &mut links).unwrap();
    (links.iter().map(|l| machine.resource_name(*l)).collect(), latency)
}

/// Every route is a chain of links from one device to the other, and as long as the way back.
fn assert_routes_hold(machine: &Machine) {
    let n = machine.devices();
    let step = (n / 40).max(1) as usize;
    for from in (0..n).step_by(step) {
        for to in (0..n).step_by(step) {
            let (there, latency) = ends(machine, from, to);
            let (back, latency_back) = ends(machine, to, from);
            assert_eq!((there.len(), latency), (back.len(), latency_back), "{from} and {to}");
            let mut at = machine.vertex_name(device_vertex(machine, from));
            for (tail, head) in there {
                assert_eq!(at, tail);
                at = head;
            }
            assert_eq!(at, machine.vertex_name(device_vertex(machine, to)));
        }
    }
}

fn ends(machine: &Machine, from: u32, to: u32) -> (Vec<(String, String)>, Time) {
    let (names, latency) = route(machine, from, to);
    let split = |name: &String| {
        let (a, b) = name.split_once(" -> ").expect("full duplex");
        (a.to_string(), b.to_string())
    };
    (names.iter().map(split).collect(), latency)
}

fn device_vertex(machine: &Machine, device: u32) -> NodeIndex<u32> {
    let of = |v: &NodeIndex<u32>| machine.graph()[*v] == MachineVertex::Device(DeviceId(device));
    let at = NodeIndex::new(device as usize); // where built machines have it
    if of(&at) { at } else { machine.graph().node_indices().find(of).unwrap() }
}

/// The sum of the capacities, in GB/s, of the resources whose name the filter takes.
fn total(machine: &Machine, take: impl Fn(&str, &str) -> bool) -> f64 {
    (0..machine.resources())
        .map(ResourceId)
        .filter(|r| machine.resource_name(*r).split_once(" -> ").is_some_and(|(a, b)| take(a, b)))
        .map(|r| machine.capacity(r).gbps())
        .sum()
}

fn number(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.parse().ok()
}

#[test]
fn a_switch_has_one_port_up_and_one_down_for_each_device() {
    let m = machine("switch:8,100,2", &[]);
    assert_eq!((m.devices(), m.resources()), (8, 16));
    assert_eq!(
        route(&m, 2, 5),
        (vec!["dev2 -> nvswitch0".into(), "nvswitch0 -> dev5".into()], Time::from_us(2.0))
    );
    assert_eq!(m.capacity(ResourceId(3)), Bandwidth::from_gbps(100.0));
    assert_eq!(route(&m, 3, 3), (vec![], Time::ZERO));
    assert_eq!(m.tier_count(DeviceId(0)), 1);
    assert!(m.memory_resource(DeviceId(0)).is_none());
}

#[test]
fn a_ring_goes_the_shorter_way_and_pays_each_hop() {
    let m = machine("ring:5,50,1", &[]);
    assert_eq!(m.resources(), 10);
    assert_eq!(route(&m, 4, 1), (vec!["dev4 -> dev0".into(), "dev0 -> dev1".into()], Time::from_us(2.0)));
    assert_eq!(route(&machine("line:5,50,1", &[]), 4, 1).0.len(), 3);
    assert_eq!(machine("ring:2,50,1", &[]).resources(), 2);
}

#[test]
fn nodes_are_left_through_the_device_s_own_nic() {
    let m = machine("nodes:3*4,100,2,25,5", &[]);
    assert_eq!(m.devices(), 12);
    assert_eq!(route(&m, 1, 2).1, Time::from_us(2.0));
    let (names, latency) = route(&m, 1, 6);
    assert_eq!(names, ["node0.dev1 -> core0", "core0 -> node1.dev2"]);
    assert_eq!(latency, Time::from_us(5.0));
    assert_eq!((m.node_of(DeviceId(6)), m.slot_in_node(DeviceId(6))), (1, 2));
}

#[test]
fn routes_of_simple_machines_hold() {
    let all = [
        "switch:9,1,1",
        "ring:7,1,1",
        "ring:8,1,1",
        "line:6,1,1",
        "mesh:5,1,1",
        "torus:4x3x5,1,1",
        "nodes:3*4,9,1,1,2",
    ];
    for topology in all {
        assert_routes_hold(&machine(topology, &[]));
    }
}

#[test]
fn every_shipped_machine_builds_and_its_routes_hold() {
    for name in stepsim_spec::catalog::names(stepsim_spec::Kind::Topology) {
        let m = machine(name, &[]);
        assert_routes_hold(&m);
        let last = DeviceId(m.devices() - 1);
        for tier in 1..m.tier_count(last) {
            let (mut there, mut back) = (Vec::new(), Vec::new());
            let out = m.copy_route(last, tier, CopyDirection::Out, &mut there);
            let latency = m.copy_route(last, tier, CopyDirection::In, &mut back);
            assert_eq!((out, there.len()), (latency, back.len()), "{name} tier {tier}");
        }
    }
}

#[test]
fn sizes_in_names_are_sizes_of_machines() {
    for name in stepsim_spec::catalog::names(stepsim_spec::Kind::Topology) {
        let Some((_, size)) = name.rsplit_once('-') else { continue };
        if let Ok(size) = size.parse::<u32>() {
            assert_eq!(machine(name, &[]).devices(), size, "{name}");
        }
    }
}

#[test]
fn a_superpod_s_links_have_the_published_rates() {
    let m = machine("h100-superpod-1024", &[]);
    let one = DeviceId::default();
    assert_eq!(m.capacity(m.memory_resource(one).unwrap()).gbps(), 3350.0);
    let mut links = Vec::new();
    m.route(one, DeviceId(8 * 40), &mut links).unwrap();
    let rates: Vec<f64> = links.iter().map(|l| m.capacity(*l).gbps()).collect();
    // Device 0 of node 0 to device 0 of node 40 in the next unit: NIC, leaf to spine and back, NIC. A leaf has 32 of
    // its 64 ports of 400 Gb/s upward.
    assert_eq!(rates, [50.0, 1600.0, 1600.0, 50.0]);
    let bisection =
        total(&machine("h100-superpod-8", &["node.scale_up.switch.link.efficiency=1"]), |a, b| {
            number(a, "dev").is_some() && b == "nvswitch0"
        });
    assert_eq!(bisection, 3600.0); // 3.6 TB/s, all devices one way
}

#[test]
fn another_rail_is_reached_through_the_peer_in_the_own_node() {
    let names = |m: &Machine| route(m, 1, 10).0;
    let with = names(&machine("h100-superpod-64", &[]));
    assert_eq!(
        with,
        ["node0.dev1 -> nvswitch0", "nvswitch0 -> node0.dev2", "node0.dev2 -> leaf2", "leaf2 -> node1.dev2"]
    );
    let without = names(&machine("h100-superpod-64", &["fabric.clos.pxn=false"]));
    assert_eq!(without, ["node0.dev1 -> leaf1", "leaf1 -> spine0", "spine0 -> leaf2", "leaf2 -> node1.dev2"]);
}

#[test]
fn oversubscription_divides_what_leaves_a_switch() {
    let m = machine("meta-roce-24k", &[]);
    // 16 NICs of 50 GB/s below a rack switch, twice as much above it; 192 racks below a pod, a seventh above it.
    let rack = total(&m, |a, b| a == "rack0" && b.starts_with("pod"));
    let pod = total(&m, |a, b| a == "pod0" && b.starts_with("aggregation"));
    assert!((rack - 1600.0).abs() < 1e-9, "{rack}");
    assert!((pod - 192.0 * 1600.0 / 7.0).abs() < 1e-6, "{pod}");
    assert_eq!(m.devices(), 24_576);
}

#[test]
fn a_torus_axis_wraps_by_its_rule() {
    let wrap =
        |topology: &str, dims: &str| match machine(topology, &[&format!("node.scale_up.torus.dims={dims}")])
            .fabric()
        {
            MachineShape { scale_up: ScaleUpShape::Torus { wrap, .. }, .. } => wrap.clone(),
            other => panic!("{other:?}"),
        };
    assert_eq!(wrap("tpu-v5p-64", "[4,8,16]"), [true; 3]);
    assert_eq!(wrap("tpu-v5p-64", "[2,2,4]"), [false; 3], "smaller than a cube");
    assert_eq!(wrap("tpu-v6e-256", "[8,16]"), [false, true]);
    assert_eq!(wrap("torus:4x4,1,1", "[2,3]"), [false, true], "two neighbours have one link");
}

#[test]
fn a_tpu_pod_has_the_published_bisection() {
    for (name, published) in [("tpu-v5e-256", 1600.0), ("tpu-v6e-256", 3200.0)] {
        let m = machine(name, &["node.scale_up.torus.link.efficiency=1"]);
        let upper = |name: &str| number(name, "dev").map(|d| d % 16 >= 8);
        // 16 rows, cut in the middle and at the wrap.
        assert_eq!(total(&m, |a, b| upper(a) == Some(false) && upper(b) == Some(true)), published);
    }
}

#[test]
fn torus_routes_are_shortest() {
    let m = machine("torus:8x5,1,1", &[]);
    let around = |a: u32, b: u32, n: u32| (a.abs_diff(b)).min(n - a.abs_diff(b));
    for from in 0..40 {
        for to in 0..40 {
            let hops = around(from % 8, to % 8, 8) + around(from / 8, to / 8, 5);
            assert_eq!(route(&m, from, to).0.len() as u32, hops);
        }
    }
}

#[test]
fn frontier_has_the_published_groups() {
    let m = machine("frontier", &[]);
    assert_eq!(m.devices(), 37_632);
    let group = |name: &str| number(name, "switch").map(|s| s / 32);
    let injection = total(&m, |a, b| a.starts_with("node") && group(b) == Some(0));
    let ejection = total(&m, |a, b| group(a) == Some(0) && group(b).is_some_and(|g| g > 0));
    assert_eq!(injection * 8.0 / 1e3, 102.4); // Tb/s
    assert_eq!(ejection * 8.0 / 1e3, 58.4);
    for to in (0..m.devices()).step_by(997) {
        assert!(route(&m, 5, to).0.len() <= 5, "NIC, local, global, local, NIC at most");
    }
    assert_eq!(m.parts(), 4);
}

#[test]
fn sites_are_light_apart() {
    let m = machine("wan-2-sites", &[]);
    assert_eq!(m.devices(), 1024);
    let (names, latency) = route(&m, 0, 512);
    assert_eq!(names[2..5], ["spine0 -> gateway0", "gateway0 -> gateway1", "gateway1 -> spine1"]);
    // 1,000 km × 4.9 µs; two adapters of 0.5 and four switches of 0.6 µs.
    assert_eq!(latency, Time::from_us(4900.0 + 1.0 + 2.4));
    let ring = machine("wan-23-sites", &[]);
    assert_routes_hold(&ring);
    let hop = route(&ring, 22, 0).1;
    assert!((hop.us() - 4800.0 / 23.0 * 4.9).abs() < 1e-5, "{hop}");
    assert_eq!(route(&ring, 3, 14).1, Time(hop.0 * 11));
}

fn copies_share(m: &Machine, a: u32, b: u32, tier: &str) -> Vec<String> {
    let path = |device: u32| {
        let mut links = Vec::new();
        let number = m.tier_named(DeviceId(device), tier).unwrap();
        m.copy_route(DeviceId(device), number, CopyDirection::In, &mut links).unwrap();
        links
    };
    let other = path(b);
    path(a).into_iter().filter(|l| other.contains(l)).map(|l| m.resource_name(l)).collect()
}

#[test]
fn copies_share_what_their_tiers_share() {
    let m = machine("gb200-nvl72", &[]);
    assert_eq!(copies_share(&m, 0, 1, "host"), ["host0 <-> host0", "host0 -> pcie0", "pcie0 <-> host0"]);
    assert!(copies_share(&m, 1, 2, "host").is_empty());
    let m = machine("cxl-pool", &[]);
    let shared = copies_share(&m, 0, 7, "cxl");
    assert_eq!(shared, ["cxl0 -> cxl-port0", "cxl-port0 -> host0"]);
    let m = machine("cxl-pool", &["nodes=2", "node.memory[1].shared_by=16"]);
    assert_eq!(copies_share(&m, 0, 8, "cxl"), ["cxl0 -> cxl-port0"], "two hosts, each with its port");
    assert_eq!(m.tiers_of(DeviceId(0)).last(), m.tiers_of(DeviceId(8)).last());
    let m = machine("h100-offload", &[]);
    assert!(copies_share(&m, 0, 1, "host").is_empty());
    let m = machine("h100-offload", &["node.memory[0].shared_by=2"]);
    assert_eq!(copies_share(&m, 0, 1, "host"), ["host0 -> host-port0"]);
    assert!(copies_share(&m, 1, 2, "host").is_empty());
}

#[test]
fn writes_have_their_own_rate_where_the_file_says_so() {
    let m = machine("h100-superpod-8", &[]);
    let nvme = m.tier_named(DeviceId(0), "nvme").unwrap();
    let rate = |direction| {
        let mut links = Vec::new();
        m.copy_route(DeviceId(0), nvme, direction, &mut links).unwrap();
        links.iter().map(|l| m.capacity(*l).gbps()).fold(f64::INFINITY, f64::min)
    };
    assert_eq!((rate(CopyDirection::In), rate(CopyDirection::Out)), (50.0, 40.0));
    assert!(m.copy_route(DeviceId(0), 3, CopyDirection::In, &mut Vec::new()).is_err());
}

#[test]
fn a_memory_server_shares_the_nic_with_collectives() {
    let tier = r#"node.memory=[{"name":"remote","capacity_GiB":1e4,"via":"nic","shared_by":16,
        "link":{"bandwidth_GBps_per_direction":200}}]"#;
    let m = machine("h100-superpod-64", &[tier, "node.nics.shared_by=2"]);
    assert_routes_hold(&m);
    assert_eq!(copies_share(&m, 0, 1, "remote").len(), 2, "server and port");
    assert_eq!(copies_share(&m, 0, 15, "remote").len(), 1, "the server");
    assert_eq!(route(&m, 0, 8).0[0], "node0.dev0 -> nic0");
}

const DRAWN: &str = r#"graph={"vertices":[
    {"name":"a","kind":"device","tiers":["dram"]}, {"name":"b","kind":"device"}, {"name":"c","kind":"device"},
    {"name":"narrow","kind":"switch"}, {"name":"wide","kind":"switch","latency_us":2},
    {"name":"dram","kind":"memory","tier":"host","capacity_GiB":64}],
  "links":[
    {"from":"a","to":"narrow","link":{"bandwidth_GBps_per_direction":10}},
    {"from":"narrow","to":"b","link":{"bandwidth_GBps_per_direction":10}},
    {"from":"a","to":"wide","link":{"bandwidth_GBps_per_direction":40,"latency_us":1}},
    {"from":"wide","to":"b","link":{"bandwidth_GBps_per_direction":20,"latency_us":1}},
    {"from":"b","to":"c","link":{"bandwidth_GBps_per_direction":50,"duplex":"half"}},
    {"from":"wide","to":"dram","link":{"bandwidth_GBps_per_direction":30}}]}"#;

#[test]
fn a_drawn_machine_takes_the_shortest_then_the_widest_way() {
    let m = machine("switch:2,1,1", &[DRAWN, "node=null"]);
    assert_eq!(route(&m, 0, 1), (vec!["dev0 -> wide".into(), "wide -> dev1".into()], Time::from_us(4.0)));
    let (names, _) = route(&m, 2, 0);
    assert_eq!(names, ["dev1 <-> dev2", "dev1 -> wide", "wide -> dev0"], "through a device, half duplex");
    let mut links = Vec::new();
    m.copy_route(DeviceId(0), 1, CopyDirection::In, &mut links).unwrap();
    assert_eq!(
        links.iter().map(|l| m.resource_name(*l)).collect::<Vec<_>>(),
        ["host0 -> wide", "wide -> dev0"]
    );
    assert_eq!(m.tier(m.tiers_of(DeviceId(0)).nth(1).unwrap()), ("host", Bytes::from_gib(64.0)));
}

#[test]
fn a_graph_that_falls_apart_is_refused() {
    let drawn = DRAWN
        .replace(r#"{"from":"b","to":"c","link":{"bandwidth_GBps_per_direction":50,"duplex":"half"}},"#, "");
    let e = Machine::load("switch:2,1,1", &[drawn, "node=null".into()]).unwrap_err();
    assert_eq!(
        e.to_string(),
        "switch:2,1,1: at `graph.links`: the graph falls apart: 1 of 6 vertices cannot be reached from `a`\n  \
         hint: link these to the rest, or remove them: c"
    );
}

#[test]
fn a_hundred_thousand_devices_are_built() {
    let clos = machine("h100-superpod", &["nodes=16384"]);
    assert_eq!(clos.devices(), 131_072);
    assert_eq!(route(&clos, 3, 131_067).0.len(), 4);
    let torus = machine("torus:64x64x32,90,1", &[]);
    assert_eq!((torus.devices(), torus.resources()), (131_072, 6 * 131_072));
    assert_eq!(route(&torus, 0, 131_071).0.len(), 3);
}
