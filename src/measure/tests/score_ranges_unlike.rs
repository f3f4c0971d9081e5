use stepsim_measure::score::ranges::three_unlike;

#[test]
fn the_first_stays_first_and_kinds_come_before_their_likes() {
    assert_eq!(three_unlike(&["a", "a", "c", "b", "d"]), [0, 2, 3]);
    assert_eq!(three_unlike(&["a", "a", "b", "a"]), [0, 2, 1], "two kinds: then the next");
    assert!(three_unlike::<&str>(&[]).is_empty());
}
