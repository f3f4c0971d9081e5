//! Parts of machines, and machines of several classes of devices.

use stepsim::core::ids::DeviceId;
use stepsim::fabric::topology::Machine;
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::spec::{Kind, SpecError, Topology, catalog};

const MIXED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/mixed.json");

fn load(topology: &str, sets: &[&str]) -> Inputs {
    let sets: Vec<String> = sets.iter().map(|s| (*s).to_string()).collect();
    Inputs::load("llama3-70b", Some(topology), &sets).unwrap_or_else(|e| panic!("{topology}: {e}"))
}
fn seconds(inputs: &Inputs, fold: bool) -> f64 {
    let options = Options { fold, ..Options::default() };
    Simulation::run(inputs, &options).unwrap_or_else(|e| panic!("{e}")).record.step_end.s()
}

#[test]
fn a_part_is_the_first_nodes_of_a_machine() {
    let sets = ["batch.global=16", "parallelism.data=1"];
    let part = load("32 of h100-superpod", &sets);
    assert_eq!(part.machine.devices(), 32);
    assert_eq!(part.topology.name, "32 of h100-superpod");
    let nodes = [&sets[..], &["topology.nodes=4"]].concat();
    assert_eq!(seconds(&part, true), seconds(&load("h100-superpod", &nodes), true));
    // Uplinks are those of the whole: what crosses racks is as fast as it is there.
    for (part, nodes) in [("256 of meta-roce-24k", 32), ("3080 of meta-roce-24k", 385)] {
        let machine = Machine::load(part, &[]).unwrap().1;
        assert_eq!(machine.devices(), 8 * nodes);
        let whole = Machine::load("meta-roce-24k", &[]).unwrap().1;
        let last = DeviceId(8 * nodes - 1);
        let narrowest = |machine: &Machine| {
            let mut links = Vec::new();
            machine.route(DeviceId(0), last, &mut links).expect("a way");
            links.iter().map(|link| machine.capacity(*link).0).fold(f64::INFINITY, f64::min)
        };
        assert_eq!(narrowest(&machine), narrowest(&whole), "{part}");
    }
    let few = Machine::load("4 of h100-superpod-64", &[]).unwrap().1;
    assert_eq!((few.devices(), few.node_of(DeviceId(3))), (4, 0));
    let sites = Machine::load("512 of h100-two-sites", &[]).unwrap();
    assert!(sites.0.value.sites.is_none() && sites.1.devices() == 512);
}

#[test]
fn a_file_may_stand_on_a_part_and_a_workload_may_name_one() {
    let machine = r#"{"base": "16 of h100-superpod", "device": "a100-sxm-80"}"#;
    let machine = Machine::load(machine, &[]).unwrap().1;
    assert_eq!((machine.devices(), machine.device(DeviceId(0)).name.as_str()), (16, "NVIDIA A100 SXM4 80GB"));
    let workload = r#"{"base": "gpt2-8", "topology": "8 of meta-roce-24k"}"#;
    assert_eq!(Inputs::load(workload, None, &[]).unwrap().machine.devices(), 8);
    let model = r#"{"base": "gpt2-8", "model": {"base": "gpt2-1.5b", "layers": 12}}"#;
    assert_eq!(Inputs::load(model, None, &[]).unwrap().model.layers, 12);
}

/// By count and name, up and down from what is shipped: as many devices of that kind, in nodes of that many.
#[test]
fn machines_are_named_by_count_and_device() {
    let rows: Vec<(String, String, u32, usize)> =
        serde_json::from_str(include_str!("data/machine-names.json")).expect("rows");
    for (asked, device, devices, node) in rows {
        let machine = Machine::load(&asked, &[]).unwrap_or_else(|e| panic!("{asked}: {e}")).1;
        assert_eq!(
            (machine.devices(), machine.device(DeviceId(0)).name.as_str()),
            (devices, device.as_str()),
            "{asked}"
        );
        let of_first = (0..devices).filter(|d| machine.node_of(DeviceId(*d)) == 0).count();
        assert_eq!(of_first, node, "{asked}");
    }
}

/// Four nodes of H100 under the first stages, four of A100 under the last: each is priced as itself.
#[test]
fn stages_on_other_devices_are_priced_as_those() {
    let sets = ["parallelism.pipeline.schedule=1f1b", "parallelism.pipeline.chunks=1", "batch.global=32"];
    let mixed = load(MIXED, &sets);
    assert_eq!(mixed.machine.device_class(DeviceId(31)), 0);
    assert_eq!(mixed.machine.device_class(DeviceId(32)), 1);
    let h100 = seconds(&load("h100-superpod-64", &sets), true);
    let all_a100 = [&sets[..], &["topology.device=a100-sxm-80"]].concat();
    let a100 = seconds(&load("h100-superpod-64", &all_a100), true);
    let both = seconds(&mixed, true);
    assert!(h100 < both && both < a100, "{h100} {both} {a100}");
    assert_eq!(both, seconds(&mixed, false));
    // More layers on the faster devices.
    let split = [&sets[..], &["parallelism.pipeline.layer_split=[28,28,12,12]"]].concat();
    let balanced = seconds(&load(MIXED, &split), true);
    assert!(balanced < 0.75 * both, "{balanced} {both}");
    let peak = mixed.peak().0 / 1e12;
    assert!((peak - (989.4 + 312.0) / 2.0).abs() < 1.0, "{peak}");
}

/// Every machine runs with some devices of one node, whatever these share; a number that it cannot have is refused as
/// a number.
#[test]
fn a_node_may_be_used_in_part() {
    for name in catalog::names(Kind::Topology) {
        let whole = load_spec(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        let Some(node) = &whole.node else { continue };
        for count in (1..=node.size().min(9)).chain([node.size()]) {
            check_part(&format!("{count} of {name}"), count);
        }
    }
    for device in catalog::names(Kind::Device) {
        (1..=9).for_each(|count| check_part(&format!("{count}x{device}"), count));
    }
}

fn load_spec(name: &str) -> Result<Topology, SpecError> {
    stepsim::spec::load::<Topology>(name, &[]).map(|loaded| loaded.value)
}

fn check_part(name: &str, count: u32) {
    match Machine::load(name, &[]) {
        Ok((_, machine)) => {
            assert_eq!(machine.devices(), count, "{name}");
            for device in 0..count {
                let copies = machine.tiers_of(DeviceId(device)).count();
                assert_eq!(copies, machine.tiers_of(DeviceId(0)).count(), "{name}");
            }
            let mut links = Vec::new();
            for to in 1..count {
                machine.route(DeviceId(0), DeviceId(to), &mut links).expect("a way");
            }
        }
        Err(e) => {
            assert!(e.path.is_empty() && e.problem.contains(&format!("{count} devices")), "{name}: {e}")
        }
    }
}

/// Three of eight devices, two of which share an interface, a host link and a pool: they run, and offload.
#[test]
fn three_of_eight_run() {
    for name in ["3xrtx-3090", "1xrtx-4090", "1xrtx-a6000", "3xl4"] {
        let sets = ["batch.global=3", "batch.micro_batch=1", "parallelism.data=null"].map(String::from);
        let inputs = Inputs::load("gpt2-8", Some(name), &sets).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(inputs.plan().is_ok(), "{name}");
    }
    assert_eq!(Machine::load("1 of v100", &[]).unwrap().1.devices(), 1);
}
