//! Published parameter counts and memory tables, conservation under sharding, and golden numbers worked out apart.

use std::path::Path;

use proptest::prelude::*;

use super::flops::{NarrowFlops, StepFlops};
use super::*;
use crate::step::spec::model::{AttentionKernel, Mixer, MlpKind, ModelSpec, QkNorm};
use crate::step::spec::recipe::CastRole;
use crate::step::spec::workload::{
    ContextKind, ContextSpec, Dtype, Granularity, RecomputeModule, RecomputeSpec, WorkloadSpec,
};

fn model(name: &str) -> ModelSpec {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("workloads/models/{name}.json"));
    let model: ModelSpec = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(model.validate("").is_empty(), "{:?}", model.validate(""));
    model
}
fn policy(granularity: Granularity) -> RecomputeSpec {
    RecomputeSpec { granularity, ..RecomputeSpec::default() }
}
/// GPT-3's layer as Korthikanti et al. have it.
fn korthikanti() -> (ModelSpec, Shard) {
    let mut m = model("gpt3-175b");
    m.attention.kernel = AttentionKernel::Standard;
    let s = Shard { tensor: 8, sequence_parallel: true, ..Shard::whole(&m) };
    (m, s)
}

/// A layer's products forward are those of the weights that its mixer says multiply each token, and these are nearly all of
/// its parameters. Narrow projections of step sizes (Mamba 1) and of gates (Kimi) are counted and not planned as products.
#[test]
fn mixers_plan_what_they_count() {
    let mut met = std::collections::BTreeSet::new();
    for name in crate::step::spec::catalog::names(crate::step::spec::Kind::Model) {
        let m = model(name);
        // Keys and values of images multiply other rows: tests/cross_attention.rs.
        for (layer, _) in m.layer_counts().into_iter().filter(|(layer, _)| !layer.is_cross()) {
            let Some(mixer) = Mixer::of(&layer) else { continue };
            let (weights, parameters) = (mixer.weights(layer.hidden), mixer.parameters(layer.hidden) as f64);
            assert!(weights <= parameters, "{name}: {}", mixer.name());
            assert!(parameters < 1.02 * weights, "{name}: {} {parameters} {weights}", mixer.name());
            let shard = Shard::whole(&layer);
            let plan = LayerPlan::transformer(
                &ModelSpec { mlp: MlpKind::None, moe: None, ..layer.clone().into_owned() },
                &shard,
            );
            let gemms = plan.forward.iter().filter_map(Item::kernel).filter(|k| k.class == KernelClass::Gemm);
            let flops: f64 = gemms.map(|k| k.flops).sum();
            let planned = flops / (2.0 * shard.tokens() as f64);
            assert!((planned / weights - 1.0).abs() < 0.06, "{name}: {} {planned} {weights}", mixer.name());
            met.insert(mixer.name());
        }
    }
    assert_eq!(met.len(), 7, "{met:?}");
}

#[test]
fn parameter_counts_are_the_published_ones() {
    let exact = [
        ("gpt2-1.5b", 1_557_611_200),
        ("llama3-8b", 8_030_261_248),
        ("llama3-70b", 70_553_706_496),
        ("llama3-405b", 405_853_388_800),
        ("mixtral-8x7b", 46_702_792_704),
        ("lfm2-1.2b", 1_170_340_608),
    ];
    for (name, want) in exact {
        assert_eq!(ParameterCount::of(&model(name)).total(), want, "{name}");
    }
    // Billions as printed, with the precision printed.
    let printed = [
        ("gpt3-13b", 13.0, 0.2),
        ("gpt3-175b", 175.0, 0.5),
        ("megatron-22b", 22.0, 0.2),
        ("megatron-530b", 530.0, 1.0),
        ("megatron-1t", 1008.0, 1.0),
        ("palm-540b", 540.35, 0.01),
        ("deepseek-v3", 671.0, 0.1),
        ("scaled-11t", 11_000.0, 250.0),
        ("scaled-95t", 95_500.0, 1250.0),
    ];
    for (name, want, slack) in printed {
        let got = ParameterCount::of(&model(name)).total() as f64 / 1e9;
        assert!((got - want).abs() <= slack, "{name}: {got} instead of {want}");
    }
    let active = |name| ParameterCount::of(&model(name)).active as f64 / 1e9;
    assert!((active("mixtral-8x7b") - 12.9).abs() < 0.05, "{}", active("mixtral-8x7b"));
    // 37 billion without the embedding table, as DeepSeek counts.
    assert!((active("deepseek-v3") - 37.0).abs() < 0.6, "{}", active("deepseek-v3"));
}

#[test]
fn a_rank_holds_its_share_of_the_parameters() {
    for name in ["gpt3-175b", "llama3-70b", "palm-540b", "mixtral-8x7b", "deepseek-v3"] {
        let m = model(name);
        let s = Shard::whole(&m);
        let layers: u64 =
            (0..m.layers).map(|l| LayerPlan::transformer(&m.layer(l), &s).parameters.total()).sum();
        let ends = LayerPlan::embedding(&m, &s).parameters.total()
            + LayerPlan::head(&m, &s, !m.tied_embeddings).parameters.total();
        assert_eq!(layers + ends, ParameterCount::of(&m).total(), "{name}");
    }
}

#[test]
fn saved_activations_are_korthikantis_table() {
    let (m, sp) = korthikanti();
    let mib = |s: &Shard, g| LayerPlan::transformer(&m, s).saved_bytes(&policy(g)) as f64 / 1_048_576.0;
    let whole = Shard { tensor: 1, sequence_parallel: false, ..sp.clone() };
    let tp = Shard { sequence_parallel: false, ..sp.clone() };
    // sbh(34 + 5as/h), then with t = 8 sbh(10 + 24/t + 5as/ht), all over t, and 34 sbh/t.
    for (got, want) in [
        (mib(&whole, Granularity::None), 2736.0),
        (mib(&tp, Granularity::None), 552.0),
        (mib(&sp, Granularity::None), 342.0),
        (mib(&sp, Granularity::Selective), 102.0),
        (mib(&sp, Granularity::Full), 6.0),
        (mib(&tp, Granularity::Full), 48.0),
    ] {
        assert!((got / want - 1.0).abs() < 1e-9, "{got} MiB instead of {want}");
    }
}

#[test]
fn tensor_parallel_messages_are_megatrons() {
    let (m, sp) = korthikanti();
    let sbh2 = 2048 * 12288 * 2;
    let count = |items: &[Item], op| {
        items.iter().filter_map(Item::comm).filter(|c| c.op == op && c.bytes == sbh2).count()
    };
    let plan = LayerPlan::transformer(&m, &sp);
    assert_eq!(
        (count(&plan.forward, CommOp::AllGather), count(&plan.forward, CommOp::ReduceScatter)),
        (2, 2)
    );
    assert_eq!(
        (count(&plan.backward, CommOp::AllGather), count(&plan.backward, CommOp::ReduceScatter)),
        (4, 2)
    );
    assert_eq!(count(&plan.input_grad, CommOp::AllGather) + count(&plan.weight_grad, CommOp::AllGather), 4);
    let tp = LayerPlan::transformer(&m, &Shard { sequence_parallel: false, ..sp });
    assert_eq!((count(&tp.forward, CommOp::AllReduce), count(&tp.backward, CommOp::AllReduce)), (2, 2));
}

#[test]
fn step_flops_are_the_papers_formula() {
    // Narayanan et al. 2021: 96·B·s·l·h²(1 + s/6h + V/16lh) with recomputation, which is 4/3 of what counts here,
    // except that the LM head is not recomputed: there 72 + … with V/12lh.
    let m = model("gpt3-175b");
    let (b, s, l, h, v) = (1536.0, 2048.0, 96.0, 12288.0, 51200.0);
    let want = 72.0 * b * s * l * h * h * (1.0 + s / (6.0 * h) + v / (12.0 * l * h));
    let got = StepFlops::of(&m, 1536, 2048);
    assert!((got.model / want - 1.0).abs() < 1e-12, "{} instead of {want}", got.model);
    assert!(got.model_causal < got.model);
}

/// With fp8 linear layers all products with weights but the LM head's are narrow; attention is not.
#[test]
fn narrow_flops_are_those_of_linear_layers() {
    let m = model("llama3-8b");
    let workload = |precision: &str| -> WorkloadSpec {
        let batch = r#"{"global":8,"micro_batch":1}"#;
        serde_json::from_str(&format!(r#"{{"model":"llama3-8b","batch":{batch},"precision":{precision}}}"#))
            .unwrap()
    };
    assert_eq!(NarrowFlops::of(&workload("{}"), &m), None);
    let flops = StepFlops::of(&m, 1, m.sequence);
    let head = 3.0 * m.sequence as f64 * 2.0 * (m.hidden * m.vocabulary) as f64;
    let fp8 = NarrowFlops::of(&workload(r#"{"fp8":{}}"#), &m).unwrap();
    assert_eq!(fp8.format, Dtype::Fp8);
    let want = (flops.model - flops.mixing - head) / flops.model;
    assert!((fp8.part / want - 1.0).abs() < 1e-12, "{} instead of {want}", fp8.part);
    // A third of them are weight gradients, which a recipe may keep wide.
    let wide = NarrowFlops::of(&workload(r#"{"fp8":{"weight_gradients":false}}"#), &m).unwrap();
    assert!((wide.part / want - 2.0 / 3.0).abs() < 1e-12, "{}", wide.part);
}

#[test]
fn kernels_execute_the_model_flops_of_every_shape() {
    for name in ["gpt3-175b", "megatron-22b", "llama3-70b", "palm-540b", "mixtral-8x7b", "deepseek-v3"] {
        let m = model(name);
        let s = Shard::whole(&m);
        let head = LayerPlan::head(&m, &s, true);
        let layers: Vec<LayerPlan> = (0..m.layers).map(|l| LayerPlan::transformer(&m.layer(l), &s)).collect();
        let run = |pick: fn(&LayerPlan) -> &Vec<Item>| -> f64 {
            layers.iter().chain([&head]).map(|p| LayerPlan::flops(pick(p))).sum()
        };
        let want = StepFlops::of(&m, 1, m.sequence);
        let flash = m.attention.kernel == AttentionKernel::Flash;
        let forward = if flash { want.model_causal } else { want.model } / 3.0;
        assert!((run(|p| &p.forward) / forward - 1.0).abs() < 1e-9, "{name} forward");
        // A flash backward computes the scores anew: 2.5 instead of 2 times its forward.
        let attention = (want.model - want.model_causal) / 3.0;
        let backward = 2.0 * forward + if flash { 0.5 * attention } else { 0.0 };
        assert!((run(|p| &p.backward) / backward - 1.0).abs() < 1e-9, "{name} backward");
        let split = run(|p| &p.input_grad) + run(|p| &p.weight_grad);
        assert!((split / backward - 1.0).abs() < 1e-9, "{name} split backward");
    }
}

#[test]
fn recomputation_repeats_what_it_does_not_keep() {
    let (m, sp) = korthikanti();
    let plan = LayerPlan::transformer(&m, &sp);
    assert!(plan.recompute(&policy(Granularity::None)).is_empty());
    assert_eq!(plan.recompute(&policy(Granularity::Full)), plan.forward);
    let names =
        |items: Vec<Item>| -> Vec<&str> { items.iter().filter_map(Item::kernel).map(|k| k.name).collect() };
    assert_eq!(
        names(plan.recompute(&policy(Granularity::Selective))),
        ["attention scores", "softmax", "attention dropout", "attention over values"]
    );
    // 4bs²h over 3·(24bsh² + 4bs²h) = s / (18h + 3s) = 0.9 % more.
    let extra = LayerPlan::flops(&plan.recompute(&policy(Granularity::Selective)))
        / (LayerPlan::flops(&plan.forward) + LayerPlan::flops(&plan.backward));
    assert!((extra - 0.009).abs() < 0.0005, "{extra}");
    let modules = RecomputeSpec {
        granularity: Granularity::Modules,
        modules: vec![RecomputeModule::Activation, RecomputeModule::Norm],
        ..RecomputeSpec::default()
    };
    assert_eq!(names(plan.recompute(&modules)), ["norm", "norm", "activation"]);
    // GEMM inputs that norms made (2 × 2sbh) and the down projection's input (8sbh) are not kept: 12 sbh / t.
    let less = plan.all_saved_bytes() - plan.saved_bytes(&modules);
    assert_eq!(less, 12 * 2048 * 12288 / 8);
}

/// Of the seven matrices of a gated block (query, key, value, output, gate, up, down) the second, fourth and sixth.
#[test]
fn every_second_matrix_is_multiplied_again() {
    let m = model("llama3-8b");
    let plan = LayerPlan::transformer(&m, &Shard::whole(&m));
    let policy = RecomputeSpec {
        granularity: Granularity::Modules,
        modules: vec![RecomputeModule::EverySecondMatrix],
        ..RecomputeSpec::default()
    };
    let (hidden, tokens) = (4096.0, 8192.0);
    let (key, output, up) = (1024.0, 4096.0, 14336.0);
    assert_eq!(LayerPlan::flops(&plan.recompute(&policy)), 2.0 * tokens * hidden * (key + output + up));
    let less = plan.all_saved_bytes() - plan.saved_bytes(&policy);
    assert_eq!(less as f64, 2.0 * tokens * (key + up));
}

#[test]
fn a_ring_with_zigzag_gives_every_step_the_same_work() {
    let m = model("llama3-70b");
    let context = ContextSpec { size: 4, kind: ContextKind::Ring, zigzag: true, ..ContextSpec::default() };
    let plan = LayerPlan::transformer(&m, &Shard { context, ..Shard::whole(&m) });
    let attention: Vec<f64> = plan
        .forward
        .iter()
        .filter_map(Item::kernel)
        .filter(|k| k.name == "attention")
        .map(|k| k.flops)
        .collect();
    assert_eq!(attention.len(), 4);
    assert!(attention.iter().all(|f| *f == attention[0]), "{attention:?}");
    // Each step sends keys and values of a quarter of the sequence: 2·(s/4)·8·128 elements of 2 bytes.
    let sends: Vec<u64> = plan.forward.iter().filter_map(Item::comm).map(|c| c.bytes).collect();
    assert_eq!(sends, [2 * 2048 * 8 * 128 * 2; 3]);
    let back: Vec<u64> = plan.backward.iter().filter_map(Item::comm).map(|c| c.bytes).collect();
    let block = 2 * 2048 * 8 * 128 * 2;
    assert_eq!(back, [block, 2 * block, 2 * block, block, block]);
}

#[test]
fn expert_messages_are_the_tokens_times_top_k() {
    let m = model("deepseek-v3");
    let s = Shard { expert: 64, ..Shard::whole(&m) };
    let plan = LayerPlan::transformer(&m, &s);
    let swaps: Vec<u64> = plan.forward.iter().filter_map(Item::comm).map(|c| c.bytes).collect();
    assert_eq!(swaps, [4096 * 8 * 7168 * 2; 2]);
    assert_eq!(plan.parameters.expert, 4 * 3 * 7168 * 2048);
    let full = LayerPlan::transformer(&m, &Shard { expert_load: 1.5, ..s.clone() });
    let rows = |p: &LayerPlan| -> f64 {
        p.forward.iter().filter_map(Item::kernel).filter(|k| k.name == "expert up").map(|k| k.flops).sum()
    };
    assert!((rows(&full) / rows(&plan) - 1.5).abs() < 1e-12);
    let mut capped = m.clone();
    capped.moe.as_mut().unwrap().capacity_factor = Some(1.25);
    let capped = LayerPlan::transformer(&capped, &Shard { expert_load: 1.5, ..s });
    assert!((rows(&capped) / rows(&plan) - 1.25).abs() < 1e-12);
}

#[test]
fn shipped_workloads_fit_their_machines() {
    let devices = [
        ("gpt3-175b", 1024),
        ("gpt2-8", 8),
        ("llama3-70b", 64),
        ("llama3-405b", 16384),
        ("megatron-1t", 512),
        ("llama3-8b-fsdp", 8),
        ("llama3-70b-offload", 8),
        ("mixtral-8x7b", 64),
        ("deepseek-v3", 2048),
        ("11t-offload", 4096),
        ("95t-offload", 16384),
        ("gpt-24l-1024", 1024),
    ];
    for (name, n) in devices {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("workloads/{name}.json"));
        let w: WorkloadSpec = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let crate::step::spec::workload::ModelRef::Named(of) = &w.model else {
            panic!("{name} names its model")
        };
        let problems = [w.validate(&model(of)), w.validate_on(n, &["hbm", "host"])].concat();
        assert!(problems.is_empty(), "{name}: {problems:?}");
    }
}

proptest! {
    /// All ranks of a tensor-parallel group together hold, keep and execute what one device would.
    #[test]
    fn tensor_parallel_shares_sum_to_the_whole(
        name in prop::sample::select(vec!["gpt3-175b", "llama3-70b", "megatron-22b"]),
        tensor in prop::sample::select(vec![2u64, 4, 8]),
        micro_batch in 1u64..4,
    ) {
        let m = model(name);
        let one = Shard { micro_batch, ..Shard::whole(&m) };
        let cut = Shard { tensor, sequence_parallel: true, ..one.clone() };
        let (whole, part) = (LayerPlan::transformer(&m, &one), LayerPlan::transformer(&m, &cut));
        let t = tensor as f64;
        for pick in [|p: &LayerPlan| LayerPlan::flops(&p.forward), |p: &LayerPlan| LayerPlan::flops(&p.backward)] {
            prop_assert!((pick(&part) * t / pick(&whole) - 1.0).abs() < 1e-12);
        }
        let kept = |p: &LayerPlan| p.all_saved_bytes() as f64;
        prop_assert!((kept(&part) * t / kept(&whole) - 1.0).abs() < 1e-9);
    }

    /// Work grows in proportion to the micro-batch, and context parallelism only spreads it.
    #[test]
    fn work_is_proportional_to_tokens(
        kind in prop::sample::select(vec![
            ContextKind::Ring, ContextKind::AllGather, ContextKind::Ulysses, ContextKind::TwoLevel,
        ]),
        size in prop::sample::select(vec![2u64, 4, 8]),
        micro_batch in 1u64..5,
    ) {
        let m = model("llama3-70b");
        let context = ContextSpec { size, kind, ulysses_size: Some(2), ..ContextSpec::default() };
        let flops = |micro_batch, context| {
            let p = LayerPlan::transformer(&m, &Shard { micro_batch, context, ..Shard::whole(&m) });
            LayerPlan::flops(&p.forward) + LayerPlan::flops(&p.backward)
        };
        let one = flops(1, ContextSpec::default());
        prop_assert!((flops(micro_batch, context) * size as f64 / (one * micro_batch as f64) - 1.0).abs() < 1e-12);
    }
}

/// Matrix classes multiply, the others do not; weight gradients are the products that accumulate.
#[test]
fn a_kernels_class_is_that_of_its_shape() {
    for name in ["gpt3-175b", "llama3-8b", "mixtral-8x7b", "deepseek-v3"] {
        let m = model(name);
        let plan = LayerPlan::transformer(&m, &Shard::whole(&m));
        let kernels: Vec<&Kernel> =
            plan.forward.iter().chain(&plan.backward).filter_map(Item::kernel).collect();
        assert!(kernels.iter().any(|k| k.class == KernelClass::GemmInputGrad), "{name}");
        for k in kernels {
            assert_eq!(k.class.is_matrix(), k.flops > 0.0, "{name}: {k:?}");
            let accumulates = match k.shape {
                KernelShape::Gemm { accumulate, .. } | KernelShape::GroupedGemm { accumulate, .. } => {
                    accumulate
                }
                _ => false,
            };
            let weight = [KernelClass::GemmWeightGrad, KernelClass::GroupedGemmWeightGrad].contains(&k.class);
            assert_eq!(accumulates, weight, "{name}: {k:?}");
        }
    }
}

/// Published and computed counts of every model of `tests/data/models.json`.
#[test]
fn shipped_models_have_their_published_parameters_and_flops() {
    let file: serde_json::Value =
        serde_json::from_str(include_str!("../../../tests/data/models.json")).unwrap();
    let rows = file["models"].as_array().unwrap();
    assert_eq!(rows.len(), 75);
    let mut wrong = Vec::new();
    for row in rows {
        let name = row["model"].as_str().unwrap();
        let m = model(name);
        let count = ParameterCount::of(&m);
        // The figures are those of the model without its prediction modules.
        let plain = ModelSpec { prediction_modules: 0, ..m.clone() };
        let flops = super::flops::TokenFlops::of(&plain, 4096);
        let mut check = |what: &str, got: f64, want: &str| {
            let want = row[want].as_f64().unwrap();
            if (got - want).abs() > 1e-12 * want {
                wrong.push(format!("{name}: {what}: {got} for {want}"));
            }
        };
        check("parameters", count.total() as f64, "parameters");
        check("active parameters", count.active as f64, "active");
        check("modules", count.modules as f64, "modules");
        check("matrices", flops.matrices, "forward_matrix_flops_per_token");
        check("mixing", flops.mixing, "forward_mixing_flops_per_token_at_4096");
        // Rounded totals of papers are no counts: those of model hubs are.
        let hub = row["published_in"].as_str().unwrap().starts_with("Hugging Face hub safetensors.total");
        if hub && row["published_counts"] == "total" {
            check("published", count.total() as f64, "published");
        }
        if hub && row["published_counts"] == "with modules" {
            check("published", (count.total() + count.modules) as f64, "published");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What the ranks of a whole model hold is what is counted, for every kind of layer.
#[test]
fn layers_of_every_kind_hold_what_is_counted() {
    for name in [
        "qwen3-8b",
        "qwen2.5-7b",
        "gemma-3-27b",
        "gpt-oss-120b",
        "olmo-3-32b",
        "smollm3-3b",
        "llama-4-scout",
        "glm-4.5",
        "deepseek-v3.2",
        "kimi-linear-48b-a3b",
        "qwen3-next-80b-a3b",
        "nemotron-h-8b",
        "nemotron-3-super-120b-a12b",
        "minimax-text-01",
        "jamba-v0.1",
        "granite-4.0-h-small",
        "falcon-7b",
        "bloom-176b",
        "pythia-12b",
        "grok-1",
        "gemma-4-26b-a4b",
        "glm-5",
        "ernie-4.5-21b-a3b",
        "step-3.5-flash",
        "hunyuan-a13b",
        "llama-3.2-11b-vision",
    ] {
        let m = model(name);
        let s = Shard::whole(&m);
        let layers: u64 =
            (0..m.layers).map(|l| LayerPlan::transformer(&m.layer(l), &s).parameters.total()).sum();
        let ends = LayerPlan::embedding(&m, &s).parameters.total()
            + LayerPlan::head(&m, &s, !m.tied_embeddings).parameters.total();
        assert_eq!(layers + ends + m.extra_norms * 2 * m.hidden, ParameterCount::of(&m).total(), "{name}");
        // Executed forward products are at least those of the model, and hardly more: chunks and tiles are whole.
        let sequence = 4096;
        let s = Shard { sequence, ..s };
        let mut executed = LayerPlan::flops(&LayerPlan::head(&m, &s, true).forward);
        for l in 0..m.layers {
            executed += LayerPlan::flops(&LayerPlan::transformer(&m.layer(l), &s).forward);
        }
        let flops = super::flops::TokenFlops::of(&m, sequence);
        let model_flops = sequence as f64 * (flops.matrices + flops.mixing_causal);
        let ratio = executed / model_flops;
        assert!((0.96..1.06).contains(&ratio), "{name}: {ratio}");
    }
}

/// Kernels and bytes of casts in a list.
fn cast_kernels(items: &[Item]) -> [f64; 2] {
    let casts = items.iter().filter_map(Item::kernel).filter(|k| {
        use crate::core::kernel_class::KernelClass::{Amax, Cast, CastTranspose, Transpose};
        matches!(k.class, Amax | Cast | CastTranspose | Transpose)
    });
    casts.fold([0.0; 2], |sum, kernel| [sum[0] + 1.0, sum[1] + kernel.bytes])
}

#[test]
fn recipes_cast_what_was_worked_out_apart() {
    let text = include_str!("../../../tests/data/precision.json");
    let golden: serde_json::Value = serde_json::from_str(text).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 43);
    for case in cases {
        let (name, layer) = (case["recipe"].as_str().unwrap(), case["layer"].as_str().unwrap());
        let recipe: crate::step::spec::Recipe = crate::step::spec::load(name, &[]).unwrap().value;
        let m = model(layer);
        let whole = Shard { sequence: 8192, ..Shard::whole(&m) };
        let shard = match layer {
            "llama3-8b" => whole,
            "llama3-70b" => Shard { tensor: 4, sequence_parallel: true, ..whole },
            "qwen3-30b-a3b" => Shard { expert: 8, sequence: 4096, ..whole },
            _ => Shard { expert: 64, sequence: 4096, ..whole },
        };
        let fp8 = recipe.is_narrow().then(Default::default);
        let gather = recipe.weight_gather_bytes;
        let per_step = recipe.casts.get(&CastRole::Weight).is_none_or(|w| !w.per_step.is_empty());
        let plan = LayerPlan::transformer(
            &m.layer(m.layers - 1),
            &Shard { fp8, recipe: Some(recipe), ..shard.clone() },
        );
        let [forward, backward, weights] =
            [&plan.forward, &plan.backward, &plan.weight_casts].map(|list| cast_kernels(list));
        let want = |field: &str| [0, 1].map(|i| case[field][i].as_f64().unwrap());
        let add = |a: [f64; 2], b: [f64; 2]| [a[0] + b[0], a[1] + b[1]];
        if per_step {
            assert_eq!(forward, want("forward"), "{name}, {layer}, forward");
            assert_eq!(backward, want("backward"), "{name}, {layer}, backward");
            assert_eq!(weights, want("weights"), "{name}, {layer}, weights");
        }
        // torchao casts weights at every use: in the lists of the passes.
        let all = add(add(forward, backward), weights);
        assert_eq!(all, add(add(want("forward"), want("backward")), want("weights")), "{name}, {layer}");
        let [param_gather, elements] =
            ["param_gather", "weight_elements"].map(|field| case[field].as_f64().unwrap());
        assert_eq!(gather * elements, param_gather, "{name}, {layer}");
        let gathers = [&plan.forward, &plan.backward].map(|items| {
            let of_inputs = items.iter().filter_map(Item::comm).filter(|c| c.op == CommOp::AllGather);
            of_inputs.map(|c| c.bytes as f64).sum::<f64>()
        });
        assert_eq!(gathers, want("tensor_gather"), "{name}, {layer}");
        // The golden numbers know no scores of routers, and a fp32 figure for each row of a norm.
        let (t, heads) = (shard.tokens() as f64, (m.heads + m.kv_heads()) as f64);
        let latents = if m.mla.is_some() { 2.0 } else { 0.0 };
        let of_heads = if m.attention.qk_norm == QkNorm::None { 0.0 } else { heads * t };
        let rows = (2.0 + latents) * shard.local_tokens() as f64 + of_heads;
        let saved = kept(&plan, &RecomputeSpec::default()) + 4.0 * rows;
        assert_eq!(saved / t, case["saved_per_token"].as_f64().unwrap(), "{name}, {layer}");
    }
}

/// Bytes that a layer keeps, scores of its router apart.
fn kept(plan: &LayerPlan, policy: &RecomputeSpec) -> f64 {
    let scores = plan.saved.iter().find(|s| s.name == "router scores").map_or(0.0, |s| s.bytes);
    plan.saved_bytes(policy) as f64 - scores
}

/// The kernels that DeepSeek's profile launches around the products of a layer, by class, and what the layer keeps.
#[test]
fn deepseek_casts_what_its_profile_shows() {
    let text = include_str!("../../../tests/data/precision.json");
    let golden: serde_json::Value = serde_json::from_str(text).unwrap();
    let golden = &golden["deepseek"];
    let mut workload: WorkloadSpec = crate::step::spec::load("deepseek-v3", &[]).unwrap().value;
    workload.precision.recipe = Some(crate::step::spec::workload::Reference::Inline(Box::new(
        crate::step::spec::load::<crate::step::spec::Recipe>("deepseek", &[]).unwrap().value,
    )));
    workload.expert.pad_rows_to = Some(1);
    let m = model("deepseek-v3");
    let shard = Shard::over_domains(&workload, &m, 8);
    let plan = LayerPlan::transformer(&m.layer(60), &shard);
    let repeated = plan.recompute(&workload.recompute);
    let all = [plan.forward.clone(), repeated.clone(), plan.input_grad.clone(), plan.weight_grad.clone()];
    let of = |name: &str| {
        let kernels = all.iter().flatten().filter_map(Item::kernel).filter(|k| k.name == name);
        kernels.fold([0.0; 2], |sum, k| [sum[0] + 1.0, sum[1] + k.bytes])
    };
    let wanted = |classes: &[&str]| {
        let of = |class: &&str| [0, 1].map(|i| golden["by_class"][class][i].as_f64().unwrap());
        classes.iter().map(of).fold([0.0; 2], |sum, x| [sum[0] + x[0], sum[1] + x[1]])
    };
    assert_eq!(of("cast"), wanted(&["per-token cast", "cast to 12 bit"]));
    assert_eq!(of("cast back"), wanted(&["cast back", "cast back from 12 bit"]));
    assert_eq!(of("transpose"), wanted(&["scale layout", "weight transpose"]));
    // The shared expert's activation casts and transposes in the same kernel there.
    let [kernels, bytes] = wanted(&["requantise + transpose", "cast + transpose"]);
    let apart = 4096.0 * 2048.0 * (2.0 + 1.03125);
    assert_eq!(of("cast and transpose"), [kernels + 1.0, bytes + apart]);
    let [forward, backward] = [0, 1].map(|i| golden["kernels"][i].as_f64().unwrap());
    assert_eq!(cast_kernels(&plan.forward)[0] + 2.0, forward);
    assert_eq!(all[1..].iter().map(|items| cast_kernels(items)[0]).sum::<f64>(), backward);
    // The rotated part of the keys' latent, 64 values, is not kept here.
    let saved = kept(&plan, &workload.recompute) / 4096.0 + 2.0 * 64.0;
    assert_eq!(saved, golden["saved_per_token"].as_f64().unwrap());
}

/// Megatron's experts copy their rows into padded ones and back for a narrow format, forward and backward, where every expert
/// gets a copy of a token; rows laid out by rank are padded as they are laid out.
#[test]
fn rows_are_copied_into_padded_ones() {
    use crate::step::spec::workload::{DispatcherKind, Reference};
    let copies = |recipe: Option<&str>, kind: DispatcherKind| {
        let mut workload: WorkloadSpec = crate::step::spec::load("mixtral-8x7b", &[]).unwrap().value;
        workload.precision.recipe = recipe.map(|name| {
            Reference::Inline(Box::new(
                crate::step::spec::load::<crate::step::spec::Recipe>(name, &[]).unwrap().value,
            ))
        });
        workload.expert.dispatcher = kind;
        let m = model("mixtral-8x7b");
        let plan = LayerPlan::transformer(&m.layer(0), &Shard::over_domains(&workload, &m, 8));
        let rows = |items: &[Item]| {
            let kernels = items.iter().filter_map(Item::kernel);
            kernels.filter(|k| k.name.contains("pad rows")).map(|k| k.bytes).collect::<Vec<f64>>()
        };
        [rows(&plan.forward), rows(&plan.input_grad)]
    };
    let padded = copies(Some("fp8-current"), DispatcherKind::Alltoall);
    assert!(padded.iter().all(|bytes| bytes.len() == 2), "{padded:?}");
    // Each reads and writes bf16 rows of 4,096.
    assert!(
        padded.iter().flatten().all(|bytes| *bytes > 0.0 && bytes % (2.0 * 2.0 * 4096.0) == 0.0),
        "{padded:?}"
    );
    for (recipe, kind) in [
        (None, DispatcherKind::Alltoall),
        (Some("fp8-current"), DispatcherKind::Hybridep),
        (Some("torchao-rowwise"), DispatcherKind::Alltoall),
    ] {
        assert!(copies(recipe, kind).iter().all(Vec::is_empty), "{recipe:?} {kind:?}");
    }
}

/// DeepSeek-V3's module: published with a copy of embedding and head each.
#[test]
fn prediction_modules_have_the_parameters_and_products_of_a_layer_and_a_head() {
    let (plain, with) = (model("deepseek-v3"), model("deepseek-v3-with-mtp"));
    let count = ParameterCount::of(&with);
    assert_eq!(count.total(), ParameterCount::of(&plain).total());
    let tables = 2 * with.vocabulary * with.hidden;
    assert_eq!(count.total() + count.prediction + tables, 684_489_845_504);
    let shard = Shard { expert: 1, sequence: 4096, ..Shard::whole(&with) };
    let plan = LayerPlan::prediction(&with, &shard);
    assert_eq!(plan.parameters.total(), count.prediction);
    let flops = |items: &[Item]| LayerPlan::flops(items);
    let (layer, head) =
        (LayerPlan::transformer(&with.layer(60), &shard), LayerPlan::head(&with, &shard, false));
    let join = 2.0 * 4096.0 * (2 * with.hidden * with.hidden) as f64;
    for (got, layer, head, times) in [
        (&plan.forward, &layer.forward, &head.forward, 1.0),
        (&plan.backward, &layer.backward, &head.backward, 2.0),
    ] {
        assert_eq!(flops(got), flops(layer) + flops(head) + times * join);
    }
    // As MFU counts them: three times the forward products of all tokens.
    let more = StepFlops::of(&with, 1, 4096).model_causal - StepFlops::of(&plain, 1, 4096).model_causal;
    assert!((more / (3.0 * flops(&plan.forward)) - 1.0).abs() < 0.01);
}
