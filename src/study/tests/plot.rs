use serde_json::json;

use stepsim_study::plot::*;
use stepsim_study::rows::Row;

fn rows() -> Vec<Row> {
    let row = |point: u64, batch: u64, kind: &str, seconds: f64| -> Row {
        let value = json!({"key": "k", "point": point, "status": "ok", "step_time_s": seconds,
            "settings": {"batch.global": batch, "kind": kind}});
        serde_json::from_value(value).expect("a row")
    };
    let mut rows = vec![row(0, 8, "a<b", 0.5), row(1, 16, "a<b", 0.9), row(2, 512, "c", 40.0)];
    rows[0].outcome.mfu = Some(0.5);
    rows
}

#[test]
fn points_lines_and_legend() {
    let plot = Plot::parse("batch.global,step_time_s,kind").unwrap();
    let svg = plot.svg(&rows()).unwrap();
    assert_eq!(svg.matches("<circle").count(), 3 + 2);
    assert_eq!(svg.matches("<polyline").count(), 1, "one point makes no line");
    assert!(svg.contains("a&lt;b") && svg.contains("(logarithmic)"));
    assert_eq!(plot.data(&rows()).unwrap().lines().nth(1), Some("0,8,0.5,a<b"));
    let words = Plot::parse("kind,step_time_s").unwrap().svg(&rows()).unwrap();
    assert!(words.contains(">c</text>") && words.matches("<circle").count() == 3);
    assert_eq!(Plot::parse("kind,mfu").unwrap().svg(&rows()).unwrap().matches("<circle").count(), 1);
}

#[test]
fn columns_that_are_not_there_are_named() {
    for (plot, part) in [("kind,step_time_", "`step_time_`"), ("batch.global,kind", "a number as kind")] {
        let message = Plot::parse(plot).unwrap().svg(&rows()).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
    assert!(Plot::parse("a").is_err() && Plot::parse("a,b,c,d").is_err() && Plot::parse("a,,c").is_err());
}

#[test]
fn ticks_are_round_and_numbers_short() {
    assert_eq!(ticks(0.0, 6.5), [0.0, 2.0, 4.0, 6.0]);
    assert_eq!(logarithmic_ticks(0.9, 60.0), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
    assert_eq!([12.5, 0.25, 123456.0, 3e9, 0.0].map(short), ["12.5", "0.25", "123456", "3.00e9", "0"]);
}
