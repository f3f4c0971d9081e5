//! Layers cut among ranks: messages, and conservation of work and bytes.

use proptest::prelude::*;
use stepsim_price::model::*;
use stepsim_spec::workload::{ContextKind, ContextSpec};

use super::{korthikanti, model};

#[test]
fn tensor_parallel_messages_are_megatrons() {
    let (m, sp) = korthikanti();
    let sbh2 = 2048 * 12288 * 2;
    let count = |items: &[Item], op| {
        items.iter().filter_map(Item::comm).filter(|c| c.op == op && c.bytes == sbh2).count()
    };
    let plan = LayerPlan::transformer(&m, &sp);
    assert_eq!(
        (count(&plan.forward, CommOp::AllGather), count(&plan.forward, CommOp::ReduceScatter)),
        (2, 2)
    );
    assert_eq!(
        (count(&plan.backward, CommOp::AllGather), count(&plan.backward, CommOp::ReduceScatter)),
        (4, 2)
    );
    assert_eq!(count(&plan.input_grad, CommOp::AllGather) + count(&plan.weight_grad, CommOp::AllGather), 4);
    let tp = LayerPlan::transformer(&m, &Shard { sequence_parallel: false, ..sp });
    assert_eq!((count(&tp.forward, CommOp::AllReduce), count(&tp.backward, CommOp::AllReduce)), (2, 2));
}

#[test]
fn a_ring_with_zigzag_gives_every_step_the_same_work() {
    let m = model("llama3-70b");
    let context = ContextSpec { size: 4, kind: ContextKind::Ring, zigzag: true, ..ContextSpec::default() };
    let plan = LayerPlan::transformer(&m, &Shard { context, ..Shard::whole(&m) });
    let attention: Vec<f64> = plan
        .forward
        .iter()
        .filter_map(Item::kernel)
        .filter(|k| k.name == "attention")
        .map(|k| k.flops)
        .collect();
    assert_eq!(attention.len(), 4);
    assert!(attention.iter().all(|f| *f == attention[0]), "{attention:?}");
    // Each step sends keys and values of a quarter of the sequence: 2·(s/4)·8·128 elements of 2 bytes.
    let sends: Vec<u64> = plan.forward.iter().filter_map(Item::comm).map(|c| c.bytes).collect();
    assert_eq!(sends, [2 * 2048 * 8 * 128 * 2; 3]);
    let back: Vec<u64> = plan.backward.iter().filter_map(Item::comm).map(|c| c.bytes).collect();
    let block = 2 * 2048 * 8 * 128 * 2;
    assert_eq!(back, [block, 2 * block, 2 * block, block, block]);
}

#[test]
fn expert_messages_are_the_tokens_times_top_k() {
    let m = model("deepseek-v3");
    let s = Shard { expert: 64, ..Shard::whole(&m) };
    let plan = LayerPlan::transformer(&m, &s);
    let swaps: Vec<u64> = plan.forward.iter().filter_map(Item::comm).map(|c| c.bytes).collect();
    assert_eq!(swaps, [4096 * 8 * 7168 * 2; 2]);
    assert_eq!(plan.parameters.expert, 4 * 3 * 7168 * 2048);
    let full = LayerPlan::transformer(&m, &Shard { expert_load: 1.5, ..s.clone() });
    let rows = |p: &LayerPlan| -> f64 {
        p.forward.iter().filter_map(Item::kernel).filter(|k| k.name == "expert up").map(|k| k.flops).sum()
    };
    assert!((rows(&full) / rows(&plan) - 1.5).abs() < 1e-12);
    let mut capped = m.clone();
    capped.moe.as_mut().unwrap().capacity_factor = Some(1.25);
    let capped = LayerPlan::transformer(&capped, &Shard { expert_load: 1.5, ..s });
    assert!((rows(&capped) / rows(&plan) - 1.25).abs() < 1e-12);
}

/// Rows of each expert are padded by (a − 1)/2 in the mean: four experts, 32,768 rows in all.
#[test]
fn rows_of_experts_are_padded_by_half_of_what_they_are_padded_to() {
    let m = model("deepseek-v3");
    let s = Shard { expert: 64, ..Shard::whole(&m) };
    let rows = |pad_rows_to| {
        let plan = LayerPlan::transformer(&m, &Shard { pad_rows_to, ..s.clone() });
        let experts = plan.forward.iter().chain(&plan.backward).filter_map(Item::kernel);
        experts.filter(|k| k.name.starts_with("expert ")).map(|k| k.flops).sum::<f64>()
    };
    for (pad_rows_to, padding) in [(1, 0.0), (16, 30.0), (128, 254.0)] {
        let (got, want) = (rows(pad_rows_to) / rows(0), 1.0 + padding / (4096.0 * 8.0));
        assert!((got / want - 1.0).abs() < 1e-12, "{pad_rows_to}: {got} is not {want}");
    }
}

/// What stands between tensor-parallel parts works on all tokens, and on a share of them where the sequence is cut.
#[test]
fn norms_work_on_their_ranks_tokens() {
    for name in ["gpt3-175b", "llama3-70b", "deepseek-v3"] {
        let m = model(name);
        let bytes = |tensor, sequence_parallel| {
            let plan = LayerPlan::transformer(&m, &Shard { tensor, sequence_parallel, ..Shard::whole(&m) });
            let norms = plan.forward.iter().chain(&plan.backward).filter_map(Item::kernel);
            norms.filter(|k| k.name == "norm backward").map(|k| k.bytes).sum::<f64>()
        };
        assert!(bytes(1, false) > 0.0, "{name}");
        assert_eq!(bytes(8, false), bytes(1, false), "{name}");
        assert!((bytes(8, true) * 8.0 / bytes(1, false) - 1.0).abs() < 0.01, "{name}");
    }
}

proptest! {
    /// All ranks of a tensor-parallel group together hold, keep and execute what one device would.
    #[test]
    fn tensor_parallel_shares_sum_to_the_whole(
        name in prop::sample::select(vec!["gpt3-175b", "llama3-70b", "megatron-22b"]),
        tensor in prop::sample::select(vec![2u64, 4, 8]),
        micro_batch in 1u64..4,
    ) {
        let m = model(name);
        let one = Shard { micro_batch, ..Shard::whole(&m) };
        let cut = Shard { tensor, sequence_parallel: true, ..one.clone() };
        let (whole, part) = (LayerPlan::transformer(&m, &one), LayerPlan::transformer(&m, &cut));
        let t = tensor as f64;
        for pick in [|p: &LayerPlan| LayerPlan::flops(&p.forward), |p: &LayerPlan| LayerPlan::flops(&p.backward)] {
            prop_assert!((pick(&part) * t / pick(&whole) - 1.0).abs() < 1e-12);
        }
        let kept = |p: &LayerPlan| p.all_saved_bytes() as f64;
        prop_assert!((kept(&part) * t / kept(&whole) - 1.0).abs() < 1e-9);
    }

    /// Work grows in proportion to the micro-batch, and context parallelism only spreads it.
    #[test]
    fn work_is_proportional_to_tokens(
        kind in prop::sample::select(vec![
            ContextKind::Ring, ContextKind::AllGather, ContextKind::Ulysses, ContextKind::TwoLevel,
        ]),
        size in prop::sample::select(vec![2u64, 4, 8]),
        micro_batch in 1u64..5,
    ) {
        let m = model("llama3-70b");
        let context = ContextSpec { size, kind, ulysses_size: Some(2), ..ContextSpec::default() };
        let flops = |micro_batch, context| {
            let p = LayerPlan::transformer(&m, &Shard { micro_batch, context, ..Shard::whole(&m) });
            LayerPlan::flops(&p.forward) + LayerPlan::flops(&p.backward)
        };
        let one = flops(1, ContextSpec::default());
        prop_assert!((flops(micro_batch, context) * size as f64 / (one * micro_batch as f64) - 1.0).abs() < 1e-12);
    }
}
