//! What a network gives a group: uplinks thinner than what hangs below them, and messages that cross nodes alone.

use std::path::Path;

use serde_json::{Value, json};
use stepsim_fabric::collective::{Fidelity, Op};
use stepsim_fabric::topology::Machine;
use stepsim_spec::{Topology, from_value};

use crate::fabrics::time;
use crate::messages::check_messages;

const ALL: [Fidelity; 3] = [Fidelity::Formula, Fidelity::Fluid, Fidelity::Steps];

fn machine(topology: &Value) -> Machine {
    let topology = from_value::<Topology>(topology.clone(), "machine".into(), "machine".into(), &[])
        .unwrap_or_else(|e| panic!("{e}"));
    Machine::build(&topology.value).unwrap_or_else(|e| panic!("{e}"))
}

/// Nodes of devices that share an interface, `serves` nodes below each leaf with so many times as much below it as
/// above.
fn leaves(nodes: u32, devices: u32, serves: u32, oversubscription: f64) -> Machine {
    let link = |gbps: f64, us: f64| json!({"bandwidth_GBps_per_direction": gbps, "latency_us": us});
    machine(&json!({
        "device": {"name": "own", "peak_dense_TFLOPs": {"bf16": 100.0}},
        "nodes": nodes,
        "node": {
            "devices": devices,
            "nics": {"link": link(50.0, 2.0)},
            "scale_up": {"switch": {"link": link(400.0, 1.0), "latency_us": 0.0}},
        },
        "fabric": {"clos": {"tiers": [
            {"name": "leaf", "latency_us": 0.5, "serves": serves, "oversubscription": oversubscription},
            {"name": "spine", "latency_us": 0.5},
        ]}},
    }))
}

/// Rings over tiers and shifts against golden times, where they lie beside the project.
#[test]
fn golden_rings_over_tiers() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("../shared/reference/rings-tiers-golden.json");
    let Ok(text) = std::fs::read_to_string(path) else { return };
    let cases: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    let mut worst = [0.0f64; 3];
    for case in &cases {
        let machine = machine(&case["topology"]);
        let op = Op::from_name(case["op"].as_str().unwrap()).unwrap();
        let (bytes, name) =
            (case["bytes"].as_u64().unwrap(), case["algorithm"].as_str().unwrap_or("ring-shift"));
        let chunks = case["chunks"].as_u64().map(|chunks| chunks as u32);
        let off = ALL.map(|fidelity| {
            let played = time(&machine, machine.devices(), op, bytes, name, chunks, fidelity);
            (played / case["seconds"].as_f64().unwrap() - 1.0).abs()
        });
        let limits = if op == Op::RingShift { [1e-6, 0.05, 1e-6] } else { [0.12, 0.05, 1e-6] };
        assert!(off.iter().zip(limits).all(|(off, limit)| *off < limit), "{off:?} off: {case}");
        off.iter().zip(&mut worst).for_each(|(off, worst)| *worst = worst.max(*off));
    }
    println!("{} cases: formula, fluid and steps at most {worst:?} off", cases.len());
}

/// Rings and exchanges behind oversubscribed leaves: the closed form and one flow a phase take what every transfer by
/// itself does.
#[test]
fn thin_uplinks_count_at_every_fidelity() {
    for (serves, oversubscription) in [(1, 4.0), (2, 1.0), (2, 4.0), (4, 8.0)] {
        let machine = leaves(8, 4, serves, oversubscription);
        for (name, op, limit) in [
            ("ring", Op::AllReduce, 0.15),
            ("ring", Op::AllGather, 0.15),
            ("hierarchical", Op::AllReduce, 0.25),
            ("direct", Op::AllToAll, 0.15),
        ] {
            for bytes in [1 << 20, 1 << 24, 1 << 28] {
                let played = |fidelity| time(&machine, 32, op, bytes, name, None, fidelity);
                let [formula, fluid, steps] = ALL.map(played);
                let off = |s: f64| (s / steps - 1.0).abs();
                assert!(
                    off(formula) < limit && off(fluid) < limit,
                    "{name} {} {bytes} B, {oversubscription}:1 over {serves}: {formula} {fluid} {steps}",
                    op.name()
                );
            }
        }
    }
}

/// No collective is faster than the longest of its messages with the network to itself, and its formula is its play.
#[test]
fn no_collective_is_faster_than_its_longest_message() {
    let machines = [
        ("h100-superpod", "nodes=2"),
        ("dgx-a100", "nodes=4"),
        ("h100-two-sites", "nodes=2"),
        ("meta-roce-24k", "nodes=8"),
        ("gb200-nvl72", "nodes=2"),
        ("mi300x-8", "nodes=2"),
        ("rtx-4090-8", "nodes=1"),
        // Links that both directions share, in every kind of network, and nodes slower inside than out.
        ("h100-superpod", "nodes=2 node.nics.link.duplex=half"),
        (
            "wan-2-sites",
            "nodes=2 node.scale_up.switch.link={\"bandwidth_GBps_per_direction\":2,\"duplex\":\"half\"}",
        ),
        ("wan-2-sites", "nodes=2 sites.link.duplex=half sites.link.bandwidth_GBps_per_direction=2"),
        ("mi300x-8", "nodes=2 node.scale_up.full_mesh.link.duplex=half"),
        ("mi300x-8", "nodes=2 node.scale_up.full_mesh.link.bandwidth_GBps_per_direction=2"),
        ("tpu-v5p-64", "node.scale_up.torus.link.duplex=half"),
        ("dgx-a100", "nodes=2 node.scale_up.switch.link.bandwidth_GBps_per_direction=2"),
        // Interfaces that two devices share: with PXN, messages for other interfaces alone hop inside the node.
        (
            "h100-superpod",
            "nodes=2 node.nics.shared_by=2 node.scale_up.switch.link.bandwidth_GBps_per_direction=0.5",
        ),
        // One leaf is not full.
        (
            "h100-superpod",
            "nodes=4 fabric.clos.tiers=[{\"name\":\"leaf\",\"latency_us\":0.5,\"serves\":3,\"oversubscription\":8},\
             {\"name\":\"spine\",\"latency_us\":0.5}]",
        ),
        // Links within a node that are slower than those between nodes, with less latency.
        ("mi300x-8", "nodes=4 node.nics.bundle=4 fabric.clos.rails=false"),
        // Messages meet on the links between switches, one for each two.
        ("frontier", "nodes=4 node.devices=2 fabric.dragonfly.nics_per_switch=2"),
        ("frontier", "nodes=4 fabric.dragonfly.nics_per_switch=3"),
        ("frontier", "nodes=6 fabric.dragonfly.nics_per_switch=3"),
        ("frontier", "nodes=6 fabric.dragonfly.nics_per_switch=2 fabric.dragonfly.switches_per_group=4"),
        // Without PXN other rails of the node beside are reached over the spine, too.
        (
            "h100-superpod",
            "nodes=4 node.nics.shared_by=2 fabric.clos.pxn=false fabric.clos.tiers=[{\"name\":\"leaf\",\
             \"latency_us\":0.5,\"serves\":4,\"oversubscription\":8},{\"name\":\"spine\",\"latency_us\":0.5}]",
        ),
        (
            "h100-superpod",
            "nodes=4 fabric.clos.pxn=false fabric.clos.tiers=[{\"name\":\"leaf\",\"latency_us\":0.5,\"serves\":2,\
             \"oversubscription\":8},{\"name\":\"spine\",\"latency_us\":0.5}]",
        ),
    ];
    for (name, sets) in machines {
        let all: Vec<String> = sets.split(' ').map(str::to_string).collect();
        let machine = Machine::load(name, &all).unwrap_or_else(|e| panic!("{name} {sets}: {e}")).1;
        check_messages(&format!("{name} {sets}"), &machine);
    }
    check_messages("leaves", &leaves(8, 4, 2, 4.0));
}

/// Ring attention over nodes: one message of each border crosses, on one adapter of eight.
#[test]
fn a_shift_over_nodes_takes_one_adapter() {
    let machine = Machine::load("h100-superpod", &["nodes=2".to_string()]).unwrap().1;
    let shift = |fidelity| time(&machine, 16, Op::RingShift, 33_500_000, "ring-shift", None, fidelity);
    let bytes_s = 33.5e6 / 50e9;
    for fidelity in ALL {
        assert!((bytes_s..1.1 * bytes_s).contains(&shift(fidelity)), "{fidelity:?}: {}", shift(fidelity));
    }
}
