use stepsim_schedule::sharding::ALL;
use stepsim_schedule::sharding::Exchange::{Gather, GatherSecondary, Sum, SumAcross, SumReplicas};

/// Ranks of each exchange among 8 that hold the same weights, in groups of 4.
#[test]
fn groups_have_the_sizes_of_theory() {
    let sizes = |name: &str| {
        let facts = ALL.iter().find(|facts| facts.name == name).expect("a kind");
        let cuts = facts.dense.ranks(4, 8);
        [Sum, SumAcross, SumReplicas, Gather, GatherSecondary].map(|exchange| {
            let (run, step) = exchange.span(&cuts, 8);
            run / step
        })
    };
    assert_eq!(sizes("none"), [8, 1, 1, 1, 1]);
    for zero in ["zero1", "zero2", "zero3", "hybrid", "mics"] {
        assert_eq!(sizes(zero), [4, 1, 2, 4, 1], "{zero}");
    }
    assert_eq!(sizes("node-gradients"), [4, 2, 1, 8, 1]);
    assert_eq!(sizes("zero-plus-plus"), [4, 2, 1, 8, 4]);
}
