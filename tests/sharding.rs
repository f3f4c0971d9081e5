//! Kinds of sharding by hand: bytes by class of link, memory by class, on two nodes of four devices.

use serde_json::json;

use stepsim::core::ids::{RankId, ResourceId};
use stepsim::core::program::{MemoryClass, World};
use stepsim::form::compare::workload::closed_form;
use stepsim::price::model::ParameterCount;
use stepsim::read::analysis::links;
use stepsim::schedule::sharding::ShardingKind;
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::spec::Disk;

/// Devices of a node, nodes, and micro-batches of each device.
const NODE: f64 = 4.0;
const ALL: f64 = 8.0;
const MICRO_BATCHES: f64 = 2.0;

/// A small step on two nodes of four devices, where collectives are rings but for all-to-alls.
fn inputs(kind: &str, over: &[&str]) -> Inputs {
    let value = json!({
        "model": {
            "name": "small", "layers": 4, "hidden": 256, "heads": 4, "ffn": 1024, "vocabulary": 64, "sequence": 128,
        },
        "batch": { "global": 16 },
        "parallelism": { "data": 8, "sharding": { "kind": kind } },
        "optimizer": { "clip_gradients": false },
    });
    let rings =
        ["all-gather", "reduce-scatter", "all-reduce"].map(|op| json!({ "op": op, "algorithm": "ring" }));
    let mut sets = vec![format!("topology.collectives={}", json!({ "rules": rings }))];
    if ShardingKind::find(kind).is_some_and(|kind| kind.facts().cuts_weights()) {
        sets.push("parallelism.sharding.reshard_after_forward=true".into());
    }
    sets.extend(over.iter().map(ToString::to_string));
    Inputs::from_json(&value.to_string(), Some("nodes:2*4,100,1,10,1"), &sets, &Disk)
        .unwrap_or_else(|e| panic!("{e}"))
}

fn run(inputs: Inputs) -> Simulation {
    Simulation::run(&inputs, &Options::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// Bytes that leave devices on links of their node, and those that leave nodes.
fn sent(inputs: &Inputs) -> [f64; 2] {
    let world = inputs.plan().unwrap_or_else(|e| panic!("{e}")).world;
    let mut sent = [0.0; 2];
    for (resource, bytes) in links::bytes(&world).into_iter().enumerate() {
        let name = inputs.machine.resource_name(ResourceId(resource as u32));
        let (from, to) = name.split_once(" -> ").unwrap_or((&name, ""));
        if from.contains(".dev") {
            let near = to.starts_with("nvswitch");
            sent[usize::from(!near)] += bytes;
        }
    }
    sent
}

/// A class of memory of rank 0 before its first op, in bytes.
fn resident(world: &World, class: MemoryClass) -> f64 {
    let effects = world.program_of(RankId(0)).resident.iter();
    effects.filter(|effect| effect.class == class).map(|effect| effect.bytes as f64).sum()
}

fn close(what: &str, got: f64, expected: f64) {
    assert!((got - expected).abs() <= 1e-3 * expected.max(1.0), "{what}: {got}, expected {expected}");
}

/// Each kind with bytes a parameter: on links within nodes, between nodes; resident weights, gradients, optimizer
/// state.
///
/// Weights take 2 bytes, gradients 4, optimizer state 12. A ring among n members moves (n − 1)·B for an all-gather or
/// a reduce-scatter of B bytes, each of its links (n − 1)/n·B. Over two nodes two of n links are between them, before
/// each of which lies a hop within the node: all rings use the same port both ways. Collectives of four run on each
/// of two nodes, those of two between four pairs.
fn by_hand() -> Vec<(&'static str, [f64; 2], [f64; 3])> {
    let m = MICRO_BATCHES;
    let in_nodes = |bytes: f64| 2.0 * (NODE - 1.0) * bytes;
    let over_all = |bytes: f64| [(ALL - 1.0) * bytes, 2.0 / ALL * (ALL - 1.0) * bytes];
    // Between two: each sends half of a quarter, in four pairs.
    let between = |bytes: f64| bytes / NODE / 2.0 * ALL;
    let everything_within = in_nodes(2.0) * 2.0 * m + in_nodes(4.0) * m;
    vec![
        ("hybrid", [everything_within, 2.0 * between(4.0) * m], [2.0 / NODE, 4.0 / NODE, 12.0 / NODE]),
        ("mics", [everything_within, 2.0 * between(4.0)], [2.0 / NODE, 4.0 / NODE, 12.0 / NODE]),
        (
            "node-gradients",
            [in_nodes(4.0) * m + over_all(2.0)[0], between(4.0) + over_all(2.0)[1]],
            [2.0, 4.0 / NODE, 12.0 / ALL],
        ),
        (
            "hpz",
            [(over_all(2.0 + 4.0)[0] + in_nodes(2.0)) * m, over_all(2.0 + 4.0)[1] * m],
            [2.0 / ALL + 2.0 / NODE, 4.0 / ALL, 12.0 / ALL],
        ),
        (
            "zero-plus-plus",
            [(over_all(1.0)[0] + in_nodes(1.0) + in_nodes(0.5)) * m, (over_all(1.0)[1] + between(0.5)) * m],
            [2.0 / ALL + 2.0 / NODE, 4.0 / ALL, 12.0 / ALL],
        ),
    ]
}

#[test]
fn each_kind_sends_and_holds_what_it_does_by_hand() {
    for (kind, links, memory) in by_hand() {
        let inputs = inputs(kind, &[]);
        let parameters = ParameterCount::of(&inputs.model).total() as f64;
        let [near, far] = sent(&inputs).map(|bytes| bytes / parameters);
        close(&format!("{kind}, within nodes"), near, links[0]);
        close(&format!("{kind}, between nodes"), far, links[1]);
        let world = inputs.plan().expect("a plan").world;
        let classes = [MemoryClass::Weights, MemoryClass::Gradients, MemoryClass::Optimizer];
        for (class, expected) in classes.into_iter().zip(memory) {
            close(&format!("{kind}, {}", class.name()), resident(&world, class) / parameters, expected);
        }
        let estimate = closed_form(&inputs).expect("a closed form").fullest();
        for (got, expected) in [estimate.weights, estimate.optimizer].into_iter().zip([memory[0], memory[2]])
        {
            close(&format!("{kind}, closed form"), got / parameters, expected);
        }
    }
}

/// One node of eight has nobody beyond it: hybrid sharding and MiCS are ZeRO-3 there, also by the group stated.
#[test]
fn a_group_of_all_is_plain_sharding() {
    let end = |kind: &str| run(inputs(kind, &["parallelism.sharding.group=8"])).record.step_end;
    assert_eq!(end("hybrid"), end("zero3"));
    assert_eq!(end("mics"), end("zero3"));
    assert_ne!(end("zero-plus-plus"), end("zero3"), "messages are quantised all the same");
}

/// Formats that a workload states are sent in the place of the quantised ones.
#[test]
fn stated_formats_count_more_than_the_kind() {
    let stated = ["precision.weight_communication=bf16", "precision.gradient_communication=fp32"];
    let (quantised, stated) =
        (sent(&inputs("zero-plus-plus", &[])), sent(&inputs("zero-plus-plus", &stated)));
    assert!(stated[0] > 2.0 * quantised[0] && stated[1] > 2.0 * quantised[1], "{quantised:?} {stated:?}");
}

/// Experts of one node are cut within it.
#[test]
fn experts_are_cut_where_their_replicas_are() {
    let moe = ["model.moe={\"experts\":4,\"top_k\":2,\"ffn\":512}", "parallelism.expert=2"];
    let inputs = inputs("mics", &moe);
    let world = inputs.plan().expect("a plan").world;
    // 4 experts in each of 4 layers, two matrices each.
    let experts = f64::from(4 * 4 * 2 * 256 * 512);
    let dense = ParameterCount::of(&inputs.model).total() as f64 - experts;
    // Each expert has two replicas on a node, a rank half of the experts.
    close("mics", resident(&world, MemoryClass::Weights), 2.0 * (dense / NODE + experts / 2.0 / 2.0));
}

#[test]
fn a_second_copy_of_weights_stays_on_the_device() {
    let value = json!({
        "model": "gpt2-1.5b", "batch": { "global": 8 }, "offload": { "weights": [{"fraction": 1, "tier": "host"}] },
        "parallelism": { "data": 8, "sharding": { "kind": "zero++" } },
    });
    let error = Inputs::from_json(&value.to_string(), Some("dgx-a100-8"), &[], &Disk);
    assert!(error.is_err_and(|e| e.to_string().contains("second copy")));
}
