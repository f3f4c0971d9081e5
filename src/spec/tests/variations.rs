use stepsim_spec::workload::WorkloadSpec;
use stepsim_spec::{Draft, LoadedSpec, SpecError, Variations};

/// Any setting, right or wrong, gives the same value, content and words as without sections.
#[test]
fn sections_make_the_same_workload() {
    let lists: &[&[&str]] = &[
        &[],
        &["batch.global=256"],
        &["batch={\"global\":256}", "batch.micro_batch=2"],
        &["batch.micro_batch=2", "batch={\"global\":256}"],
        &["batch.global=0"],
        &["batch.global=many"],
        &["batch.globl=4"],
        &["batch=[4, 1]"],
        &["parallelism.tensor=4", "recompute.granularity=full", "parallelism.data=4"],
        &["parallelism.pipeline.chunks=null", "parallelism.pipeline.schedule=1f1b"],
        &["parallelism.sharding={\"kind\":\"zero3\"}"],
        &["parallelism.sharding=zero3"],
        &["parallelism=null"],
        &["parallelism.rank_map=[1,0]"],
        &["parallelism.rank_map=nowhere.json"],
        &["parallelism.rank_map=nowhere.json", "parallelism.rank_map=null"],
        &["offload.optimizer=[{\"tier\":\"host\",\"fraction\":1}]", "gradient_buckets.bucket_bytes=7"],
        &["offload.optimizer[0].fraction=0.5"],
        &["model.layers=40", "batch.global=256"],
        &["stack=null", "batch.global=256"],
        &["precision.compute=fp16", "batch.global=256"],
        &["nodes=4"],
        &["batch"],
        &["=4"],
    ];
    let mut equal = 0;
    for name in ["llama3-70b", "gpt2-8", "gpt3-175b", "deepseek-v3", "llama3-8b-fsdp"] {
        let draft = Draft::load(name).expect("a shipped workload");
        let owned = |list: &[&str]| list.iter().map(|set| set.to_string()).collect::<Vec<_>>();
        let before = [&[][..], &["model=llama3-8b", "batch.micro_batch=4", "recompute.granularity=full"]];
        for always in before {
            let variations = Variations::new(draft.clone(), owned(always));
            for list in lists.iter().chain(lists) {
                let sets = owned(&[always, *list].concat());
                let words = |all: Result<LoadedSpec<WorkloadSpec>, SpecError>| all.map_err(|e| e.to_string());
                let (got, want) = (words(variations.with(&sets)), words(draft.with(&sets)));
                assert_eq!(got, want, "{name} {list:?}");
                equal += u32::from(got.is_ok());
            }
        }
    }
    assert!(equal >= 100, "{equal} without errors");
}
