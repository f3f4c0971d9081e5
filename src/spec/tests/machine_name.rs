use stepsim_spec::{Device, Kind, Topology, catalog, load};

/// Every shipped device can be asked for by its file's name.
#[test]
fn every_device_stands_in_a_machine() {
    for file in catalog::names(Kind::Device) {
        let device = load::<Device>(file, &[]).unwrap().value;
        let of = |count: u32| load::<Topology>(&format!("{count}x{file}"), &[]);
        let machine = of(8).or_else(|_| of(4)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(machine.value.device.name, device.name, "{file}");
    }
}
