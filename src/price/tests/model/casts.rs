//! Casts of precision recipes, against numbers worked out apart and a published profile.

use stepsim_price::model::*;
use stepsim_spec::model::QkNorm;
use stepsim_spec::recipe::CastRole;
use stepsim_spec::workload::{
    DispatcherKind, Dtype, Fp8Gemm, Fp8Spec, RecomputeSpec, Reference, WorkloadSpec,
};
use stepsim_spec::{Recipe, Spec, load};

use super::model;

/// A shipped file by its name.
fn shipped<T: Spec>(name: &str) -> T {
    load(name, &[]).unwrap().value
}

/// Kernels and bytes of casts in a list.
fn cast_kernels(items: &[Item]) -> [f64; 2] {
    let casts = items.iter().filter_map(Item::kernel).filter(|k| {
        use stepsim_core::kernel_class::KernelClass::{Amax, Cast, CastTranspose, Transpose};
        matches!(k.class, Amax | Cast | CastTranspose | Transpose)
    });
    casts.fold([0.0; 2], |sum, kernel| [sum[0] + 1.0, sum[1] + kernel.bytes])
}

#[test]
fn recipes_cast_what_was_worked_out_apart() {
    let text = include_str!("../../../../tests/data/precision.json");
    let golden: serde_json::Value = serde_json::from_str(text).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 43);
    for case in cases {
        let (name, layer) = (case["recipe"].as_str().unwrap(), case["layer"].as_str().unwrap());
        let recipe: Recipe = shipped(name);
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
    let text = include_str!("../../../../tests/data/precision.json");
    let golden: serde_json::Value = serde_json::from_str(text).unwrap();
    let golden = &golden["deepseek"];
    let mut workload: WorkloadSpec = shipped("deepseek-v3");
    workload.precision.recipe = Some(Reference::Inline(Box::new(shipped("deepseek"))));
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

/// Megatron's experts copy their rows into padded ones and back for a narrow format, forward and backward, where
/// every expert gets a copy of a token; rows laid out by rank are padded as they are laid out.
#[test]
fn rows_are_copied_into_padded_ones() {
    let copies = |recipe: Option<&str>, kind: DispatcherKind| {
        let mut workload: WorkloadSpec = shipped("mixtral-8x7b");
        workload.precision.recipe = recipe.map(|name| Reference::Inline(Box::new(shipped(name))));
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

/// Transformer Engine casts queries, keys and values for attention in each direction, and the gradient of its output.
#[test]
fn attention_in_eight_bits_casts_what_it_reads() {
    let m = model("llama3-8b");
    let plan = |name: &str, attention: bool| {
        let mut fp8 = Fp8Spec::default();
        fp8.gemms.extend(attention.then_some(Fp8Gemm::Attention));
        let shard = Shard { fp8: Some(fp8), recipe: Some(shipped(name)), ..Shard::whole(&m) };
        LayerPlan::transformer(&m, &shard)
    };
    let [wide, narrow] = [false, true].map(|attention| plan("mxfp8", attention));
    let more = |lists: [&[Item]; 2]| cast_kernels(lists[1])[1] - cast_kernels(lists[0])[1];
    let (read, output) = (8192.0 * 6144.0, 8192.0 * 4096.0);
    assert_eq!(more([&wide.forward, &narrow.forward]), 3.03125 * read);
    assert_eq!(more([&wide.backward, &narrow.backward]), 3.03125 * read + 4.0625 * output);
    let core = |plan: &LayerPlan| {
        let kernels = plan.backward.iter().filter_map(Item::kernel);
        let mut cores = kernels.filter(|k| k.name == "attention backward");
        cores.next().map(|k| (k.dtype, k.scaling)).unwrap()
    };
    assert_eq!(core(&wide), (Dtype::Bf16, Scaling::Tensor));
    assert_eq!(core(&narrow), (Dtype::Fp8, Scaling::Mx));
    assert_eq!(core(&plan("nvfp4", true)), (Dtype::Fp8, Scaling::Tensor));
}
