//! FLOPs of a step: formulas of papers, and what kernels execute.

use stepsim_price::model::flops::{NarrowFlops, StepFlops, TokenFlops};
use stepsim_price::model::*;
use stepsim_spec::model::AttentionKernel;
use stepsim_spec::workload::{Dtype, WorkloadSpec};

use super::model;

/// With fp8 linear layers all products with weights but the LM head's are narrow, attention where it is asked for, as
/// its mask leaves it.
#[test]
fn narrow_flops_are_those_of_linear_layers_and_of_attention_in_eight_bits() {
    let m = model("llama3-8b");
    let parts = |precision: &str| {
        let batch = r#"{"global":8,"micro_batch":1}"#;
        let text = format!(r#"{{"model":"llama3-8b","batch":{batch},"precision":{precision}}}"#);
        NarrowFlops::of(&serde_json::from_str::<WorkloadSpec>(&text).unwrap(), &m, 1).0
    };
    assert_eq!(parts("{}"), []);
    let flops = StepFlops::of(&m, 1, m.sequence);
    let head = 3.0 * m.sequence as f64 * 2.0 * (m.hidden * m.vocabulary) as f64;
    let linear = (flops.model - flops.mixing - head) / flops.model_causal;
    let is = |precision: &str, want: f64| {
        let found = parts(precision);
        let [(Dtype::Fp8, part)] = found[..] else { panic!("{precision}: {found:?}") };
        assert!((part / want - 1.0).abs() < 1e-12, "{precision}: {part} instead of {want}");
    };
    is(r#"{"fp8":{}}"#, linear);
    // A third of them are weight gradients, which a recipe may keep wide.
    is(r#"{"fp8":{"gemms":["attention"]}}"#, flops.mixing / 2.0 / flops.model_causal);
    let recipe = r#"{"dtype":"fp4","saved_bytes":1,"weight_gather_bytes":1,"pad_rows_to":1}"#;
    let four = format!(r#"{{"fp8":{{"gemms":["qkv","mlp","attention"]}},"recipe":{recipe}}}"#);
    assert_eq!(parts(&four).iter().map(|(format, _)| *format).collect::<Vec<_>>(), [Dtype::Fp8, Dtype::Fp4]);
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

/// A capacity of more than the mean drops nothing that counts, one of half of it half of what experts do.
#[test]
fn a_capacity_lets_through_what_counts() {
    let counted = |capacity: Option<f64>| {
        let mut m = model("mixtral-8x7b");
        m.moe.as_mut().unwrap().capacity_factor = capacity;
        TokenFlops::of(&m, 4096).matrices
    };
    // Two of the experts of 32 layers, three matrices each.
    let experts = 2.0 * 32.0 * 2.0 * 3.0 * 4096.0 * 14_336.0;
    assert_eq!([1.0, 1.5].map(|factor| counted(Some(factor))), [counted(None); 2]);
    assert_eq!(counted(None) - counted(Some(0.5)), experts / 2.0);
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
