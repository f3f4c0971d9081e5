//! Dynamic context parallelism: a degree for each document by its length.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use stepsim::plan::step::Packs;

use crate::laws::steps::Draws;
use crate::modules::{inputs, report};

/// Eight ranks of data × context whose documents are these.
fn step(documents: &Value, context: &Value) -> Value {
    json!({
        "topology": "switch:8,450,1",
        "model": {
            "name": "small", "source": "made up", "layers": 4, "hidden": 1024, "heads": 8, "kv_heads": 4, "ffn": 4096,
            "gated_mlp": true, "vocabulary": 4096, "sequence": 16384,
        },
        "batch": {"global": 8},
        "documents": documents,
        "parallelism": {"context": context, "sharding": {"kind": "zero1"}},
    })
}

fn drawn(draws: &mut Draws) -> Value {
    let documents = json!({"drawn": {
        "median": draws.of(&[100, 500, 2000, 8000]), "sigma": draws.of(&[0.0, 0.5, 1.0, 1.5]),
        "seed": draws.of(&[1, 2, 3, 4]),
    }});
    let mut step = step(
        &documents,
        &json!({
            "size": draws.of(&[1, 2, 4]), "kind": draws.of(&["ring", "all-gather"]), "dynamic": {},
        }),
    );
    step["topology"] = draws.of(&["switch:8,450,1", "nodes:2*4,400,1,50,2"]).into();
    step["batch"]["global"] = draws.of(&[8, 16]).into();
    let tensor = draws.of(&[1, 1, 2]);
    step["parallelism"]["tensor"] = tensor.into();
    if tensor == 1 {
        step["parallelism"]["context"]["dynamic"] = draws.of(&[json!({}), json!({"tokens_per_rank": 2048})]);
    }
    step["recompute"] = json!({"granularity": draws.of(&["none", "full"])});
    step
}

/// Pairs of a document's own tokens, the diagonal by half, over all documents with their padding.
fn squares(packs: &Packs) -> f64 {
    let passes = &packs.dynamic().unwrap().passes;
    passes.iter().flat_map(|(_, pass)| &pass.samples).map(|l| (*l as f64).powi(2) / 2.0).sum()
}

/// Whatever the degrees: all documents run once, padding is under a multiple a document, and the FLOPs are those of
/// the padded documents on one rank each: of weights by token, of attention by pair.
#[test]
fn tokens_and_flops_are_conserved_whatever_the_degrees() {
    let mut draws = Draws(7);
    let (mut degrees, mut of_token) = (BTreeSet::new(), None);
    for _ in 0..24 {
        let mut value = drawn(&mut draws);
        value["recompute"] = json!({"granularity": "none"});
        let inputs = inputs(&value);
        let (workload, model) = (&inputs.workload.value, &inputs.model);
        let packs = Packs::new(workload, model, 8).unwrap();
        let dynamic = packs.dynamic().unwrap();
        let documents: u64 = dynamic.by_degree().values().map(|of| of.samples).sum();
        assert_eq!(dynamic.tokens, workload.batch.global * 16384, "{value}");
        let multiple = 2 * 8 / workload.parallelism.tensor;
        assert!(dynamic.padded() - dynamic.tokens < multiple * documents, "{value}");
        assert!(
            (0..8 / workload.parallelism.tensor).all(|rank| dynamic.of_rank(rank).count() > 0),
            "{value}"
        );
        degrees.extend(dynamic.by_degree().into_keys());
        // 4 layers, 8 heads of 128 for scores and values: forward 2 products, backward 5.
        let attention = 4.0 * 7.0 * 2.0 * 1024.0 * squares(&packs);
        let rest = inputs.plan().unwrap().hardware_flops as f64 - attention;
        let own = rest / dynamic.padded() as f64;
        let first = *of_token.get_or_insert(own);
        assert!((own / first - 1.0).abs() < 1e-9, "{value}: {own} {first}");
    }
    assert_eq!(degrees.into_iter().collect::<Vec<_>>(), [1, 2, 4, 8]);
}

/// Documents that are all alike get one degree, and the step is that of the same static degree but for the forming of
/// groups.
#[test]
fn equal_documents_are_as_a_static_degree() {
    for (length, degree) in [(16384, 4), (8192, 2), (4096, 1)] {
        for kind in ["ring", "all-gather"] {
            let lengths = json!({"lengths": [length]});
            let context = |dynamic: Value, size: u64| json!({"size": size, "kind": kind, "dynamic": dynamic});
            let dynamic = step(&lengths, &context(json!({"tokens_per_rank": 4096}), 1));
            // As many sequences of one document each.
            let mut fixed = step(&Value::Null, &context(Value::Null, degree));
            (fixed["sequence"], fixed["batch"]["global"]) = (length.into(), (8 * 16384 / length).into());
            let [fixed, dynamic] = [fixed, dynamic].map(|step| report(&step).step_time_s);
            let forming = dynamic - fixed;
            assert!((0.0..50e-6).contains(&forming), "{length} {kind}: {fixed} {dynamic}");
        }
    }
}
