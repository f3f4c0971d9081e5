use stepsim_measure::score::ranges::three_unlike;

#[test]
fn the_best_comes_first_and_kinds_before_costs() {
    let candidates = [("a", 2.0), ("a", 1.0), ("b", 4.0), ("a", 1.5), ("c", 3.0), ("d", 5.0)];
    assert_eq!(three_unlike(&candidates), [1, 4, 2]);
    assert_eq!(three_unlike(&candidates[..4]), [1, 2, 3], "two kinds: then the next by cost");
    assert!(three_unlike::<&str>(&[]).is_empty());
}
