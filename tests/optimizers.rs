//! Optimizers on whole matrices: formulas against another program's, and steps that run them.

use std::path::Path;

use serde_json::Value;
use stepsim::form::compare::workload::closed_form;
use stepsim::price::model::muon::{MatrixBatch, held, kernels, owned};
use stepsim::price::model::{Shard, optimizer};
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::spec::workload::{Dtype, OptimizerKind, PrecisionSpec};
use stepsim::spec::{ModelSpec, load};

fn golden() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/optimizers.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn close(a: f64, b: &Value, what: &str) {
    let b = b.as_f64().unwrap_or_else(|| panic!("{what}: {b}"));
    assert!((a - b).abs() <= 1e-12 * b.abs(), "{what}: {a}, expected {b}");
}

/// The matrices of one layer, uncut.
fn of_layer(model: &ModelSpec, layer: u64) -> Vec<MatrixBatch> {
    held(&model.layer(layer), &Shard::whole(model))
}

#[test]
fn newton_schulz_has_the_golden_flops() {
    let golden = golden();
    for row in golden["newton_schulz_examples"].as_array().unwrap() {
        let (rows, columns) = (row["rows"].as_u64().unwrap(), row["columns"].as_u64().unwrap());
        let m = MatrixBatch { short: rows.min(columns), long: rows.max(columns), count: 1, expert: false };
        close(m.flops(), &row["full"], "one matrix");
        let products: f64 = kernels(&[m], Dtype::Bf16).iter().map(|k| k.flops).sum();
        close(products, &row["full"], "its kernels");
    }
    for (name, layer) in [("llama3-8b", 0), ("kimi-k2", 1)] {
        let case = golden["cases"].as_array().unwrap().iter().find(|c| c["shipped"] == name).unwrap();
        let model: ModelSpec = load(name, &[]).unwrap().value;
        let matrices = of_layer(&model, layer);
        close(matrices.iter().map(|m| m.elements() as f64).sum(), &case["matrix_parameters"], name);
        close(
            matrices.iter().map(|m| m.flops() * m.count as f64).sum(),
            &case["newton_schulz_5_flops"],
            name,
        );
        let sides: u64 = matrices.iter().map(|m| m.count * (m.short + m.long)).sum();
        close(4.0 * sides as f64, &case["state_bytes"]["adafactor_no_momentum"], name);
        close(
            4.0 * matrices.iter().map(|m| m.elements() as f64).sum::<f64>(),
            &case["state_bytes"]["muon_fp32"],
            name,
        );
    }
}

/// Nothing is lost among owners, and the most loaded has no more than the mean and one matrix.
#[test]
fn owners_share_whole_matrices() {
    let model: ModelSpec = load("llama3-8b", &[]).unwrap().value;
    let all: Vec<MatrixBatch> = (0..model.layers).flat_map(|l| of_layer(&model, l)).collect();
    let flops = |of: &[MatrixBatch]| of.iter().map(|m| m.flops() * m.count as f64).sum::<f64>();
    assert_eq!(flops(&owned(&all, (1, 1))), flops(&all));
    let largest = all.iter().map(MatrixBatch::flops).fold(0.0, f64::max);
    for n in [2, 8, 64, 512] {
        let most = flops(&owned(&all, (n, 1)));
        let mean = flops(&all) / f64::from(n);
        assert!(most >= mean * (1.0 - 1e-12) && most <= mean + 2.0 * largest, "{n}: {most} {mean}");
    }
}

/// State and traffic of one fused step, by golden: fp32 gradients and master weights, a bf16 copy.
#[test]
fn states_and_traffic_are_golden() {
    let golden = golden();
    let of = |kind: OptimizerKind| PrecisionSpec::default().bytes_per_parameter(kind);
    for case in golden["cases"].as_array().unwrap() {
        let (parameters, name) =
            (case["matrix_parameters"].as_u64().unwrap(), case["model"].as_str().unwrap());
        for (kind, key) in [
            (OptimizerKind::Adam, "adam_fp32"),
            (OptimizerKind::Lion, "lion_fp32"),
            (OptimizerKind::Adam8bit, "adam_8bit_block_256"),
        ] {
            close(parameters as f64 * of(kind).moments, &case["state_bytes"][key], &format!("{name} {key}"));
        }
        for (kind, key) in [
            (OptimizerKind::Adam, "adam_fp32_master_bf16_copy_fp32_gradient"),
            (OptimizerKind::Lion, "lion_fp32_master_bf16_copy_fp32_gradient"),
        ] {
            let moved = optimizer::step(parameters, &of(kind)).bytes;
            close(moved, &case["step_bytes"][key], &format!("{name} {key}"));
        }
    }
    // Two bytes and two scales of four bytes for 256 elements, read and written.
    let moved = optimizer::step(256, &of(OptimizerKind::Adam8bit)).bytes;
    assert!((moved / 256.0 - 18.0625).abs() < 1e-12, "{moved}");
}

fn step(sets: &[&str]) -> (Inputs, f64, f64) {
    let sets: Vec<String> = sets.iter().map(|s| (*s).to_string()).collect();
    let inputs = Inputs::load("gpt2-8", None, &sets).unwrap_or_else(|e| panic!("{e}"));
    let run = Simulation::run(&inputs, &Options::default()).unwrap();
    let form = closed_form(&inputs).unwrap();
    (inputs, run.speed().step_time_s, form.terms.optimizer)
}

#[test]
fn a_step_with_muon_runs_its_products_and_shares_them() {
    let muon = "optimizer.kind=muon";
    let zero1 = "parallelism.sharding.kind=zero1";
    let (_, adam, _) = step(&["parallelism.sharding.kind=none"]);
    let (inputs, whole, update) = step(&["parallelism.sharding.kind=none", muon]);
    let (_, shared, share) = step(&[zero1, muon]);
    assert!(whole > adam && shared < whole, "{adam} {whole} {shared}");
    // The products at peak are the least that the update can add.
    let all: Vec<MatrixBatch> = (0..inputs.model.layers).flat_map(|l| of_layer(&inputs.model, l)).collect();
    let flops: f64 = all.iter().map(|m| m.flops() * m.count as f64).sum();
    let least = flops / inputs.peak().0;
    assert!(whole - adam > least && whole - adam < 4.0 * least + 0.005, "{} {least}", whole - adam);
    assert!(update > least && share < update / 4.0, "{update} {share} {least}");
}

#[test]
fn state_of_optimizers_is_the_models_mean() {
    let inputs = |kind: &str| {
        let sets = ["model=llama3-8b".into(), format!("optimizer.kind={kind}")];
        Inputs::load("gpt2-8", None, &sets).unwrap_or_else(|e| panic!("{e}"))
    };
    let moments = |kind: &str| inputs(kind).workload.value.bytes_per_parameter().moments;
    assert_eq!(OptimizerKind::Adam.moments_bytes(), 8.0);
    // Llama 3 8B: 6.98 G in matrices of layers, 1.05 G in tables.
    assert!((moments("muon") - (4.0 * 6.9793 + 8.0 * 1.0507) / 8.03).abs() < 1e-3, "{}", moments("muon"));
    assert!(moments("adafactor") < 0.005, "{}", moments("adafactor"));
}
