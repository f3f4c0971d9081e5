//! Every shipped stack is sound; what a workload says counts more than its stack.

use serde_json::{Value, json};
use stepsim_spec::workload::{KernelFusion, Reference, WorkloadSpec};
use stepsim_spec::{Kind, LoadedSpec, SpecError, catalog, from_value, load, *};

fn workload(stack: Value, sets: &[&str]) -> Result<WorkloadSpec, SpecError> {
    let text = json!({
        "model": {
            "name": "small", "layers": 8, "hidden": 1024, "heads": 16, "ffn": 4096, "vocabulary": 32000,
            "sequence": 2048,
        },
        "batch": { "global": 32 },
        "stack": stack,
    });
    let sets: Vec<String> = sets.iter().map(|s| s.to_string()).collect();
    from_value(text, "small".into(), "small.json".into(), &sets).map(|l| l.value)
}

#[test]
fn every_shipped_stack_loads_and_says_where_it_is_from() {
    for name in catalog::names(Kind::Stack) {
        let LoadedSpec { value: stack, .. } = load::<StackSpec>(name, &[]).unwrap_or_else(|e| panic!("{e}"));
        assert!(!stack.description.is_empty() && !stack.source.is_empty(), "{name}");
        workload(json!(name), &["batch.micro_batch=1"]).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

#[test]
fn the_workload_counts_more_than_its_stack() {
    let stack =
        json!({"defaults": {"fusion": "none", "gradient_buckets": {"overlap": false, "bucket_bytes": 7}}});
    let w = workload(stack.clone(), &["gradient_buckets.bucket_bytes=9"]).unwrap();
    assert_eq!(
        (w.fusion, w.gradient_buckets.overlap, w.gradient_buckets.bucket_bytes),
        (KernelFusion::None, false, 9)
    );
    let w = workload(stack, &["fusion=partial"]).unwrap();
    assert_eq!(w.fusion, KernelFusion::Partial);
}

#[test]
fn a_stack_stands_on_another_and_is_set_by_name() {
    let w = workload(json!({"base": "megatron-2021", "host": {"slowness": 2}}), &[]).unwrap();
    assert_eq!(w.fusion, KernelFusion::Partial);
    assert_eq!(w.stack().host.as_ref().map(|h| h.slowness), Some(2.0));
    let w = workload(json!("simple"), &["stack=megatron-2021", "stack.host.slowness=3"]).unwrap();
    assert_eq!((w.fusion, w.stack().host.as_ref().map(|h| h.slowness)), (KernelFusion::Partial, Some(3.0)));
    assert!(matches!(w.stack, Some(Reference::Inline(_))));
}

#[test]
fn no_stack_is_the_simple_one() {
    let simple = load::<StackSpec>("simple", &[]).unwrap().value;
    let default = StackSpec::default();
    assert_eq!(
        (&simple.defaults, &simple.optimizer, &simple.host),
        (&default.defaults, &default.optimizer, &None)
    );
    assert_eq!(workload(Value::Null, &[]).unwrap().stack(), &default);
}

/// The host pays for what is computed again by its checkpoints, and for a layer or a router only where that is among
/// it.
#[test]
fn each_checkpoint_costs_the_host() {
    let host = json!({
        "layer_us": {"forward": 10, "backward": 20}, "router_us": {"forward": 100, "backward": 200},
        "checkpoint_us": 1000,
    });
    let again = |sets: &[&str]| {
        let w = workload(json!({ "host": host }), sets).unwrap();
        let layers = w.stack().host.as_ref().unwrap().layers(&w.recompute);
        assert_eq!((layers.dense.forward, layers.dense.backward), (10.0, 20.0));
        assert_eq!((layers.experts.forward, layers.experts.backward), (110.0, 220.0));
        (layers.dense.again, layers.experts.again)
    };
    assert_eq!(again(&[]), (0.0, 0.0));
    assert_eq!(again(&["recompute.granularity=selective"]), (1000.0, 1000.0));
    assert_eq!(again(&["recompute.granularity=full"]), (1010.0, 1110.0));
    let modules =
        |list: &str| again(&["recompute.granularity=modules", &format!("recompute.modules={list}")]);
    assert_eq!(modules(r#"["norm","activation"]"#), (3000.0, 3000.0));
    assert_eq!(modules(r#"["mlp","moe"]"#), (1000.0, 1100.0));
}
