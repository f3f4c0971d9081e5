use stepsim_price::documents::*;

/// Two samples of 4,096 tokens and six of 1,024 on eight ranks with room for 1,024 each; cost is length. All ask
/// for 14,336, a rank for 1,792: the long ones take four ranks each for 1,024, the short ones a rank each.
#[test]
fn two_long_and_six_short_samples_on_eight_ranks() {
    let room = Room { ranks: 8, tokens_per_rank: 1024, multiple: 16 };
    let lengths = [1024, 4096, 1024, 1024, 1020, 1024, 4096, 1024];
    let schedule = DynamicContext::new(&lengths, room, u128::from);
    let pass = |degree, samples: &[u64]| PackedPass { degree, samples: samples.to_vec() };
    let long = pass(4, &[4096]);
    let short = pass(1, &[1024]);
    let want: Vec<(u64, PackedPass)> = [(0, &long), (4, &long)]
        .into_iter()
        .chain((0..6).map(|rank| (rank, &short)))
        .map(|(first, pass)| (first, pass.clone()))
        .collect();
    assert_eq!(schedule.passes, want);
    assert_eq!(schedule.loads, [2048, 2048, 2048, 2048, 2048, 2048, 1024, 1024]);
    assert_eq!((schedule.tokens, schedule.padded()), (14_332, 14_336));
    assert_eq!(schedule.of_rank(5).collect::<Vec<_>>(), [&long, &short]);
    assert_eq!(schedule.by_degree()[&1], OfDegree { samples: 6, passes: 6, tokens: 6144 });
    assert_eq!(schedule.max_over_mean(), 2048.0 / 1792.0);
    // Each of four ranks gets 4,096 tokens of a long sample: (2 · 4 · 4,096 + 6 · 1,024) / 8.
    assert_eq!(schedule.received(), 4864);
}

/// A sample that holds all there is to do gets all ranks, however short it is; many short ones share a pass.
#[test]
fn no_rank_is_idle_and_short_samples_share_a_pass() {
    let room = Room { ranks: 8, tokens_per_rank: 1024, multiple: 16 };
    let one = DynamicContext::new(&[100], room, u128::from);
    assert_eq!(one.passes, [(0, PackedPass { degree: 8, samples: vec![112] })]);
    let many = DynamicContext::new(&[64; 256], room, u128::from);
    assert_eq!(many.passes.len(), 16, "each rank has 2,048 tokens in two passes");
    assert!(many.loads.iter().all(|load| *load == 2048));
}
