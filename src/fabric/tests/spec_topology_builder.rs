use stepsim_fabric::topology::Machine;
use stepsim_spec::device::Device;
use stepsim_spec::topology::{Link, Topology};

/// A machine made part by part is the machine that the same words make from JSON.
#[test]
fn a_built_machine_is_the_machine_of_its_file() {
    let topology = Topology::of(Device::of("mine", 500.0, 96.0, 3000.0))
        .switch(8, Link::of(450.0, 0.5))
        .host(Link::of(64.0, 1.0))
        .memory("host", 2048.0, Link::of(200.0, 0.2))
        .nodes(4, Link::of(50.0, 2.0), 0.5);
    let json = serde_json::to_value(&topology).expect("JSON");
    assert_eq!(serde_json::from_value::<Topology>(json).expect("the same"), topology);
    let machine = Machine::build(&topology).expect("a machine");
    assert_eq!(machine.devices(), 32);
    let tier = machine.tier_named(stepsim_core::ids::DeviceId(9), "host");
    assert_eq!(tier, Some(1));
    let torus = Topology::of(Device::of("mine", 100.0, 16.0, 800.0)).torus(&[4, 4], Link::of(50.0, 1.0));
    assert_eq!(Machine::build(&torus).expect("a torus").devices(), 16);
}
