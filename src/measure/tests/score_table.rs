use stepsim_measure::score::table::*;

#[test]
fn schedules_are_held_to_the_1f1b_of_their_block() {
    let row = |block: &str, schedule: &str, measured: f64, predicted: f64| {
        (block.to_string(), schedule.to_string(), measured, predicted)
    };
    let alone = row("b", "1F1B", 1.0, 1.0);
    let mut rows =
        vec![row("a", "1F1B", 1.0, 2.0), row("a", "ZB", 0.9, 1.8), row("a", "VPP", 0.8, 1.7), alone];
    let text = ratios(&rows);
    assert!(text.contains("| a | ZB | 1.111 | 1.111 | +0.0 % |"), "{text}");
    assert!(text.contains("| a | VPP | 1.250 | 1.176 | -5.9 % |") && !text.contains("| b |"), "{text}");
    assert!(text.ends_with("\nSame order in 1 of 1 blocks; 1 of 2 ratios within 3 %.\n"), "{text}");
    rows[2].3 = 1.8;
    assert!(ratios(&rows).contains("Same order in 0 of 1 blocks"), "equal times have no order");
}
