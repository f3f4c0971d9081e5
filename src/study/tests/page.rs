use serde_json::json;

use stepsim_study::page::*;
use stepsim_study::rows::Row;

#[test]
fn the_front_has_no_point_that_another_beats() {
    let row = |seconds: f64, bytes: u64| -> Row {
        serde_json::from_value(json!({"key": "k", "status": "ok", "settings": {"a": "x y"},
            "step_time_s": seconds, "memory_peak_bytes": bytes}))
        .expect("a row")
    };
    let rows = [row(3.0, 10), row(1.0, 40), row(2.0, 20), row(2.5, 30), row(1.0, 50), row(4.0, 10)];
    let times: Vec<_> = front(&rows).iter().filter_map(|row| row.outcome.step_time_s).collect();
    assert_eq!(times, [1.0, 2.0, 3.0]);
    let html = page("a & b", "stepsim run x", &[], &rows, &[]).unwrap();
    assert!(html.contains("a &amp; b") && html.contains("stepsim run x --set 'a=x y'"));
    assert_eq!(html.matches("<summary>command").count(), 6);
    assert_eq!(html.matches("<td>●</td>").count(), 3);
    let none: Row = serde_json::from_value(json!({"key": "k", "status": "invalid", "settings": {}})).unwrap();
    assert!(!page("t", "c", &[], &[none], &[]).unwrap().contains("<svg"));
}
