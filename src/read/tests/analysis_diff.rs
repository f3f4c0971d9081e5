use std::collections::BTreeSet;

use stepsim_read::analysis::diff::*;
use stepsim_read::analysis::lines::Line;

use crate::analysis_report::of_random;

#[test]
fn a_report_does_not_differ_from_itself() {
    let r = of_random(5, |_| 1);
    assert!(diff(&r, &r).iter().all(|l| l.change() == 0.0));
}

/// The parts of a breakdown account for the whole change of the step time, on the mean and on every stage.
#[test]
fn changes_of_the_parts_sum_to_the_change_of_the_step() {
    let (a, b) = (of_random(5, |_| 1), of_random(8, |_| 3));
    let lines = diff(&a, &b);
    let step = lines[0].change();
    assert!(a.step_time_s != b.step_time_s);
    let sections: BTreeSet<&str> = lines.iter().map(|l| l.section.as_str()).collect();
    for section in sections.into_iter().filter(|s| *s == "mean of a rank" || s.starts_with("stage")) {
        let parts: f64 = lines.iter().filter(|l| l.section == section).map(Line::change).sum();
        assert!((parts - step).abs() <= 1e-12 * a.step_time_s.max(b.step_time_s), "{section}");
    }
}
