//! Short files are enough, and what is wrong in one is said in full.

use serde_json::{Value, json};
use stepsim_spec::problem::Problem;
use stepsim_spec::{SpecError, from_value, *};

fn small() -> Value {
    json!({
        "model": {
            "name": "small", "layers": 8, "hidden": 1024, "heads": 16, "kv_heads": 4, "ffn": 4096,
            "vocabulary": 32000, "sequence": 2048,
        },
        "batch": { "global": 32 },
    })
}
/// The small workload with settings, apart by spaces.
fn with(settings: &str) -> Result<WorkloadSpec, SpecError> {
    let sets: Vec<String> = settings.split_whitespace().map(String::from).collect();
    from_value(small(), "small".into(), "small.json".into(), &sets).map(|l| l.value)
}
fn message(settings: &str) -> String {
    with(settings).expect_err("a wrong file").to_string()
}
fn on(workload: &WorkloadSpec, devices: u64) -> Vec<String> {
    workload.validate_on(devices, &["hbm", "host"]).iter().map(Problem::to_string).collect()
}

#[test]
fn a_short_file_is_enough() {
    let w = with("").expect("a right file");
    assert_eq!(w.data_parallel(8), 8);
    assert_eq!(w.micro_batches(8), 4);
    assert_eq!(w.bytes_per_parameter().total(), 18.0);
    assert!(on(&w, 8).is_empty());
    // The filled-in workload reads back as the same.
    let again: WorkloadSpec = serde_json::from_value(serde_json::to_value(&w).unwrap()).unwrap();
    assert_eq!(again, w);
}

#[test]
fn recipes_cost_the_bytes_of_their_papers() {
    let bytes = |settings: &str| with(settings).expect("a right file").bytes_per_parameter();
    // Megatron's table for its distributed optimizer: fp16 parameters and gradients 20 with fp32 gradients kept too.
    let fp16 = bytes("precision.weights=fp16 precision.gradients=fp16");
    assert_eq!((fp16.weights, fp16.gradients, fp16.optimizer()), (2.0, 2.0, 12.0));
    // DeepSeek-V3: bf16 moments.
    assert_eq!(bytes("precision.moments_bytes_per_parameter=4").total(), 14.0);
    // Two moments of one byte, and an fp32 scale for every 256 of each.
    assert_eq!(bytes("optimizer.kind=adam8bit").moments, 2.03125);
    assert_eq!(bytes("optimizer.kind=sgd").moments, 0.0);
}

#[test]
fn degrees_that_do_not_divide_are_named() {
    assert_eq!(
        message("parallelism.tensor=3"),
        "--set parallelism.tensor=3: at `parallelism.tensor`: 3 is not allowed\n  \
         allowed: a divisor of the model's heads (16)\n  \
         hint: each tensor-parallel rank holds an equal share"
    );
    assert_eq!(
        message("parallelism.pipeline.size=16"),
        "--set parallelism.pipeline.size=16: at `parallelism.pipeline.size`: 16 is not allowed\n  \
         allowed: size × chunks of at most the model's 8 layers\n  \
         hint: a stage without layers needs layer_split"
    );
    let w = with("parallelism.tensor=2 parallelism.data=8").expect("a right file");
    assert_eq!(
        on(&w, 12),
        [
            "parallelism.data: 8 is not allowed; allowed: degrees that multiply to the 12 devices of the topology \
          (tensor 2 × context 1 × pipeline 1 × data 8 = 16; data = 6 would fit, and so would leaving it out)"
        ]
    );
    let w = with("").expect("a right file");
    assert_eq!(
        on(&w, 3),
        ["batch.global: 32 is not allowed; allowed: a multiple of data × micro_batch = 3 × 1 = 3 \
          (each data-parallel rank needs a whole number of micro-batches)"]
    );
}

#[test]
fn offload_fractions_sum_to_one_on_tiers_that_exist() {
    assert_eq!(
        message(r#"offload.weights=[{"fraction":0.5,"tier":"host"}]"#),
        "--set offload.weights=[{\"fraction\":0.5,\"tier\":\"host\"}]: at `offload.weights`: \
         fractions with sum 0.5 is not allowed\n  allowed: fractions whose sum is 1\n  \
         hint: name the share that stays in device memory too, as tier hbm"
    );
    let whole = r#"offload.optimizer=[{"fraction":1.0,"tier":"cxl"}]"#;
    let w = with(whole).expect("a right file");
    assert_eq!(
        on(&w, 8),
        [
            "offload.optimizer[0].tier: \"cxl\" is not allowed; allowed: a memory tier of the topology: hbm, host \
          (add the tier to the topology, or place the share elsewhere)"
        ]
    );
    let text = message(&format!("precision.master_bytes_per_parameter=0 optimizer.kind=sgd {whole}"));
    assert!(text.contains("this recipe keeps no master weights and no moments"), "{text}");
}

#[test]
fn a_wrong_field_of_a_written_out_model_is_named() {
    let text = message("model.heds=3");
    assert!(text.contains("heds") && text.contains("heads"), "{text}");
    let text = message("model.heads=many");
    assert!(text.contains("`model.heads`"), "{text}");
}

#[test]
fn sizes_that_no_count_of_bytes_holds_are_refused() {
    let text = message("batch.micro_batch=100000000 sequence=1000000000");
    assert!(text.contains("batch.micro_batch") && text.contains("100000000"), "{text}");
    let text = message(
        "model.layers=100000 model.hidden=10000000 model.heads=1 model.kv_heads=1 model.ffn=100000000",
    );
    assert!(text.contains("parameters"), "{text}");
}

#[test]
fn what_one_choice_needs_of_another_is_checked() {
    for (settings, path) in [
        ("recompute.every_layers=2", "recompute.every_layers"),
        ("recompute.granularity=modules", "recompute.modules"),
        (r#"recompute={"granularity":"modules","modules":["projection"]}"#, "recompute.modules"),
        ("parallelism.pipeline.order_file=order.json", "parallelism.pipeline.order_file"),
        ("parallelism.expert=2", "parallelism.expert"),
        ("parallelism.sharding.group=2", "parallelism.sharding.group"),
        ("parallelism.context.size=3", "parallelism.context.size"),
        ("offload.optimizer_on=host", "offload.optimizer_on"),
        ("noise.compute_sigma=-1", "noise.compute_sigma"),
    ] {
        let error = with(settings).expect_err("a wrong file");
        assert_eq!(error.path, path, "{error}");
    }
}

#[test]
fn sizes_beyond_all_bounds_are_refused_without_overflow() {
    let (half, most) = (1u64 << 63, u64::MAX);
    let mla = json!({
        "kv_lora_rank": most, "q_lora_rank": most, "qk_nope_head_size": most, "qk_rope_head_size": most,
        "v_head_size": most,
    });
    for settings in [
        format!("model.hidden={half} model.heads=0"),
        format!("model.mla={mla}"),
        format!("parallelism.context.size={half}"),
        format!(r#"parallelism.pipeline={{"size":2,"layer_split":[{half},{half}]}}"#),
    ] {
        with(&settings).expect_err("too large");
    }
}
