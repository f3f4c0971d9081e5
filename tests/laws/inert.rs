//! A field that is called without effect has none: the step is the same without it. And no field is called so always:
//! in some step it acts.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stepsim::read::analysis::report::Report;
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::spec::Disk;

use super::modules::encoder;
use super::steps::{Draws, count, plain, shardings};

/// Fields that have a rule, with values that are not usual, and what must be set beside them so that they may stand.
fn fields() -> Vec<(&'static str, Vec<Value>)> {
    let list = |values: &[Value]| values.to_vec();
    let field = |path, values: &[Value]| (path, list(values));
    let numbers = |path, values: &[f64]| (path, values.iter().map(|v| json!(v)).collect());
    let whole = |path, values: &[u64]| (path, values.iter().map(|v| json!(v)).collect());
    let words = |path, values: &[&str]| (path, values.iter().map(|v| json!(v)).collect());
    let on = |path| (path, vec![json!(true)]);
    let off = |path| (path, vec![json!(false)]);
    vec![
        field("parallelism.sequence_parallel", &[json!(true)]),
        words("parallelism.tensor_overlap", &["ring", "pipelined"]),
        field("parallelism.order", &[json!(["data", "tensor", "context", "pipeline"])]),
        words("parallelism.context.kind", &["ulysses", "all-gather"]),
        off("parallelism.context.zigzag"),
        whole("parallelism.context.ulysses_size", &[2]),
        whole("parallelism.expert_tensor", &[1, 2]),
        words("parallelism.pipeline.schedule", &["gpipe", "zb-h1", "interleaved"]),
        whole("parallelism.pipeline.group_size", &[4]),
        words("parallelism.pipeline.p2p", &["blocking", "batched"]),
        on("parallelism.pipeline.scatter_gather"),
        whole("parallelism.pipeline.activation_limit", &[3, 4]),
        words("parallelism.sharding.kind", &shardings()[2..]),
        off("parallelism.sharding.reshard_after_forward"),
        on("parallelism.sharding.by_matrix"),
        on("parallelism.keep_gathered"),
        words("loss.logits", &["bf16"]),
        whole("loss.tiles", &[4]),
        whole("parallelism.sharding.group", &[2]),
        whole("parallelism.sharding.prefetch.depth", &[0, 3]),
        whole("parallelism.sharding.gather_bucket_bytes", &[1]),
        words("precision.gradient_communication", &["bf16", "fp32"]),
        words("precision.weight_communication", &["fp32"]),
        whole("gradient_buckets.bucket_bytes", &[100_000]),
        on("gradient_buckets.all_reduce"),
        off("gradient_buckets.overlap"),
        off("gradient_buckets.overlap_weight_gather"),
        field("gradient_buckets.reduce_every_micro_batch", &[json!(true), json!(false)]),
        whole("offload.activations_every_layers", &[2]),
        whole("offload.prefetch.depth", &[0, 3]),
        on("offload.reuse_across_micro_batches"),
        words("expert.dispatcher", &["allgather", "rank-dedup", "two-stage", "two-stage-proxy"]),
        words("expert.formats.dispatch", &["fp8-block"]),
        whole("expert.pad_rows_to", &[64]),
        field("expert_load", &[json!({"balance": "factor", "max_over_mean": 1.5})]),
        numbers("expert_load.max_over_mean", &[2.0]),
        whole("expert_load.seed", &[7]),
        numbers("fidelity.constant_fraction", &[0.3]),
        off("fidelity.launch_overhead"),
        words("modules.vision.parallelism", &["data"]),
        whole("modules.vision.stages", &[1]),
        words("modules.vision.order", &["sorted", "balanced"]),
        on("modules.vision.exchange"),
        field(
            "modules.vision.recompute",
            &[json!({"granularity": "full"}), json!({"granularity": "selective"})],
        ),
        field(
            "noise.stragglers",
            &[json!([{"rank": 0, "slowness": 1.0}]), json!([{"rank": 0, "slowness": 2.0}])],
        ),
    ]
}

/// A step with or without each of experts, stages, sharding, and what is kept away.
fn drawn(draws: &mut Draws) -> Value {
    let mut step = plain();
    let (tensor, context) = (draws.of(&[1, 1, 2, 4, 8]), draws.of(&[1, 1, 1, 2, 4]));
    step["parallelism"] = json!({
        "tensor": tensor, "sequence_parallel": tensor > 1 && draws.of(&[true, false]),
        "context": {"size": context, "kind": draws.of(&["ring", "ulysses", "two-level"]), "ulysses_size": context.min(2)},
        "pipeline": {"size": draws.of(&[1, 1, 2, 4]), "schedule": draws.of(&["1f1b", "gpipe", "interleaved", "zb-auto"])},
        "sharding": {"kind": draws.of(&shardings())},
    });
    step["batch"] = json!({"global": draws.of(&[8, 32]), "micro_batch": draws.of(&[1, 2])});
    step["topology"] = "dgx-a100-8".into();
    step["recompute"] = json!({"granularity": draws.of(&["none", "full"])});
    step["stack"] = draws.of(&["simple", "megatron-te-2024", "fsdp2-compiled"]).into();
    step["fidelity"] = json!({"compute": draws.of(&["tile-wave", "tile-wave", "constant"])});
    if draws.of(&[true, false]) {
        step["model"].as_object_mut().expect("a model").shift_remove("moe");
    } else {
        step["parallelism"]["expert"] = draws.of(&[1, 2, 4, 8]).into();
        step["expert"] = json!({"dispatcher": draws.of(&["alltoall", "allgather", "two-stage"])});
        step["expert_load"] =
            json!({"balance": draws.of(&["even", "factor", "seeded"]), "max_over_mean": 1.3});
    }
    if draws.of(&[true, false]) {
        step["model"]["modules"] = json!([encoder()]);
        let trained = draws.of(&["all", "projector"]);
        let ways =
            [json!({"items": 3, "trained": trained}), json!({"counts": [1, 2, 8], "trained": trained})];
        step["modules"] = json!({"vision": draws.of(&ways)});
        let p = &mut step["parallelism"];
        let ranks = p["tensor"].as_u64().unwrap_or(1) * p["context"]["size"].as_u64().unwrap_or(1);
        if ranks <= 4 && draws.of(&[true, false, false, false, false, false, false, false]) {
            p["pipeline"] = json!({"size": 2});
            p["data"] = (4 / ranks).into();
            step["modules"]["vision"]["devices"] = json!({"data": 4});
        }
    }
    let class = draws.of(&["", "", "weights", "gradients", "optimizer", "activations"]);
    if !class.is_empty() {
        step["offload"] = json!({class: [{"fraction": 1, "tier": "host"}]});
    }
    step
}

fn put(step: &mut Value, path: &str, value: Value) {
    let mut at = step;
    for key in path.split('.') {
        at = &mut at[key];
    }
    *at = value;
}

/// What a step is, without its name and without tiers that nothing fills.
fn played(step: &Value) -> Option<(Inputs, Report)> {
    let inputs = Inputs::from_json(&step.to_string(), None, &[], &Disk).ok()?;
    let mut report = Simulation::run(&inputs, &Options::default()).ok()?.report(false);
    report.run = Default::default();
    report.conventions.clear();
    report.memory.retain(|_, tier| tier.peak_bytes > 0);
    report.stages.iter_mut().for_each(|stage| stage.memory.retain(|_, tier| tier.peak_bytes > 0));
    Some((inputs, report))
}

#[test]
fn what_is_called_without_effect_has_none() {
    let (mut draws, fields) = (Draws(0x5eed_0007), fields());
    let (mut acted, mut silent): (BTreeMap<&str, u32>, BTreeMap<&str, u32>) = Default::default();
    for i in 0..5 * count() {
        let (field, values) = &fields[i as usize % fields.len()];
        let without = drawn(&mut draws);
        let mut with = without.clone();
        put(&mut with, field, draws.of(values));
        let (Some((_, before)), Some((inputs, after))) = (played(&without), played(&with)) else { continue };
        let called = inputs.without_effect();
        let called =
            called.iter().find(|inert| field.starts_with(&inert.field) || inert.field.starts_with(field));
        match called {
            Some(inert) => {
                assert!(before == after, "draw {i}: {inert}, and it has one\n{with}");
                *silent.entry(field).or_default() += 1;
            }
            None => *acted.entry(field).or_default() += u32::from(before != after),
        }
    }
    println!("silent: {silent:?}\nacted: {acted:?}");
    assert!(silent.len() > 20, "{silent:?}");
    // Of few draws some fields have had none in which they act.
    let never: Vec<_> = fields.iter().filter(|(field, _)| acted.get(field).is_none_or(|n| *n == 0)).collect();
    let most = if count() >= 5000 { 0 } else { fields.len() / 4 };
    assert!(never.len() <= most, "never seen to act: {never:?}");
}
