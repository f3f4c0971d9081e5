use stepsim_read::analysis::slow_ranks::*;

#[test]
fn ranks_are_told_in_stretches() {
    assert_eq!(in_words(&[5]), "rank 5");
    assert_eq!(in_words(&[0, 1, 2, 3]), "ranks 0–3");
    assert_eq!(in_words(&[0, 2, 3, 7, 9, 10]), "ranks 0, 2–3, 7 and 2 more");
}
