use stepsim_schedule::*;

fn counts(layers: u32, stages: u32, rule: LayerSplit) -> Vec<u32> {
    let ranges = split_layers(layers, stages, &rule).unwrap();
    assert_eq!(ranges.first().unwrap().start, 0);
    assert_eq!(ranges.last().unwrap().end, layers);
    assert!(ranges.windows(2).all(|w| w[0].end == w[1].start));
    ranges.iter().map(|r| r.end - r.start).collect()
}

#[test]
fn the_remainder_goes_where_the_rule_says() {
    assert_eq!(counts(10, 4, LayerSplit::RemainderMiddle), [2, 3, 3, 2]);
    assert_eq!(counts(11, 4, LayerSplit::RemainderMiddle), [3, 3, 3, 2]);
    assert_eq!(counts(3, 5, LayerSplit::RemainderMiddle), [0, 1, 1, 1, 0]);
    assert_eq!(counts(5, 3, LayerSplit::Explicit(vec![1, 3, 1])), [1, 3, 1]);
}

#[test]
fn impossible_splits_say_what_would_do() {
    assert_eq!(
        split_layers(10, 4, &LayerSplit::Explicit(vec![5, 4])).unwrap_err().to_string(),
        "10 layers over 4 stages: the list has 2 stages with 9 layers in all"
    );
}
