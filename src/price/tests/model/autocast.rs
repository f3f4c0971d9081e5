//! `torch.autocast` beside fp32 weights, and a mask that is a tensor.

use stepsim_price::model::{Item, Kernel, KernelShape, LayerPlan, Shard};
use stepsim_spec::load;
use stepsim_spec::workload::{KernelFusion, TrainedWeights, WorkloadSpec};

use super::model;

fn bytes(items: &[Item], part: &str) -> f64 {
    items.iter().filter_map(Item::kernel).filter(|k| k.name.starts_with(part)).map(|k| k.bytes).sum()
}
fn attention(items: &[Item]) -> Kernel {
    *items.iter().filter_map(Item::kernel).find(|k| k.name == "attention").expect("a fused kernel")
}

/// Residuals move 10 bytes an element for 6; every product casts its weights (6 bytes), and those behind a norm their
/// input once a matrix, back at 1/1.6 of the rate, with two sums for three matrices and one for two.
#[test]
fn autocast_keeps_the_stream_in_fp32_and_casts_around_products() {
    let m = model("llama3-8b");
    let narrow = Shard { fusion: KernelFusion::None, ..Shard::whole(&m) };
    let wide = Shard { autocast: true, ..narrow.clone() };
    let [plain, cast] = [&narrow, &wide].map(|shard| LayerPlan::transformer(&m, shard));
    let elements = 8192.0 * 4096.0;
    assert_eq!(bytes(&cast.forward, "residual") * 6.0, bytes(&plain.forward, "residual") * 10.0);
    let weights = 4096.0 * (4096.0 + 2.0 * 1024.0) + 4096.0 * 4096.0 + 3.0 * 4096.0 * 14_336.0;
    assert_eq!(bytes(&cast.forward, "cast weights"), 6.0 * weights);
    assert_eq!(bytes(&cast.forward, "cast input"), 6.0 * (3.0 + 2.0) * elements);
    let back = 1.6 * 6.0 * (3.0 + 2.0) + 12.0 * (2.0 + 1.0);
    assert!((bytes(&cast.backward, "cast and add") / (back * elements) - 1.0).abs() < 1e-9);
    assert_eq!(bytes(&cast.backward, "cast and add"), bytes(&cast.input_grad, "cast and add"));
    assert_eq!(cast.boundary_bytes, 2 * plain.boundary_bytes);
    let frozen = Shard { trained: TrainedWeights::Through, ..wide };
    assert_eq!(bytes(&LayerPlan::transformer(&m, &frozen).forward, "cast"), 0.0);
}

#[test]
fn autocast_is_where_weights_stay_fp32() {
    let autocasts = |sharding: &str, master: f64| {
        let sets = [
            "stack=hf-trainer".to_string(),
            format!("parallelism.sharding.kind={sharding}"),
            format!("precision.master_bytes_per_parameter={master}"),
        ];
        let workload: WorkloadSpec = load("llama3-8b-fsdp", &sets).unwrap_or_else(|e| panic!("{e}")).value;
        workload.autocasts()
    };
    assert!(autocasts("none", 4.0));
    assert!(!autocasts("zero3", 4.0) && !autocasts("zero2", 4.0) && !autocasts("none", 0.0));
}

/// Scores above the diagonal are computed too.
#[test]
fn a_mask_that_is_a_tensor_hides_nothing_from_the_kernel() {
    let m = model("llama3-8b");
    let causal = Shard::whole(&m);
    let tensor = Shard { mask_is_tensor: true, ..causal.clone() };
    let [causal, tensor] = [causal, tensor].map(|s| attention(&LayerPlan::transformer(&m, &s).forward));
    assert_eq!(tensor.flops, 2.0 * causal.flops);
    assert!(matches!(tensor.shape, KernelShape::Attention { causal: false, .. }));
}
