use stepsim_read::analysis::waterfall::BarReport;
use stepsim_read::analysis::waterfall::BarsReport;
use stepsim_study::*;

#[test]
fn reasons_sum_to_the_difference_of_the_steps() {
    let bar = |group: &str, what: &str, time_s: f64| BarReport {
        group: group.into(),
        what: what.into(),
        time_s,
        ..BarReport::default()
    };
    let best = BarsReport { mfu: 0.5, bars: vec![bar("bubble", "order", 1.0), bar("tail", "", 4.0)] };
    let slower = BarsReport {
        mfu: 5.0 / 12.0,
        bars: vec![bar("bubble", "order", 4.5), bar("exposed communication", "tp", 2.5)],
    };
    let all = reasons(&best, 10.0, &slower, 12.0);
    let sum: f64 = all.iter().map(|r| r.more_s).sum();
    assert!((sum - 2.0).abs() < 1e-12, "{sum}");
    let firsts: Vec<&str> = all.iter().take(3).map(|r| r.what.as_str()).collect();
    assert_eq!(firsts, ["tail", "bubble: order", "exposed communication: tp"]);
}
