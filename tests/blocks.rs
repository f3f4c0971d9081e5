//! Costs of single blocks of shipped models: parameters, FLOPs, states, and what forward keeps for backward.

use std::path::Path;

use serde_json::Value;
use stepsim::price::model::flops::TokenFlops;
use stepsim::price::model::{Item, KernelShape, LayerPlan, ParameterCount, Shard};
use stepsim::spec::model::{IndexerSpec, Mixer, MlpKind};
use stepsim::spec::{ModelSpec, load};

fn golden() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/blocks.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn rows<'a>(golden: &'a Value, part: &str, count: usize) -> &'a [Value] {
    let rows = golden[part].as_array().unwrap();
    assert_eq!(rows.len(), count, "{part}");
    rows
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} of {row}"))
}

fn within(a: f64, b: f64, to: f64, what: &str) {
    assert!((a - b).abs() <= to * b.abs(), "{what}: {a}, expected {b}");
}

/// A model of nothing but the layer of a case.
fn block(row: &Value) -> ModelSpec {
    let model: ModelSpec = load(row["model"].as_str().unwrap(), &[]).unwrap().value;
    let mut own = model.layer(row["layer"].as_u64().unwrap()).into_owned();
    if own.moe.is_some() {
        own.mlp = MlpKind::Experts;
    }
    own.layer_pattern.clear();
    own.layer_kinds.clear();
    ModelSpec { layers: 1, prediction_modules: 0, dropout: false, ..own }
}

fn without_mlp(block: &ModelSpec) -> ModelSpec {
    ModelSpec { mlp: MlpKind::None, moe: None, ..block.clone() }
}

fn without_mixer(block: &ModelSpec) -> ModelSpec {
    ModelSpec { mixer: Mixer::None, ..block.clone() }
}

/// Parameters of the layers of a model, norms apart, and those of them that a token does not pass.
fn parameters(model: &ModelSpec) -> (f64, f64) {
    let [one, two] = [1, 2].map(|layers| ParameterCount::of(&ModelSpec { layers, ..model.clone() }));
    let norm = (one.attention - (two.attention - one.attention)) / (1 + model.extra_norms);
    let all = two.total() - one.total() - model.norms() * norm;
    (all as f64, (one.total() - one.active) as f64)
}

/// What the golden counts have and a step runs element by element: the sum over an indexer's heads with one weight a
/// head and key, and the scan and the convolution of Mamba 1 (9 a state and 2 a tap).
fn elementwise(block: &ModelSpec, sequence: u64) -> f64 {
    let weights = |x: &IndexerSpec| x.heads as f64 * (sequence + 1) as f64;
    match &block.mixer {
        Mixer::Mamba1(x) => (x.inner * (9 * x.state + 2 * x.convolution)) as f64,
        _ => block.attention.indexer.as_ref().map_or(0.0, weights),
    }
}

/// Causal masks count by half here, with their diagonal there: one key in a sequence.
#[test]
fn blocks_have_the_golden_parameters_and_flops() {
    let golden = golden();
    for row in rows(&golden, "blocks", 17) {
        let what = format!("{} {}", row["model"], row["layer"]);
        let block = block(row);
        let (mixer, mlp) = (without_mlp(&block), without_mixer(&block));
        assert_eq!(parameters(&mixer), (number(row, "mixer"), 0.0), "{what}");
        assert_eq!(parameters(&mlp), (number(row, "mlp"), number(row, "idle")), "{what}");
        let head = 2.0 * (block.hidden * block.vocabulary) as f64;
        for (s, mixing) in row["mixing"].as_object().unwrap() {
            let s: u64 = s.parse().unwrap();
            let of = |model: &ModelSpec| TokenFlops::of(model, s);
            assert_eq!(of(&mixer).matrices - head, number(row, "mixer_matrices"), "{what}");
            // The scalar gate of a shared expert is a product there, element-wise here.
            let gate = if block.moe.as_ref().is_some_and(|moe| moe.shared_gate) {
                2.0 * block.hidden as f64
            } else {
                0.0
            };
            assert_eq!(of(&mlp).matrices - head, number(row, "mlp_matrices") - gate, "{what}");
            let products = mixing.as_f64().unwrap() - elementwise(&block, s);
            within(of(&block).mixing_causal, products, 1.01 / s as f64, &what);
        }
    }
}

/// What scans pass from chunk to chunk, in fp32.
#[test]
fn states_have_the_golden_bytes() {
    let golden = golden();
    for row in rows(&golden, "states", 4) {
        let block = block(row);
        let chunk = ModelSpec { sequence: row["chunk"].as_u64().unwrap(), ..block };
        let plan = LayerPlan::transformer(&chunk, &Shard::whole(&chunk));
        let mut passed = plan.forward.iter().filter_map(Item::kernel).filter(|k| k.name == "state passing");
        let Some(KernelShape::Elementwise { elements }) = passed.next().map(|k| k.shape) else {
            panic!("{row}: no state");
        };
        assert_eq!(4 * elements, row["bytes"].as_u64().unwrap(), "{row}");
    }
}

/// Fp32 figures of rows and choices (`apart`), under a hundredth of the rest, are not counted here.
#[test]
fn blocks_keep_the_golden_bytes() {
    let golden = golden();
    for row in rows(&golden, "saved", 11) {
        let block = block(row);
        let own = if row["part"] == "mlp" { without_mixer(&block) } else { without_mlp(&block) };
        let shard = Shard::whole(&own);
        let plan = LayerPlan::transformer(&own, &shard);
        let kept = plan.all_saved_bytes() as f64 / shard.tokens() as f64;
        let apart = number(row, "apart");
        assert!(apart < 0.01 * kept, "{row}");
        assert_eq!(kept + apart, number(row, "bytes"), "{row}: {:?}", plan.saved);
    }
}

/// A model that is counted alone: its published total is rounded, and the order of its layers is not given.
#[test]
fn nemotron_h_56b_is_the_golden_count() {
    let golden = golden();
    let row = &golden["counted_only"];
    let sets = [
        "layers=118",
        "hidden=8192",
        "heads=64",
        "ffn=32768",
        "layer_kinds.mamba.mixer.mamba2.heads=256",
        "layer_kinds.mamba.mixer.mamba2.state=256",
        r#"layer_pattern=[["attention",10],["mamba",54],["mlp",54]]"#,
    ];
    let model: ModelSpec = load("nemotron-h-8b", &sets.map(String::from)).unwrap().value;
    assert_eq!(model.layers, row["layers"].as_u64().unwrap());
    let (count, flops) = (ParameterCount::of(&model), TokenFlops::of(&model, 4096));
    assert_eq!(count.total(), row["parameters"].as_u64().unwrap());
    assert_eq!(count.total() - count.embedding, row["without_embeddings"].as_u64().unwrap());
    assert_eq!(flops.matrices, number(row, "matrices"));
    within(flops.mixing_causal, number(row, "mixing_causal"), 1.01 / 4096.0, "mixing");
    within(count.total() as f64, number(row, "published"), 0.006, "published");
}
