//! What a layer keeps for its backward pass, and what it computes again.

use super::super::*;
use super::{korthikanti, model, policy};
use crate::step::spec::workload::{Granularity, RecomputeModule, RecomputeSpec};

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
    let modules = RecomputeSpec {
        granularity: Granularity::Modules,
        modules: vec![RecomputeModule::Activation, RecomputeModule::Norm],
        ..RecomputeSpec::default()
    };
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
    let policy = RecomputeSpec {
        granularity: Granularity::Modules,
        modules: vec![RecomputeModule::EverySecondMatrix],
        ..RecomputeSpec::default()
    };
    let (hidden, tokens) = (4096.0, 8192.0);
    let (key, output, up) = (1024.0, 4096.0, 14336.0);
    assert_eq!(LayerPlan::flops(&plan.recompute(&policy)), 2.0 * tokens * hidden * (key + output + up));
    let less = plan.all_saved_bytes() - plan.saved_bytes(&policy);
    assert_eq!(less as f64, 2.0 * tokens * (key + up));
}
