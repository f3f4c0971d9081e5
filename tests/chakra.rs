//! Chakra execution traces: ASTRA-sim's cases, our own steps there and back, and files that are wrong.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prost::Message;
use serde_json::Value;
use stepsim::core::units::Time;
use stepsim::measure::profile::chakra::messages::{AnyValue, Attribute, GlobalMetadata, RawNode, node_type};
use stepsim::measure::profile::chakra::{AstraSystem, DeviceRates, network, nodes, programs};
use stepsim::measure::profile::programs::StepPrograms;
use stepsim::measure::replay::moved::MachineNetwork;
use stepsim::measure::replay::on_machine::OnMachine;

use crate::command::{Folder, json};

fn attribute(name: &str, value: AnyValue) -> Attribute {
    Attribute { name: name.into(), value: Some(value) }
}

fn node(id: u64, kind: i32, after: &[u64], attr: Vec<Attribute>) -> RawNode {
    let name = format!("n{id}");
    RawNode { id, name, kind, data_deps: after.to_vec(), attr, ..RawNode::default() }
}

/// Producers write numbers in any of protobuf's types.
fn all_reduce(id: u64, after: &[u64], bytes: u32) -> RawNode {
    let attr = vec![
        attribute("is_cpu_op", AnyValue::Bool(false)),
        attribute("comm_type", AnyValue::Int64(0)),
        attribute("comm_size", AnyValue::Uint32(bytes)),
    ];
    node(id, node_type::COLLECTIVE, after, attr)
}

fn kernel(id: u64, after: &[u64], micros: u64) -> RawNode {
    RawNode { duration_micros: micros, ..node(id, node_type::COMPUTE, after, Vec::new()) }
}

fn file(nodes: &[RawNode]) -> Vec<u8> {
    let mut bytes = Vec::new();
    GlobalMetadata { version: "0.0.4".into(), attr: Vec::new() }.encode_length_delimited(&mut bytes).unwrap();
    nodes.iter().for_each(|node| node.encode_length_delimited(&mut bytes).unwrap());
    bytes
}

fn step(traces: &[Vec<RawNode>], system: &AstraSystem) -> Result<StepPrograms, String> {
    let read = |(i, trace): (usize, &Vec<RawNode>)| {
        let name = format!("step.{i}.et");
        nodes(&file(trace), &name).map(|nodes| (name, nodes)).map_err(|e| e.to_string())
    };
    let traces = traces.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    programs(&traces, &BTreeMap::new(), DeviceRates::default(), system).map_err(|e| e.to_string())
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/chakra").join(name)
}

fn on(machine: &Value) -> MachineNetwork {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("machine.json");
    std::fs::write(&path, machine.to_string()).unwrap();
    MachineNetwork::load(path.to_str().unwrap()).unwrap()
}

#[test]
fn astra_sims_all_reduces_take_what_they_take_there() {
    let golden = json(data("golden.json"));
    for case in golden["cases"].as_array().unwrap() {
        let mut system = json(data("ring-4-pieces.json"));
        system["active-chunks-per-dimension"] = case["at_once"].clone();
        let system = AstraSystem::of(&system, "system.json").unwrap();
        let name = case["network"].as_str().unwrap();
        let machine = network(&std::fs::read_to_string(data(name)).unwrap(), name, &system).unwrap();
        let traces: Vec<Vec<RawNode>> = (0..8).map(|rank| vec![all_reduce(rank, &[], 1 << 20)]).collect();
        let played = OnMachine::play(&step(&traces, &system).unwrap(), &on(&machine)).unwrap();
        let us = played.record.step_end.s() * 1e6;
        let theirs = case["astra_sim_us"].as_f64().unwrap();
        // Ours lacks the reads and sums in local memory, some 20 ns in each round.
        assert!(us < theirs && us > 0.97 * theirs, "{name}: {us} of {theirs}");
    }
    // Four pieces in turn, 14 rounds each, of a link's latency, the endpoint's delay, and a 32nd of a MiB.
    let system = AstraSystem::of(&json(data("ring-4-pieces.json")), "system.json").unwrap();
    let machine =
        network(&std::fs::read_to_string(data("ring-8.yml")).unwrap(), "ring-8.yml", &system).unwrap();
    let traces: Vec<Vec<RawNode>> = (0..8).map(|rank| vec![all_reduce(rank, &[], 1 << 20)]).collect();
    let played = OnMachine::play(&step(&traces, &system).unwrap(), &on(&machine)).unwrap();
    let round = 0.51e-6 + f64::from(1 << 15) / (50.0 * f64::from(1 << 30));
    assert!((played.record.step_end.s() / (56.0 * round) - 1.0).abs() < 1e-6);
}

/// Kernels in turn on a device, collectives beside them, a message from one rank to the other.
#[test]
fn ranks_wait_for_each_other_and_share_links() {
    let to = |id, after: &[u64], kind, peer: &str, rank| {
        let attr = vec![
            attribute(peer, AnyValue::Int32(rank)),
            attribute("comm_tag", AnyValue::Int32(7)),
            attribute("comm_size", AnyValue::Int64(100_000)),
        ];
        node(id, kind, after, attr)
    };
    let first = vec![kernel(0, &[], 30), to(1, &[0], node_type::SEND, "comm_dst", 1), kernel(2, &[0], 3)];
    let second = vec![to(4, &[], node_type::RECEIVE, "comm_src", 0), kernel(9, &[4], 2)];
    let step = step(&[first, second], &AstraSystem::default()).unwrap();
    let network = MachineNetwork::load("switch:2,100,1").unwrap();
    let played = OnMachine::play(&step, &network).unwrap();
    // 30 us, then 1 us and 100 kB at 100 GB/s, then 2 us.
    assert_eq!(played.record.step_end, Time::from_ns(34_000));
    assert_eq!(played.untold, 0);
}

/// A kernel that nobody measured takes as long as its operations at their peak, or its bytes at theirs.
#[test]
fn kernels_without_a_time_are_bounded_by_what_they_do() {
    let rates = DeviceRates { flops: Some(2e12), bytes: Some(1e12) };
    for (operations, bytes, ns) in [(4_000_000_000, 1_000_000_000, 2_000_000), (4, 3_000_000, 3_000)] {
        let attr = vec![
            attribute("num_ops", AnyValue::Int64(operations)),
            attribute("tensor_size", AnyValue::Int64(bytes)),
        ];
        let trace = nodes(&file(&[node(1, node_type::COMPUTE, &[], attr)]), "step.0.et").unwrap();
        let traces = [("step.0.et".to_string(), trace)];
        let step = programs(&traces, &BTreeMap::new(), rates, &AstraSystem::default()).unwrap();
        assert_eq!(step.ranks[0].ops[0].ns, ns);
    }
}

/// Pieces of a collective that run beside each other have a stream and a group each.
#[test]
fn pieces_of_a_collective_take_turns_on_its_streams() {
    let system = serde_json::json!({"preferred-dataset-splits": 4, "active-chunks-per-dimension": 2});
    let system = AstraSystem::of(&system, "system.json").unwrap();
    let traces = vec![vec![all_reduce(1, &[], 4096)]; 2];
    let rank = step(&traces, &system).unwrap().ranks.remove(0);
    let pieces: Vec<(&str, &str, u64)> = rank
        .ops
        .iter()
        .filter_map(|op| {
            let piece = op.collective.as_ref()?;
            Some((rank.streams[op.stream as usize].as_str(), piece.group.as_str(), piece.bytes?))
        })
        .collect();
    let [first, second] = [("group of all", "", 1024), ("group of all, 2", "#2", 1024)];
    assert_eq!(pieces, [first, second, first, second]);
}

#[test]
fn what_cannot_be_waited_for_is_dropped_and_counted() {
    // 1 and 2 wait for each other, 3 for itself and for a node that is not there.
    let trace = vec![kernel(1, &[2], 1), kernel(2, &[1], 1), kernel(3, &[3, 99], 1)];
    let step = step(&[trace], &AstraSystem::default()).unwrap();
    assert_eq!(step.ranks[0].ops.len(), 3);
    let said = step.unknown.join("\n");
    assert!(
        said.contains("2 dependencies on no node") && said.contains("1 dependencies that close"),
        "{said}"
    );
}

fn refused(bytes: &[u8], parts: &[&str]) {
    let error = nodes(bytes, "step.0.et").unwrap_err().to_string();
    for part in parts.iter().chain(&["step.0.et"]) {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn files_that_are_wrong_are_refused_with_their_place() {
    let good = file(&[kernel(1, &[], 1), all_reduce(2, &[1], 64)]);
    refused(&[], &["is empty"]);
    refused(&good[..good.len() - 3], &["message 2 at byte", "cut off"]);
    refused(b"{\"traceEvents\": []}", &["message 0 at byte 0"]);
    refused(&file(&[]), &["holds no node"]);
    let mut long = file(&[]);
    long.extend([0xFF, 0xFF, 0xFF, 0xFF, 0x7F]);
    refused(&long, &["message 1 at byte", "the longest is"]);
    refused(&file(&[kernel(5, &[], 1), kernel(5, &[], 1)]), &["messages 1 and 2 are both node 5"]);
    for kind in [-1, 11, 77] {
        refused(&file(&[node(1, kind, &[], Vec::new())]), &[&format!("type {kind}")]);
    }

    let error = |trace: Vec<RawNode>| step(&[trace], &AstraSystem::default()).unwrap_err();
    let strange = |name: &str, value: AnyValue| {
        let mut node = all_reduce(2, &[], 64);
        node.attr.retain(|a| a.name != name);
        node.attr.push(attribute(name, value));
        error(vec![node])
    };
    assert!(strange("comm_type", AnyValue::Int64(3)).contains("node 2 (n2)"));
    assert!(strange("comm_type", AnyValue::Int64(3)).contains("0 all-reduce"));
    assert!(strange("comm_size", AnyValue::Double(f64::NAN)).contains("comm_size"));
    assert!(strange("comm_size", AnyValue::Int64(-1)).contains("comm_size"));
    let send = vec![attribute("comm_dst", AnyValue::Int32(0)), attribute("comm_size", AnyValue::Int64(1))];
    assert!(error(vec![node(1, node_type::SEND, &[], send)]).contains("comm_dst"));
    let unmeasured = node(1, node_type::COMPUTE, &[], vec![attribute("num_ops", AnyValue::Int64(5))]);
    assert!(error(vec![unmeasured]).contains("--peak-tflops"));

    // Groups that the file of groups does not know, or that hold other ranks.
    let mut of_group = all_reduce(1, &[], 64);
    of_group.attr.push(attribute("pg_name", AnyValue::Text("7".into())));
    let trace = ("step.0.et".to_string(), nodes(&file(&[of_group]), "step.0.et").unwrap());
    let grouped = |groups: &[(&str, &[u64])]| {
        let groups = groups.iter().map(|(name, ranks)| (name.to_string(), ranks.to_vec())).collect();
        programs(std::slice::from_ref(&trace), &groups, DeviceRates::default(), &AstraSystem::default())
    };
    assert!(grouped(&[("7", &[0])]).is_ok());
    for (groups, part) in [
        (&[("5", &[0_u64][..]), ("6", &[0])][..], "is no group\n  allowed: 5, 6\n"),
        (&[("7", &[1])], "is without rank 0"),
        (&[("7", &[0, 1])], "has rank 1, and there are traces of 1"),
    ] {
        let error = grouped(groups).unwrap_err().to_string();
        assert!(
            error.contains(part) && error.contains("node 1 (n1)") && error.contains("--groups"),
            "{error}"
        );
    }

    // Ranks of a group that do not do the same.
    let uneven = [vec![all_reduce(1, &[], 64)], vec![all_reduce(1, &[], 65)]];
    let network = MachineNetwork::load("switch:2,100,1").unwrap();
    let error =
        OnMachine::play(&step(&uneven, &AstraSystem::default()).unwrap(), &network).unwrap_err().to_string();
    assert!(error.contains("all-reduce of 64 bytes") && error.contains("rank 1"), "{error}");
    let alone = [vec![all_reduce(1, &[], 64)], vec![kernel(1, &[], 1)]];
    let error =
        OnMachine::play(&step(&alone, &AstraSystem::default()).unwrap(), &network).unwrap_err().to_string();
    assert!(error.contains("rank 1 queues nothing"), "{error}");
    let four = vec![vec![all_reduce(1, &[], 64)]; 4];
    let error =
        OnMachine::play(&step(&four, &AstraSystem::default()).unwrap(), &network).unwrap_err().to_string();
    assert!(error.contains("has 2 devices"), "{error}");
}

#[test]
fn networks_and_systems_that_are_wrong_are_refused() {
    let refused = |text: &str, part: &str| {
        let error = network(text, "net.yml", &AstraSystem::default()).unwrap_err().to_string();
        assert!(error.contains("net.yml") && error.contains(part), "{part}: {error}");
    };
    refused("topology: [ Ring", "is not YAML");
    refused("npus_count: [ 8 ]", "`topology` is no list");
    refused("{topology: [Ring], npus_count: [8, 2], bandwidth: [5], latency: [5]}", "has 2 entries");
    refused("{topology: [Ring], npus_count: [0], bandwidth: [5], latency: [5]}", "no number from 1");
    refused("{topology: [Mesh], npus_count: [8], bandwidth: [5], latency: [5]}", "not known");
    refused(
        "{topology: [Switch, Ring], npus_count: [8, 2], bandwidth: [5, 1], latency: [5, 1]}",
        "Ring outside of a Switch",
    );
    for (key, value) in [
        ("preferred-dataset-splits", "0"),
        ("endpoint-delay", "-1"),
        ("all-reduce-implementation", "[\"magic\"]"),
    ] {
        let system = serde_json::from_str(&format!("{{\"{key}\": {value}}}")).unwrap();
        let error = AstraSystem::of(&system, "sys.json").unwrap_err().to_string();
        assert!(error.contains("sys.json") && error.contains(key), "{error}");
    }
}

/// Whatever bytes there are: programs or a message.
#[test]
fn mangled_traces_never_panic() {
    let good = file(&[kernel(1, &[], 1), all_reduce(2, &[1], 64), kernel(3, &[2, 1], 4)]);
    let mut state = 1u64;
    let mut read = 0;
    for _ in 0..2000 {
        let mut bytes = good.clone();
        for _ in 0..2 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 33) as usize % bytes.len();
            bytes[at] = (state >> 17) as u8;
        }
        let Ok(nodes) = nodes(&bytes, "step.0.et") else { continue };
        let made = programs(
            &[("step.0.et".into(), nodes)],
            &BTreeMap::new(),
            DeviceRates::default(),
            &AstraSystem::default(),
        );
        read += u32::from(made.is_ok());
    }
    assert!(read > 50, "{read}");
}

/// Readers of whole microseconds find the nearest to what is written in nanoseconds.
fn micros_are_rounded_nanoseconds(mut rest: &[u8]) {
    GlobalMetadata::decode_length_delimited(&mut rest).unwrap();
    while !rest.is_empty() {
        let node = RawNode::decode_length_delimited(&mut rest).unwrap();
        let ns = node.attr.iter().find(|a| a.name == "duration_ns").and_then(|a| a.value.clone());
        let Some(AnyValue::Uint64(ns)) = ns else { panic!("{node:?}") };
        assert_eq!(node.duration_micros, (ns as f64 / 1e3).round() as u64, "{node:?}");
    }
}

/// A step of ours, written as traces, read and played on its machine, takes what it took: kernels as they ran, and all
/// communication anew.
#[test]
fn our_steps_there_and_back() {
    for (settings, machine) in [
        ("tiny-4 --set=parallelism.tensor=2 --set=parallelism.pipeline.size=2 --set=batch.global=4", None),
        (
            "gpt2-8 --set=parallelism.pipeline.size=2 --set=parallelism.context.size=2 \
             --set=parallelism.data=2",
            None,
        ),
        (
            "llama3-8b-fsdp --set=parallelism.data=16 --set=batch.global=16 -t h100-superpod-16",
            Some("h100-superpod-16"),
        ),
    ] {
        let folder = Folder::new();
        let export = "--trace-ranks all -q -o traces --format chakra --report a.json";
        folder.stepsim(&format!("run {settings} {export}")).ok();
        let names = std::fs::read_dir(folder.path("traces")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let traces = names.filter(|name| name.ends_with(".et")).map(|name| format!("traces/{name}"));
        let traces: Vec<String> = traces.collect();
        for trace in &traces {
            micros_are_rounded_nanoseconds(&std::fs::read(folder.path(trace)).unwrap());
        }
        let ranks = traces.join(" ");
        folder.stepsim(&format!("import chakra {ranks} --groups traces/groups.json --out step.json")).ok();
        let of = folder.json("a.json");
        let machine = machine.unwrap_or_else(|| of["topology"].as_str().unwrap());
        folder.stepsim(&format!("replay step.json --on {machine} --report b.json")).ok();
        let seconds = |value: &Value| value["step_time_s"].as_f64().unwrap();
        let (ran, again) = (seconds(&of), seconds(&folder.json("b.json")));
        assert!((again / ran - 1.0).abs() < 0.01, "{settings}: {ran} and {again}");
    }
}

#[test]
fn the_commands_say_what_is_missing() {
    let folder = Folder::new();
    let good = file(&[kernel(1, &[], 1)]);
    folder.write("cut.0.et", &good[..good.len() - 1]);
    let error = folder.stepsim("import chakra cut.0.et --out step.json").refused();
    assert!(error.contains("cut.0.et") && error.contains("cut off"), "{error}");
    assert!(!folder.path("step.json").exists());
    for name in ["both.0.et", "both.1.et"] {
        folder.write(name, file(&[all_reduce(1, &[], 64)]));
    }
    folder.stepsim("import chakra both.1.et both.0.et --out step.json").ok();
    let text = folder.stepsim("replay step.json").ok();
    assert!(text.contains("--on MACHINE") && !text.contains('%'), "{text}");
    folder.stepsim("run tiny-4 -o traces --format chakra --window-ms 0:1 -q").refused();
    assert!(!folder.path("traces").exists());
}
