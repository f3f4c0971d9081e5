//! The tensors that a layer keeps for its backward pass, and the items that it computes again.

use stepsim_price::model::*;
use stepsim_spec::workload::{Dtype, Granularity, KernelFusion, LossSpec, RecomputeModule, RecomputeSpec};

use super::{korthikanti, model, policy};

/// Only these are computed again.
fn of_modules(modules: &[RecomputeModule]) -> RecomputeSpec {
    RecomputeSpec { modules: modules.to_vec(), ..policy(Granularity::Modules) }
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
    let modules = of_modules(&[RecomputeModule::Activation, RecomputeModule::Norm]);
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
    let policy = of_modules(&[RecomputeModule::EverySecondMatrix]);
    let (hidden, tokens) = (4096.0, 8192.0);
    let (key, output, up) = (1024.0, 4096.0, 14336.0);
    assert_eq!(LayerPlan::flops(&plan.recompute(&policy)), 2.0 * tokens * hidden * (key + output + up));
    let less = plan.all_saved_bytes() - plan.saved_bytes(&policy);
    assert_eq!(less as f64, 2.0 * tokens * (key + up));
}

/// With neither core nor projection kept, a layer keeps its input, queries, keys and values, and the norm's
/// statistics are made again.
#[test]
fn without_its_projection_a_layer_keeps_its_input_queries_keys_and_values() {
    let m = model("llama3-8b");
    let plan = LayerPlan::transformer(&m, &Shard::whole(&m));
    let kept = |modules: &[RecomputeModule]| {
        let policy = of_modules(modules);
        (plan.saved_bytes(&policy) as f64, LayerPlan::flops(&plan.recompute(&policy)))
    };
    let (hidden, key, tokens) = (4096.0, 1024.0, 8192.0);
    let rest = [RecomputeModule::Norm, RecomputeModule::AttentionCore, RecomputeModule::Mlp];
    let (with, flops) = kept(&rest);
    let (without, more) = kept(&[&rest[..], &[RecomputeModule::Projection]].concat());
    // The core's output, and the residual behind the projection.
    assert_eq!(with - without, 2.0 * tokens * 2.0 * hidden);
    assert!((without / (2.0 * tokens * (2.0 * hidden + 2.0 * key)) - 1.0).abs() < 0.01, "{without}");
    assert_eq!(more - flops, 2.0 * tokens * hidden * hidden);
}

/// Operation by operation, the product of a gated MLP keeps what the function made of the gate.
#[test]
fn an_unfused_gate_is_kept_once_more() {
    let m = model("llama3-8b");
    let saved = |fusion| {
        let shard = Shard { fusion, ..Shard::whole(&m) };
        LayerPlan::transformer(&m, &shard).all_saved_bytes()
    };
    assert_eq!(saved(KernelFusion::None) - saved(KernelFusion::Compiled), 2 * 8192 * 14336);
}

/// Two products of a layer, and the head, read a gathered sequence: kept, it is there in full and is not gathered
/// again.
#[test]
fn a_gathered_input_that_is_kept_is_not_gathered_again() {
    let m = model("llama3-8b");
    let sp = Shard { tensor: 4, sequence_parallel: true, ..Shard::whole(&m) };
    let keeps = Shard { keep_gathered: true, ..sp.clone() };
    let (cut, whole) = (LayerPlan::transformer(&m, &sp), LayerPlan::transformer(&m, &keeps));
    assert_eq!(whole.all_saved_bytes() - cut.all_saved_bytes(), 2 * (2 * 8192 * 4096) * 3 / 4);
    let gathers = |plan: &LayerPlan| {
        plan.backward.iter().filter_map(Item::comm).filter(|c| c.name.contains("saved")).count()
    };
    assert_eq!((gathers(&cut), gathers(&whole)), (2, 0));
}

/// Where checkpoints stop early, all but the MLP's last product is computed again.
#[test]
fn what_stops_early_leaves_out_the_last_product() {
    let m = model("llama3-8b");
    let whole = Shard::whole(&m);
    let early = Shard { stops_early: true, ..whole.clone() };
    let again = |shard: &Shard, policy: &RecomputeSpec| {
        LayerPlan::flops(&LayerPlan::transformer(&m, shard).recompute(policy))
    };
    let down = 2.0 * (m.sequence * m.ffn * m.hidden) as f64;
    for policy in [policy(Granularity::Full), of_modules(&[RecomputeModule::Mlp])] {
        assert_eq!(again(&whole, &policy) - again(&early, &policy), down);
    }
    let norms = of_modules(&[RecomputeModule::Norm, RecomputeModule::AttentionCore]);
    assert_eq!(again(&whole, &norms), again(&early, &norms));
}

/// Beside the gradients, a sum and a gather of tensor-parallel ranks stand next to what hides them; where they are
/// waited for, the same messages follow the products.
#[test]
fn what_waits_for_tensor_parallel_ranks_hides_nothing() {
    let m = model("llama3-8b");
    let beside = Shard { tensor: 4, sequence_parallel: true, ..Shard::whole(&m) };
    let waits = Shard { waits_for_tensor: true, ..beside.clone() };
    let backward = |shard: &Shard| LayerPlan::transformer(&m, shard).backward;
    let (beside, waits) = (backward(&beside), backward(&waits));
    let hidden = |items: &[Item]| items.iter().filter_map(Item::comm).filter(|c| c.hidden_behind > 0).count();
    assert_eq!((hidden(&beside), hidden(&waits)), (4, 0));
    let sent = |items: &[Item]| items.iter().filter_map(Item::comm).map(|c| c.bytes).sum::<u64>();
    assert_eq!((sent(&beside), beside.len()), (sent(&waits), waits.len()));
    let sums = waits.windows(2).filter(|pair| {
        let sums = pair[1].comm().is_some_and(|c| c.name == "reduce-scatter input gradient");
        sums && pair[0].kernel().is_some_and(|k| k.class == KernelClass::GemmWeightGrad)
    });
    assert_eq!(sums.count(), 2);
}

/// Logits in the format of activations are the product's output; tiles are made twice, one at a time.
#[test]
fn logits_are_kept_in_their_format_or_made_again_in_tiles() {
    let m = model("llama3-8b");
    let head = |loss| LayerPlan::head(&m, &Shard { loss, ..Shard::whole(&m) }, true);
    let logits = 8192 * 128_256;
    let wide = head(LossSpec::default());
    let narrow = head(LossSpec { logits: Dtype::Bf16, tiles: 1 });
    let tiled = head(LossSpec { logits: Dtype::Bf16, tiles: 16 });
    assert_eq!(wide.all_saved_bytes() - narrow.all_saved_bytes(), 2 * logits);
    assert_eq!(narrow.all_saved_bytes() - tiled.all_saved_bytes(), 2 * logits);
    let input = 2 * 8192 * 4096;
    assert_eq!((wide.workspace_bytes, narrow.workspace_bytes), (2 * logits + input, input));
    assert_eq!(tiled.workspace_bytes, 2 * logits / 16 + input);
    let product = 2.0 * logits as f64 * 4096.0;
    assert_eq!(LayerPlan::flops(&narrow.backward), 2.0 * product);
    assert_eq!(LayerPlan::flops(&tiled.backward), 3.0 * product);
}
