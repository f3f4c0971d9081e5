//! Layers that attend to images (Llama 3.2 Vision), held to numbers worked out by hand, to their closed form, and to
//! what they must say.
//!
//! The model of 11 B: h = 4,096, f = 14,336, 32 heads, 8 of keys and values of 128; an image is 4 tiles of 1,601
//! tokens, 6,404.

use serde_json::{Value, json};
use stepsim::price::model::flops::StepFlops;
use stepsim::price::model::{Item, LayerPlan, ModuleShard, Shard, trained_parameters};

use crate::modules::{extended, inputs, report, sent};

/// Sequences of 4,096 tokens with two images each, on eight devices.
fn step(usage: &Value, parallelism: &Value) -> Value {
    let module = extended(&json!({"items": 2}), usage);
    json!({
        "topology": "h100-superpod-8", "model": "llama-3.2-11b-vision", "sequence": 4096,
        "batch": {"global": 8, "micro_batch": 1}, "recompute": {"granularity": "full"},
        "parallelism": parallelism, "modules": {"vision": module},
    })
}

/// The same without images.
fn text_alone(parallelism: &Value) -> Value {
    let mut step = step(&json!({}), parallelism);
    step.as_object_mut().expect("a step").shift_remove("modules");
    step
}

/// Layer 3, as the first of its stage that reads images or not.
fn cross_layer(step: &Value, keeps_images: bool) -> LayerPlan {
    let inputs = inputs(step);
    let shard = Shard { keeps_images, ..Shard::new(&inputs.workload.value, &inputs.model) };
    LayerPlan::transformer(&inputs.model.layer(3), &shard)
}

fn flops(plan: &LayerPlan) -> [f64; 2] {
    [&plan.forward, &plan.backward].map(|items| LayerPlan::flops(items))
}

/// t = 4,096 tokens, n = 12,808 image tokens. Products: 2·t·(2h² + 3hf) of the sequence, 2·n·h·2·1,024 of the images;
/// attention: 4·t·n·h. Kept in 16 bits: nine tensors of t·h (two inputs of norms, of queries and of the MLP, queries
/// before their norm and behind, the output of attention, the two that gates scale), three of n · 1,024 (keys before
/// their norm and behind, values), three of t·f, and 4 bytes a token and head of the softmax; n·h of image tokens
/// once a stage.
#[test]
fn a_layer_by_hand() {
    let (t, n, h, f) = (4096_u64, 12_808_u64, 4096_u64, 14_336_u64);
    let of_text = (2 * t * (2 * h * h + 3 * h * f)) as f64;
    let (of_images, attention) = ((2 * n * h * 2048) as f64, (4 * t * n * h) as f64);
    let step = step(&json!({}), &json!({"data": 8}));
    let layer = cross_layer(&step, false);
    assert_eq!(flops(&layer)[0], of_text + of_images + attention);
    assert_eq!(flops(&layer)[1], 2.0 * (of_text + of_images) + 2.5 * attention);
    assert_eq!(layer.parameters.total(), 218_112_258);
    let kept = 2 * (9 * t * h + 3 * n * 1024 + 3 * t * f) + 4 * 32 * t;
    assert_eq!(layer.all_saved_bytes(), kept);
    let first = cross_layer(&step, true);
    assert_eq!(first.all_saved_bytes(), kept + 2 * n * h);
    assert_eq!([layer.boundary_bytes, first.boundary_bytes], [2 * t * h, 2 * t * h + 2 * n * h]);
    assert_eq!([layer.image_bytes, first.image_bytes], [2 * n * h; 2]);
}

/// Image tokens of a frozen encoder need no gradient: keys and values have gradients of their weights alone.
#[test]
fn frozen_images_need_no_gradient() {
    let [all, nothing] = ["all", "nothing"]
        .map(|trained| cross_layer(&step(&json!({"trained": trained}), &json!({"data": 8})), false));
    assert_eq!(flops(&all)[1] - flops(&nothing)[1], (2_u64 * 12_808 * 4096 * 2048) as f64);
    let sums = |plan: &LayerPlan| {
        let names = plan.backward.iter().filter_map(Item::kernel).map(|k| k.name);
        names.filter(|name| *name == "add image token gradients").count()
    };
    assert_eq!([sums(&all), sums(&nothing)], [1, 0]);
}

/// The encoder: 4 tiles of 1,601 positions are padded to 6,432; width 1,280, f = 5,120. A layer: 2·p·(4h² + 2hf) +
/// 4p²h. Its projector reads 6,432 positions of six layers, and brings 6,404 of them from 7,680 to 4,096.
#[test]
fn the_encoder_by_hand() {
    let step = step(&json!({"items": 1}), &json!({"data": 8}));
    let inputs = inputs(&step);
    let workload = &inputs.workload.value;
    let module = workload.used_modules(&inputs.model)[0];
    let shard = ModuleShard::new(workload, &inputs.model, module, None);
    let (p, h, f) = (6432_u64, 1280_u64, 5120_u64);
    let layer = (2 * p * (4 * h * h + 2 * h * f) + 4 * p * p * h) as f64;
    let [local, global] = [0, 39].map(|number| shard.layer(number));
    assert_eq!([flops(&local)[0], flops(&global)[0]], [layer; 2]);
    assert_eq!([local.parameters.total(), global.parameters.total()], [19_672_320, 19_672_322]);
    let projector = shard.projector();
    assert_eq!(flops(&projector)[0], (2_u64 * 6404 * 7680 * 4096) as f64);
    let merge = projector.forward.iter().filter_map(Item::kernel).find(|k| k.name == "merge").expect("one");
    assert_eq!(merge.bytes, (2 * (6432 * 7680 + 6404 * 7680)) as f64);
    // MFU counts no padding.
    let (p, input) = (6404_u64, 2 * 6400 * 588 * 1280);
    let counted =
        3 * 40 * (2 * p * (4 * h * h + 2 * h * f) + 4 * p * p * h) + 3 * 2 * p * 7680 * 4096 + 2 * input;
    assert_eq!(StepFlops::of_modules(workload, &inputs.model, 1).model, counted as f64);
}

/// Ten layers to a stage, two of them with images: 4,096 and 12,808 rows of 4,096 in 16 bits cross each border, and
/// come back as gradients; of a frozen encoder the image tokens do not. Tensor-parallel ranks have the same image
/// tokens, and cut the sequence or not.
#[test]
fn image_tokens_cross_borders_with_the_sequence() {
    let (text, images) = (f64::from(4096 * 4096 * 2), f64::from(12_808 * 4096 * 2));
    let of = |usage: Value, more: Value| {
        let parallelism = extended(&json!({"tensor": 2, "pipeline": {"size": 4}}), &more);
        step(&usage, &parallelism)
    };
    let whole = of(json!({}), json!({}));
    assert_eq!(sent(&whole, "send activations"), [text + images; 3]);
    assert_eq!(sent(&whole, "send gradients"), [text + images; 3]);
    let frozen = of(json!({"trained": "nothing"}), json!({}));
    assert_eq!(sent(&frozen, "send activations"), [text + images; 3]);
    assert_eq!(sent(&frozen, "send gradients"), [text; 3]);
    let cut = of(json!({}), json!({"sequence_parallel": true}));
    assert_eq!(sent(&cut, "send activations"), [text / 2.0 + images; 3]);
    // The last stage has no layer that reads them.
    let mut short = whole.clone();
    short["parallelism"]["pipeline"]["layer_split"] = json!([10, 10, 19, 1]);
    assert_eq!(sent(&short, "send activations"), [text + images, text + images, text]);
    // Gradients of image tokens are summed over tensor-parallel ranks, layer by layer, and need no gathering.
    assert!(sent(&cut, "vision all-gather token gradients").is_empty());
}

/// Without images the layers that read them are left out: their weights are held, and nothing of them is computed or
/// trained.
#[test]
fn text_alone_leaves_the_layers_out() {
    let parallelism = json!({"tensor": 2, "pipeline": {"size": 4}, "sharding": {"kind": "zero1"}});
    let text = text_alone(&parallelism);
    let inputs = inputs(&text);
    let (model, workload) = (&inputs.model, &inputs.workload.value);
    assert_eq!(trained_parameters(model, workload), 9_775_192_080 - 8 * 218_112_258);
    let plan = inputs.plan().expect("its plan");
    let names = plan.world.programs().iter().flat_map(|p| &p.infos).map(|info| info.name.to_string());
    assert!(names.into_iter().all(|name| !name.starts_with("image")));
    // 32 layers of the text model and its head: products of 2h² + 2·1,024h + 3hf and attention in full.
    let layer = 2 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 4096 * 14_336_u64) + 4 * 4096 * 4096;
    let expected = 3 * 8 * 4096 * (32 * layer + 2 * 4096 * 128_256);
    assert_eq!(plan.model_flops.model, expected as f64);
    let [alone, with] = [&text, &step(&json!({}), &parallelism)].map(report);
    assert!(alone.step_time_s < with.step_time_s);
    assert!(alone.memory["hbm"].by_class["optimizer"] < with.memory["hbm"].by_class["optimizer"]);
}

/// A frozen language model with trained layers that read images, and their encoder's projector: the usual way to
/// train one. Layers below the first of them pass gradients to the projector; without a trained module they run
/// forward alone.
#[test]
fn layers_that_read_images_are_trained_in_a_frozen_model() {
    let mut step = step(&json!({"trained": "projector"}), &json!({"tensor": 8}));
    step["training"] = json!({"kinds": ["cross"]});
    let trained = |step: &Value| {
        let inputs = inputs(step);
        trained_parameters(&inputs.model, &inputs.workload.value)
    };
    assert_eq!(trained(&step), 8 * 218_112_258 + 31_461_376);
    let both = report(&step);
    assert!(both.hfu_causal >= both.mfu_causal * (1.0 - 1e-9));
    step["modules"]["vision"]["trained"] = "nothing".into();
    assert_eq!(trained(&step), 8 * 218_112_258);
    let alone = report(&step);
    assert!(alone.step_time_s < both.step_time_s);
}
