use stepsim_read::page::lane::*;

#[test]
fn few_items_stay_and_many_become_few() {
    let item = |start, end, kind| LaneItem { start, end, kind, tag: 0 };
    let few = vec![item(0, 10, 1), item(20, 30, 2)];
    assert_eq!(thin(few.clone(), 100, 2, None), few);
    assert_eq!(numbers(&few), [0, 10, 1, 0, 10, 10, 2, 0]);
    let end = 1_000_000;
    let many: Vec<LaneItem> =
        (0..10_000).map(|i| item(i * 100, i * 100 + 90, u32::from(i >= 5000))).collect();
    let thinned = thin(many, end, 3000, Some(7));
    assert_eq!(thinned.len(), 2);
    assert!(thinned.windows(2).all(|w| w[0].end <= w[1].start));
    assert!(thinned.last().is_some_and(|i| i.end > end - 1000 && i.kind == 1), "{thinned:?}");
    // Kinds in turn, each far shorter than what can be drawn.
    let turns: Vec<LaneItem> = (0..10_000).map(|i| item(i * 100, i * 100 + 100, (i % 2) as u32)).collect();
    assert_eq!(thin(turns, end, 100, Some(7)), [item(0, end, 7)]);
}

#[test]
fn what_overlaps_is_shown_once() {
    let item = |start, end, kind| LaneItem { start, end, kind, tag: 0 };
    let flat = flatten(vec![item(5, 20, 1), item(0, 10, 0), item(12, 18, 2)]);
    assert_eq!(flat, [item(0, 10, 0), item(10, 20, 1)]);
}
