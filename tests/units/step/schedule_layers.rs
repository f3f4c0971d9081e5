use stepsim::step::schedule::*;

fn counts(layers: u32, stages: u32, rule: LayerSplit) -> Vec<u32> {
    let ranges = split_layers(layers, stages, &rule).unwrap();
    assert_eq!(ranges.first().unwrap().start, 0);
    assert_eq!(ranges.last().unwrap().end, layers);
    assert!(ranges.windows(2).all(|w| w[0].end == w[1].start));
    ranges.iter().map(|r| r.end - r.start).collect()
}

#[test]
fn the_remainder_goes_where_the_rule_says() {
    assert_eq!(counts(8, 4, LayerSplit::Even), [2, 2, 2, 2]);
    assert_eq!(counts(61, 16, LayerSplit::RemainderFirst)[12..], [4, 3, 3, 3]);
    assert_eq!(counts(10, 4, LayerSplit::RemainderMiddle), [2, 3, 3, 2]);
    assert_eq!(counts(11, 4, LayerSplit::RemainderMiddle), [3, 3, 3, 2]);
    assert_eq!(counts(3, 5, LayerSplit::RemainderMiddle), [0, 1, 1, 1, 0]);
    assert_eq!(counts(126, 16, LayerSplit::Fewer { first: 1, last: 1 })[..2], [7, 8]);
    assert_eq!(counts(2, 2, LayerSplit::Fewer { first: 2, last: 0 }), [0, 2]);
    assert_eq!(counts(2, 2, LayerSplit::Fewer { first: 0, last: 2 }), [2, 0]);
    assert_eq!(counts(1, 1, LayerSplit::Fewer { first: 1, last: 1 }), [1]);
    assert_eq!(counts(5, 3, LayerSplit::Explicit(vec![1, 3, 1])), [1, 3, 1]);
}

#[test]
fn impossible_splits_say_what_would_do() {
    let error = |rule| split_layers(10, 4, &rule).unwrap_err().to_string();
    assert_eq!(
        error(LayerSplit::Even),
        "10 layers over 4 stages: no even split; 8 or 12 layers would do, or a split with a remainder"
    );
    assert_eq!(
        error(LayerSplit::Explicit(vec![5, 4])),
        "10 layers over 4 stages: the list has 2 stages with 9 layers in all"
    );
    assert_eq!(
        error(LayerSplit::Fewer { first: 1, last: 0 }),
        "10 layers over 4 stages: with 1 fewer on the first and 0 fewer on the last stage, 11 would have to be a \
         multiple of 4"
    );
    assert_eq!(
        split_layers(1, 2, &LayerSplit::Fewer { first: 3, last: 0 }).unwrap_err().to_string(),
        "1 layers over 2 stages: 3 fewer on the first or 0 fewer on the last stage leave less than none of 2"
    );
}
