//! Messages for wrong input, whole; and that no input makes the loader panic.

use stepsim_spec::*;

fn refused<T: Spec + std::fmt::Debug>(name: &str, sets: &[&str]) -> String {
    let sets: Vec<String> = sets.iter().map(|s| s.to_string()).collect();
    load::<T>(name, &sets).expect_err("refused").to_string()
}

/// Loads a file of this content and gives the message with the folder cut off.
fn refused_file(content: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    std::fs::write(&path, content).unwrap();
    let message = load::<Topology>(path.to_str().unwrap(), &[]).expect_err("refused").to_string();
    message.replace(&format!("{}/", folder.path().display()), "")
}

/// Messages as a person reads them, whole but for the names of shipped files and the ends of long lines.
#[test]
fn messages_say_where_what_and_what_to_do() {
    let kinds = [Kind::Device, Kind::Topology]
        .map(|kind| (kind, catalog::names(kind).collect::<Vec<_>>().join(", ")));
    let named = |message: &String| {
        kinds
            .iter()
            .fold(message.clone(), |m, (kind, names)| m.replace(names, &format!("({} names)", kind.name())))
    };
    let short = |line: &str| match line.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_string(),
    };
    let messages: Vec<String> = messages().iter().map(named).collect();
    let text: Vec<String> =
        messages.iter().flat_map(|m| m.lines().map(short).chain([String::new()])).collect();
    assert_eq!(text.join("\n").trim_end(), include_str!("messages.txt").trim_end());
}

fn messages() -> Vec<String> {
    let t = |sets: &[&str]| refused::<Topology>("h100-superpod", sets);
    vec![
        t(&["node.devices=-3"]),
        t(&["node.devices=0"]),
        t(&["node.devices=\"eight\""]),
        t(&["node.devicess=3"]),
        t(&["node.scale_up={}"]),
        t(&["node.nics={}"]),
        t(&["node.memory[3].capacity_GiB=5"]),
        t(&["node.memory[1].capacity_GiB=1e300"]),
        t(&["node.memory[1].capacity_GiB=NaN"]),
        t(&["node.memory[1].capacity_GiB=1e999"]),
        t(&["node.host.link.efficiency=1.5"]),
        t(&["node.host.link.latency_us=-1"]),
        t(&["nodes=1000000"]),
        t(&["device=h100-smx"]),
        t(&["device.hbm.GBs=4000"]),
        t(&["node=3"]),
        t(&["nodes"]),
        t(&["fabric=null"]),
        t(&["node.host.link_shared_by=3"]),
        t(&["fabric.torus={}"]),
        refused::<Topology>("h100-superpd", &[]),
        refused::<Topology>("no/such.json", &[]),
        refused::<Topology>("switch:8,100", &[]),
        refused::<Topology>("torus:4x0,100,1", &[]),
        refused::<Topology>("ring:8,NaN,1", &[]),
        refused_file("{"),
        refused_file("[]"),
        refused_file(r#"{"device":"h100-sxm","node":{"devices":8,"devices":9}}"#),
        refused_file(r#"{"device":"h100-sxm","node":{"devices":NaN}}"#),
        refused_file(r#"{"device":"h100-sxm","node":{"devices":1e999}}"#),
        refused_file(r#"{"node":{"devices":8}}"#),
        refused_file(r#"{"device":"h100-sxm","node":{"devices":8}}"#),
        refused_file(r#"{"base":"x.json"}"#),
        refused_file(r#"{"device":{"name":"x","peak_dense_TFLOPs":{}},"nodes":1}"#),
        refused_file(
            r#"{"device":"h100-sxm","graph":{"vertices":[
                {"name":"a","kind":"device"},{"name":"a","kind":"switch"}],"links":[]}}"#,
        ),
        refused_file(
            r#"{"device":"h100-sxm","graph":{"vertices":[{"name":"a","kind":"device"}],
                "links":[{"from":"a","to":"B","link":{"bandwidth_GBps_per_direction":1}}]}}"#,
        ),
    ]
}

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
        for field in ["peak_dense_TFLOPs", "hbm", "compute_units", "power_W"] {
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
