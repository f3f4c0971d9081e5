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
    let plan = LayerPlan::prediction(&with, &shard, false);
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
