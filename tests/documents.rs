//! Documents packed into sequences: shares, expectations and FLOPs against another program's, and steps that have them.

use std::path::Path;

use serde_json::{Value, json};
use stepsim::fabric::topology::Machine;
use stepsim::form::compare::workload::closed_form;
use stepsim::price::documents::expected;
use stepsim::price::documents::shards::{SequenceShares, SequenceSplit, VisibleKeys};
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::spec::workload::WorkloadSpec;
use stepsim::spec::{ModelSpec, from_value, load};

fn golden() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/documents.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn lengths(case: &Value) -> Vec<u64> {
    case["lengths"].as_array().unwrap().iter().map(|l| l.as_u64().unwrap()).collect()
}

fn close(a: f64, b: &Value, tolerance: f64, what: &str) {
    let b = b.as_f64().unwrap_or_else(|| panic!("{what}: {b}"));
    assert!((a - b).abs() <= tolerance * b.abs(), "{what}: {a}, expected {b}");
}

const CUTS: [(&str, SequenceSplit); 3] = [
    ("contiguous", SequenceSplit::Contiguous),
    ("zigzag", SequenceSplit::Zigzag),
    ("per-document-zigzag", SequenceSplit::PerDocument),
];

#[test]
fn shares_of_ranks_are_the_golden_ones() {
    let golden = golden();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 13);
    for case in cases {
        let (name, lengths) = (&case["name"], lengths(case));
        for (cut_name, cut) in CUTS {
            let want = &case["cuts"][cut_name];
            let got = SequenceShares::of(&lengths, 8, cut, VisibleKeys::Causal);
            let pairs: Vec<u128> = got.by_rank().collect();
            let wanted: Vec<u128> =
                want["pairs"].as_array().unwrap().iter().map(|p| p.as_u64().unwrap().into()).collect();
            assert_eq!(pairs, wanted, "{name} {cut_name}");
            close(got.max_over_mean(), &want["max_over_mean"], 1e-12, "max over mean");
            close(got.ring_over_mean(), &want["ring_over_mean"], 1e-12, "ring");
            assert_eq!(
                got.foreign_keys.iter().max(),
                want["foreign_keys"].as_u64().as_ref(),
                "{name} {cut_name}"
            );
            // Masks add up to the same over any cut.
            for (seen, of) in [
                (VisibleKeys::Causal, "pairs"),
                (VisibleKeys::Window(1024), "window_1024"),
                (VisibleKeys::Chunk(8192), "chunk_8192"),
            ] {
                let all: u128 = SequenceShares::of(&lengths, 8, cut, seen).by_rank().sum();
                assert_eq!(all, u128::from(case[of].as_u64().unwrap()), "{name} {cut_name} {of}");
            }
        }
    }
}

#[test]
fn the_slowest_rank_is_expected_as_order_statistics_say() {
    let golden = golden();
    for (n, want) in golden["largest_of_normals"].as_object().unwrap() {
        close(expected::mean_maximum(n.parse().unwrap()), want, 1e-7, "normals");
    }
    let of = &golden["sequences_64"];
    let pairs: Vec<f64> = of["pairs"].as_array().unwrap().iter().map(|p| p.as_f64().unwrap()).collect();
    for (n, want) in of["expected_max_over_mean"].as_object().unwrap() {
        let n = n.parse().unwrap();
        close(expected::of_values(&pairs, n), &want["empirical"], 1e-12, "of values");
        close(expected::of_sums(&pairs, n, 1), &want["normal"], 1e-7, "of normals");
        close(expected::of_sums(&pairs, n, 8), &of["sum_of_8_normal"][n.to_string()], 1e-7, "of sums");
    }
}

fn inputs(workload: Value, topology: &str) -> Inputs {
    let (topology, machine) = Machine::load(topology, &[]).unwrap();
    let workload = from_value::<WorkloadSpec>(workload, "test".into(), "test".into(), &[]).unwrap();
    Inputs::new(workload, topology, machine).unwrap()
}

fn run(workload: &Value) -> Simulation {
    Simulation::run(&inputs(workload.clone(), "switch:8,450,1"), &Options::default()).unwrap()
}

/// Eight ranks, one sequence of 32,768 tokens on each in two micro-batches.
fn step(parallelism: Value, documents: Value) -> Value {
    let mut step = json!({
        "model": {
            "name": "small", "layers": 4, "hidden": 2048, "heads": 16, "kv_heads": 8, "ffn": 4096,
            "gated_mlp": true, "vocabulary": 32000, "sequence": 32768,
        },
        "batch": {"global": 16},
        "parallelism": parallelism,
        "recompute": {"granularity": "full"},
    });
    if !documents.is_null() {
        step["documents"] = documents;
    }
    step
}

#[test]
fn packed_sequences_ask_for_the_golden_flops() {
    let golden = golden();
    for (name, want) in golden["llama3_8b_training_flops"].as_object().unwrap() {
        let case = golden["cases"].as_array().unwrap().iter().find(|c| c["name"] == *name).unwrap();
        let workload = json!({
            "model": "llama3-8b", "sequence": 131_072, "batch": {"global": 1},
            "documents": {"lengths": case["lengths"]},
        });
        let step = inputs(workload, "switch:1,450,1");
        let plan = step.plan().unwrap();
        close(plan.hardware_flops as f64, want, 2e-4, name);
    }
}

#[test]
fn one_document_is_as_none() {
    for parallelism in [
        json!({}),
        json!({"context": {"size": 4}}),
        json!({"context": {"size": 4, "kind": "all-gather"}}),
        json!({"context": {"size": 4, "kind": "ulysses"}}),
        json!({"context": {"size": 4, "kind": "two-level", "ulysses_size": 2}}),
    ] {
        let plain = run(&step(parallelism.clone(), Value::Null));
        let one = run(&step(parallelism.clone(), json!({"lengths": [32768]})));
        assert_eq!(plain.record.step_end, one.record.step_end, "{parallelism}");
        assert_eq!(plain.speed().mfu, one.speed().mfu, "{parallelism}");
        let mut cut = parallelism.clone();
        if cut["context"].is_object() {
            cut["context"]["per_document"] = json!(true);
            let cut = run(&step(cut, json!({"lengths": [32768]})));
            assert_eq!(plain.record.step_end, cut.record.step_end, "{parallelism} per document");
        }
    }
}

#[test]
fn uneven_documents_are_waited_for_and_balancing_buys_it_back() {
    let seconds = |parallelism: &Value, documents: Value| {
        run(&step(parallelism.clone(), documents)).record.step_end.s()
    };
    // The first rank gets both undivided sequences.
    let whole = |i: usize| if i.is_multiple_of(8) { vec![32768] } else { vec![2048; 16] };
    let all: Vec<Vec<u64>> = (0..16).map(whole).collect();
    let drawn = |order: &str| json!({"file": all, "order": order});
    let (data, fsdp) = (json!({}), json!({"sharding": {"kind": "zero3"}}));
    let [packed, sorted, balanced] = ["packed", "sorted", "balanced"].map(|o| seconds(&data, drawn(o)));
    assert!(packed > 1.1 * balanced, "{packed} {balanced}");
    assert!(sorted >= balanced && sorted < packed, "{sorted}");
    // Where micro-batches are waited for one by one, like beside like is what helps.
    let [packed, sorted] = ["packed", "sorted"].map(|o| seconds(&fsdp, drawn(o)));
    assert!(sorted < 0.95 * packed, "{packed} {sorted}");
    // Context-parallel ranks: each document by itself.
    let cut = |per_document: bool| json!({"context": {"size": 8, "kind": "all-gather", "per_document": per_document}});
    let halving = json!({"lengths": [16384, 8192, 4096, 2048, 2048]});
    let (zigzag, own) = (seconds(&cut(false), halving.clone()), seconds(&cut(true), halving));
    assert!(own < 0.98 * zigzag, "{zigzag} {own}");
}

/// The closed form knows the mean documents and how much the fullest rank has: plain data parallelism.
#[test]
fn the_closed_form_expects_the_slowest_rank() {
    let even = inputs(step(json!({}), json!({"lengths": [4096]})), "switch:8,450,1");
    let mut ratios = Vec::new();
    for seed in 0..8 {
        let documents = json!({"drawn": {"median": 4096, "sigma": 1.5, "seed": seed}});
        let uneven = inputs(step(json!({}), documents), "switch:8,450,1");
        let simulated = Simulation::run(&uneven, &Options::default()).unwrap().record.step_end.s();
        let form = closed_form(&uneven).unwrap();
        assert!(form.terms.bubble > 0.0, "waiting is named");
        ratios.push(form.terms.total() / simulated);
    }
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    assert!((mean - 1.0).abs() < 0.05, "{ratios:?}");
    let form = closed_form(&even).unwrap();
    assert_eq!(form.terms.bubble, 0.0, "nothing to wait for");
}

/// Windows restart with each document: sliding layers gain nothing from documents longer than their window.
#[test]
fn sliding_windows_know_documents() {
    let model: ModelSpec = load("gemma-3-4b", &[]).unwrap().value;
    let attention = |lengths: Value| {
        let workload = json!({
            "model": &model, "sequence": 32768, "batch": {"global": 1}, "documents": {"lengths": lengths},
        });
        let plan = inputs(workload, "switch:1,450,1").plan().unwrap();
        let mut by_layer = std::collections::BTreeMap::new();
        for op in &plan.world.programs()[0].ops {
            let info = &plan.world.programs()[0].infos[op.info as usize];
            if info.name == "attention" {
                by_layer.insert(info.layer.unwrap(), info.flops);
            }
        }
        by_layer
    };
    let (one, many) = (attention(json!([32768])), attention(json!([8192])));
    // Every sixth layer sees all.
    assert!((many[&5] / one[&5] - 0.25).abs() < 1e-9);
    assert!((many[&0] / one[&0] - 1.0).abs() < 0.1, "{}", many[&0] / one[&0]);
}
