//! Settings and bases of files, and the files that are shipped.

use stepsim_spec::*;

#[test]
fn settings_reach_into_the_device_and_the_base() {
    let sets = ["device.hbm.GBps=4000".to_string(), "node.memory[0].capacity_GiB=64".to_string()];
    let loaded: LoadedSpec<Topology> = load("h100-superpod-8", &sets).unwrap();
    let topology = &loaded.value;
    assert_eq!(topology.device.hbm.as_ref().map(|hbm| hbm.gbps), Some(4000.0));
    assert_eq!(topology.node.as_ref().map(|node| node.memory[0].capacity_gib), Some(64.0));
    assert_eq!((topology.nodes, loaded.name.as_str()), (1, "h100-superpod-8"));
    let plain: LoadedSpec<Topology> = load("h100-superpod-8", &[]).unwrap();
    assert_ne!(plain.hash, loaded.hash);
    assert_eq!(plain.hash, load::<Topology>("h100-superpod-8", &["nodes=1".into()]).unwrap().hash);
}

#[test]
fn another_device_replaces_the_base_s() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("parts")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("parts/mine.json", r#"{"name": "mine", "peak_dense_TFLOPs": {"bf16": 1}}"#);
    write("x.json", r#"{"base": "h100-superpod-8", "device": "parts/mine.json"}"#);
    let loaded: LoadedSpec<Topology> = load(folder.path().join("x.json").to_str().unwrap(), &[]).unwrap();
    assert_eq!((loaded.value.device.name.as_str(), loaded.value.device.hbm), ("mine", None));
}

#[test]
fn every_shipped_file_loads_and_cites_its_sources() {
    for name in catalog::names(Kind::Device) {
        let device: Device = load(name, &[]).unwrap_or_else(|e| panic!("{e}")).value;
        assert!(device.hbm.is_some(), "{name}");
        let given = serde_json::to_value(&device).unwrap();
        for field in ["peak_dense_TFLOPs", "hbm", "compute_units", "power_W", "peer_links"] {
            assert_eq!(given.get(field).is_some(), device.sources.contains_key(field), "{name}: {field}");
        }
    }
    for name in catalog::names(Kind::Topology) {
        let topology: Topology = load(name, &[]).unwrap_or_else(|e| panic!("{e}")).value;
        assert!(!topology.description.is_empty() && !topology.sources.is_empty(), "{name}");
    }
    for name in catalog::names(Kind::Model) {
        load::<ModelSpec>(name, &[]).unwrap_or_else(|e| panic!("{e}"));
    }
    for name in catalog::names(Kind::Workload) {
        let workload: WorkloadSpec = load(name, &[]).unwrap_or_else(|e| panic!("{e}")).value;
        let topology = workload.topology.unwrap_or_else(|| panic!("{name} names a topology"));
        let known = catalog::text(Kind::Topology, &topology).is_some() || simple::looks_simple(&topology);
        assert!(known, "{name}: {topology}");
    }
}

#[test]
fn an_entry_of_a_list_is_set_by_number_or_name() {
    let capacity = |path: &str| {
        let set = format!("node.memory{path}.capacity_GiB=64");
        let topology: Topology = load("cxl-pool", &[set]).unwrap_or_else(|e| panic!("{e}")).value;
        topology.node.expect("a node").memory.iter().map(|tier| tier.capacity_gib).collect::<Vec<_>>()
    };
    assert_eq!(capacity("[1]")[1], 64.0);
    assert_eq!(capacity(".1"), capacity("[1]"));
    assert_eq!(capacity(".cxl"), capacity("[1]"));
    let set = ["node.memory.nvme.capacity_GiB=64".to_string()];
    let error = load::<Topology>("cxl-pool", &set).expect_err("no such tier").to_string();
    assert!(error.contains("`nvme` is looked up in a list"), "{error}");
}
