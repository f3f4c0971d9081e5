//! Eager software: what a library's kernels leave out, frozen matrices in four bits, adapters in a wider format.

use stepsim_price::model::{Item, Kernel, KernelClass, LayerPlan, Shard};
use stepsim_spec::model::ModelSpec;
use stepsim_spec::stack::FusedPart;
use stepsim_spec::workload::{AdaptedMatrix, AdapterSpec, Dtype, FrozenFormat, KernelFusion, TrainedWeights};

use super::model;

fn kernels(items: &[Item], part: &str) -> Vec<Kernel> {
    items.iter().filter_map(Item::kernel).filter(|k| k.name.starts_with(part)).copied().collect()
}
fn bytes(items: &[Item], part: &str) -> f64 {
    kernels(items, part).iter().map(|k| k.bytes).sum()
}

#[test]
fn a_librarys_kernels_move_each_element_once() {
    let m = model("llama3-8b");
    let eager = Shard { fusion: KernelFusion::None, ..Shard::whole(&m) };
    let parts = vec![FusedPart::Norm, FusedPart::Rotary, FusedPart::Activation, FusedPart::Loss];
    let plans = |shard: &Shard| [LayerPlan::transformer(&m, shard), LayerPlan::head(&m, shard, false)];
    let [layer, head] = plans(&eager);
    let [fused, fused_head] = plans(&Shard { fused: parts, ..eager });
    let elements = 8192.0 * 4096.0;
    let norms = kernels(&fused.forward, "norm");
    assert!(norms.iter().all(|k| k.tuned && k.bytes == 4.0 * elements), "{norms:?}");
    assert!(kernels(&layer.forward, "norm").iter().all(|k| !k.tuned && k.bytes > 7.0 * 4.0 * elements));
    assert_eq!(bytes(&fused.forward, "rotary") * 5.0, bytes(&layer.forward, "rotary"));
    assert_eq!(bytes(&fused.forward, "activation") * 5.0, bytes(&layer.forward, "activation") * 3.0);
    assert_eq!(bytes(&fused_head.forward, "loss"), 4.0 * 8192.0 * 128_256.0);
    assert!(bytes(&fused_head.forward, "loss") * 3.0 < bytes(&head.forward, "loss"));
    assert!(kernels(&fused_head.backward, "norm weight gradient").is_empty());
}

/// nanotron keeps what its activation makes before the product with the gate, and keys and values as the projection
/// wrote them where these are as many heads as queries are.
#[test]
fn what_runs_by_itself_keeps_what_it_makes() {
    let partial = |m: &ModelSpec| Shard { fusion: KernelFusion::Partial, ..Shard::whole(m) };
    let beside = |m: &ModelSpec| {
        let nanotron = Shard { eager: vec![FusedPart::Activation], copies_heads: true, ..partial(m) };
        let [plain, eager] = [partial(m), nanotron].map(|s| LayerPlan::transformer(m, &s).all_saved_bytes());
        eager - plain
    };
    let few = model("llama3-8b");
    let many = ModelSpec { kv_heads: Some(few.heads), ..few.clone() };
    let activation = 2 * 8192 * 14_336;
    assert_eq!([beside(&few), beside(&many)], [activation, activation + 2 * 8192 * 2 * 4096]);
}

/// Bytes a logit beside those that are saved: Megatron's 16-bit logits and their fp32 copy; two fp32 gradients of
/// PyTorch's loss.
#[test]
fn a_loss_works_in_what_its_software_copies() {
    let m = model("llama3-8b");
    let works_in = |fusion, eager: &[FusedPart]| {
        let shard = Shard { fusion, eager: eager.to_vec(), ..Shard::whole(&m) };
        LayerPlan::head(&m, &shard, true).workspace_bytes as f64 / (8192.0 * 128_256.0)
    };
    let ways = [(KernelFusion::Partial, &[][..]), (KernelFusion::None, &[FusedPart::Loss])];
    assert_eq!(ways.map(|(fusion, eager)| works_in(fusion, eager)), [6.0, 8.0]);
}

#[test]
fn frozen_matrices_in_four_bits_are_converted_back_before_both_products_that_read_them() {
    let m = model("llama3-8b");
    let trained = TrainedWeights::Adapters(AdapterSpec {
        rank: 8,
        of: Some(vec![AdaptedMatrix::Query]),
        ends: false,
        dropout: false,
        format: None,
        products: None,
    });
    let wide = Shard { trained, ..Shard::whole(&m) };
    let narrow = Shard { frozen_format: Some(FrozenFormat::Nf4), ..wide.clone() };
    let [wide, narrow] = [wide, narrow].map(|shard| LayerPlan::transformer(&m, &shard));
    let matrices = 218_103_808.0;
    assert_eq!(wide.weight_bytes(2.0).0 - narrow.weight_bytes(2.0).0, (matrices * (2.0 - 0.5625)) as u64);
    let back = |items: &[Item]| bytes(items, "frozen weights");
    for pass in [&narrow.forward, &narrow.input_grad, &narrow.backward] {
        assert_eq!(back(pass), matrices * (0.5625 + 2.0));
    }
    assert_eq!((back(&narrow.weight_grad), back(&wide.forward)), (0.0, 0.0));
}

#[test]
fn adapters_in_fp32_cast_what_goes_in_and_out() {
    let m = model("llama3-8b");
    let around = |format, products, fused: &[FusedPart]| {
        let of = Some(vec![AdaptedMatrix::Query]);
        let trained = TrainedWeights::Adapters(AdapterSpec {
            rank: 8,
            of,
            ends: false,
            dropout: false,
            format,
            products,
        });
        let shard = Shard { trained, fusion: KernelFusion::None, fused: fused.to_vec(), ..Shard::whole(&m) };
        bytes(&LayerPlan::transformer(&m, &shard).forward, "adapter chain")
    };
    let elements = 8192.0 * 4096.0;
    // Scaled and added; beside fp32 weights the input is cast to them, at 1/1.6 of the pace, and the sum back; autocast
    // casts the input back instead.
    let fp32 = Some(Dtype::Fp32);
    assert_eq!(around(None, None, &[]), 10.0 * elements);
    assert_eq!(around(fp32, fp32, &[]), (1.6 * 6.0 + 8.0 + 10.0 + 6.0) * elements);
    assert_eq!(around(fp32, None, &[]), (1.6 * 6.0 + 6.0 + 4.0 + 6.0) * elements);
    assert_eq!(around(fp32, fp32, &[FusedPart::Adapters]), 0.0);
}

/// Bytes of 16-bit elements that the experts of gpt-oss move beside their products, by Megatron's source.
#[test]
fn biases_of_experts_run_by_themselves_unless_compiled() {
    let m = model("gpt-oss-120b");
    let of = |fusion| LayerPlan::transformer(&m, &Shard { fusion, ..Shard::whole(&m) });
    let (megatron, compiled) = (of(KernelFusion::Full), of(KernelFusion::Compiled));
    let elements = 4096.0 * 4.0 * 2880.0;
    assert_eq!(bytes(&megatron.forward, "expert biases"), 28.0 * elements);
    assert_eq!(bytes(&megatron.backward, "expert biases"), 40.0 * elements);
    assert_eq!(bytes(&compiled.forward, "expert biases"), 4.0 * elements);
    assert_eq!(bytes(&megatron.forward, "clamp"), 8.0 * 2.0 * elements);
    assert_eq!(bytes(&megatron.backward, "clamp"), 15.0 * 2.0 * elements);
    assert!(kernels(&compiled.backward, "clamp").is_empty());
    assert!(
        kernels(&LayerPlan::transformer(&model("mixtral-8x7b"), &Shard::default()).forward, "expert b")
            .is_empty()
    );
}

/// Only Transformer Engine's products of experts add to the gradients of the micro-batches before.
#[test]
fn grouped_products_of_pytorch_write_gradients_anew() {
    let m = model("mixtral-8x7b");
    let weights = 3.0 * 8.0 * 4096.0 * 14_336.0;
    let moved = |fusion| {
        let plan = LayerPlan::transformer(&m, &Shard { fusion, ..Shard::whole(&m) });
        let gradients: Vec<Kernel> = plan
            .backward
            .iter()
            .filter_map(Item::kernel)
            .copied()
            .filter(|k| k.class == KernelClass::GroupedGemmWeightGrad)
            .collect();
        let sums = bytes(&plan.backward, "accumulate gradient");
        (gradients.iter().map(|k| k.bytes).sum::<f64>(), sums)
    };
    let (engine, none) = (moved(KernelFusion::Full), moved(KernelFusion::None));
    assert_eq!(engine.0 - none.0, weights * (8.0 - 2.0));
    assert_eq!(moved(KernelFusion::Compiled).0, none.0);
    assert!(none.1 >= 10.0 * weights && engine.1 == 0.0, "{none:?} {engine:?}");
}
