//! Machines: routes, capacities, wrap rules, bisections, tiers.

use super::*;

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
    let of = |v: &NodeIndex<u32>| machine.graph()[*v] == Vertex::Device(DeviceId(device));
    machine.graph().node_indices().find(of).unwrap()
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
