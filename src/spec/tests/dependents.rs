use stepsim_spec::{WorkloadSpec, load};

/// A kind may be set over whatever shipped files say for another.
#[test]
fn kinds_are_set_over_files() {
    for (name, set) in [
        ("llama3-8b-fsdp", "parallelism.sharding.kind=zero1"),
        ("llama3-8b-fsdp", "parallelism.sharding.kind=none"),
        ("gpt3-175b", "parallelism.pipeline.schedule=1f1b"),
        ("kimi-k2", "recompute.granularity=none"),
        ("deepseek-v3", "expert_load.balance=even"),
        ("deepseek-v3", "expert.dispatcher=rank-dedup"),
    ] {
        load::<WorkloadSpec>(name, &[set.to_string()]).unwrap_or_else(|e| panic!("{name} {set}: {e}"));
    }
    let both = ["parallelism.sharding.kind=zero1", "parallelism.sharding.reshard_after_forward=true"];
    let error = load::<WorkloadSpec>("llama3-8b-fsdp", &both.map(String::from)).unwrap_err().to_string();
    assert!(error.contains("unless kind cuts weights"), "what is set with the kind is refused: {error}");
}
