use proptest::prelude::*;
use stepsim_read::analysis::table::*;

use crate::analysis_report::of_random;

proptest! {
    #[test]
    fn lines_keep_to_the_width(seed in any::<u64>(), width in 80u16..160) {
        let text = table(&of_random(seed, |_| 20), &[], width);
        for line in text.lines().filter(|l| !l.starts_with("note:")) {
            prop_assert!(line.chars().count() <= usize::from(width), "{line}");
        }
    }
}

#[test]
fn a_report_at_a_glance() {
    assert_eq!(table(&of_random(5, |_| 20), &[], 100).trim_end(), include_str!("report.txt").trim_end());
}
