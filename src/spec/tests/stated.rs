use stepsim_spec::load;
use stepsim_spec::workload::WorkloadSpec;

fn inert(name: &str, sets: &[&str]) -> Vec<(String, String)> {
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    let loaded = load::<WorkloadSpec>(name, &sets).expect("a workload");
    let stepsim_spec::workload::ModelRef::Inline(model) = &loaded.value.model else { unreachable!() };
    let found = loaded.without_effect(model, 8);
    found.into_iter().map(|inert| (inert.field, inert.why)).collect()
}

#[test]
fn what_has_no_effect_is_named_with_its_reason() {
    let said = |sets: &[&str]| {
        let found = inert("gpt2-8", sets);
        found.iter().map(|(field, why)| format!("{field} ({why})")).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(said(&[]), "");
    assert_eq!(said(&["parallelism.sequence_parallel=true"]), "parallelism.sequence_parallel (tensor 1)");
    assert_eq!(said(&["parallelism.sequence_parallel=false"]), "", "it says what holds anyway");
    assert_eq!(said(&["parallelism.pipeline.schedule=zb-h1"]), "parallelism.pipeline.schedule (one stage)");
    assert_eq!(
        said(&["expert_load.balance=factor", "expert_load.max_over_mean=2"]),
        "expert_load (no experts)",
        "fields of one object are one"
    );
    assert_eq!(
        said(&["parallelism.sharding.gather_bucket_bytes=1"]),
        "parallelism.sharding.gather_bucket_bytes (nothing is sharded)"
    );
    assert_eq!(
        said(&["stack=fsdp2-compiled", "parallelism.sharding.kind=none"]),
        "",
        "a stack's field is nobody's"
    );
    assert_eq!(
        said(&["batch.micro_batch=4", "batch={\"global\":64}"]),
        "batch.micro_batch=4 (batch comes after it)"
    );
}

#[test]
fn what_a_kind_leaves_behind_is_named() {
    let found = inert("llama3-8b-fsdp", &["parallelism.sharding.kind=zero1"]);
    let left = "parallelism.sharding.reshard_after_forward";
    assert!(found.contains(&(left.into(), "not with kind zero1".into())), "{found:?}");
}
