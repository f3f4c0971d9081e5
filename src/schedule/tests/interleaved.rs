use stepsim_schedule::{InterleavedOneFOneB, Schedule, Shape};

#[test]
fn a_short_last_group_is_refused_with_numbers_that_run() {
    let error = InterleavedOneFOneB.order(&Shape::new(4, 6)).unwrap_err().to_string();
    assert_eq!(
        error,
        "schedule interleaved-1f1b: with 6 micro-batches in groups of 4, the last group has 2, fewer than the 4 \
         stages; 6 micro-batches run in groups of 6; groups of 4 run with 4 or 8 micro-batches"
    );
    let error = InterleavedOneFOneB.order(&Shape::new(4, 2)).unwrap_err().to_string();
    assert_eq!(
        error,
        "schedule interleaved-1f1b: 2 micro-batches do not fill one group of 4; groups of 4 run with 4 \
         micro-batches"
    );
}
