//! Parameters and FLOPs: published counts, papers' formulas, and the plans of layers.

use stepsim_price::model::flops::{StepFlops, TokenFlops};
use stepsim_price::model::*;
use stepsim_spec::model::{Mixer, MlpKind, ModelSpec};

use super::model;

/// A layer's forward products are the products of the weights that its mixer counts for each token, and these are
/// nearly all of its parameters. Narrow projections of gates (Kimi) are counted and not planned as products.
#[test]
fn mixers_plan_what_they_count() {
    let mut met = std::collections::BTreeSet::new();
    for name in stepsim_spec::catalog::names(stepsim_spec::Kind::Model) {
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
    // Attention, and all that have fields of their own: a model with each is shipped.
    assert_eq!(met.len(), 1 + Mixer::OWN.len(), "{met:?}");
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
        ("rwkv7-2.9b", 2_947_735_040),
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

/// Published and computed counts of every model of `tests/data/models.json`.
#[test]
fn shipped_models_have_their_published_parameters_and_flops() {
    let file: serde_json::Value =
        serde_json::from_str(include_str!("../../../../tests/data/models.json")).unwrap();
    let rows = file["models"].as_array().unwrap();
    assert_eq!(rows.len(), 92);
    let mut wrong = Vec::new();
    for row in rows {
        let name = row["model"].as_str().unwrap();
        let m = model(name);
        let count = ParameterCount::of(&m);
        // The figures describe the model without its prediction modules.
        let plain = ModelSpec { prediction_modules: 0, ..m.clone() };
        let flops = TokenFlops::of(&plain, 4096);
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
        // Rounded totals of papers are no counts; totals of model hubs are.
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

/// The ranks of a whole model hold exactly the counted parameters, for every kind of layer.
#[test]
fn layers_of_every_kind_hold_what_is_counted() {
    let rows: Vec<String> = serde_json::from_str(include_str!("parameters.json")).expect("rows");
    for name in rows {
        let m = model(&name);
        let s = Shard::whole(&m);
        let layers: u64 =
            (0..m.layers).map(|l| LayerPlan::transformer(&m.layer(l), &s).parameters.total()).sum();
        let ends = LayerPlan::embedding(&m, &s).parameters.total()
            + LayerPlan::head(&m, &s, !m.tied_embeddings).parameters.total();
        assert_eq!(layers + ends + m.extra_norms * 2 * m.hidden, ParameterCount::of(&m).total(), "{name}");
        // Executed forward products are at least the model's, and hardly more: chunks and tiles are whole.
        let sequence = 4096;
        let s = Shard { sequence, ..s };
        let mut executed = LayerPlan::flops(&LayerPlan::head(&m, &s, true).forward);
        for l in 0..m.layers {
            executed += LayerPlan::flops(&LayerPlan::transformer(&m.layer(l), &s).forward);
        }
        let flops = TokenFlops::of(&m, sequence);
        let model_flops = sequence as f64 * (flops.matrices + flops.mixing_causal);
        let ratio = executed / model_flops;
        assert!((0.96..1.06).contains(&ratio), "{name}: {ratio}");
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
