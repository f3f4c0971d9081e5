//! Steps of a log whose lines say the time since the run began.

use std::collections::BTreeMap;

use super::line::LogPoint;

/// Whole seconds that are taken together at least. Each end is rounded, and the sum of all is right.
const WHOLE_SECONDS: f64 = 10.0;

/// The steps between such times.
#[derive(Debug, Default)]
pub(super) struct ClockedSteps {
    /// Each stands for the steps between two lines.
    pub points: Vec<LogPoint>,
    /// Times that the clock or the number of the step went back: the points are of the last run.
    pub restarts: usize,
    /// The line behind the last of the run before.
    pub begins: usize,
    /// True if their sum is right and each is not: times were whole seconds.
    pub rounded: bool,
}

/// Steps between times since the run began. Where these are whole seconds, lines are taken together until the rounding
/// of their two ends is a small part of what lies between them.
pub(super) fn between(points: &[LogPoint]) -> ClockedSteps {
    let points = one_bar(points);
    let is_whole = points.iter().all(|point| point.value.fract() == 0.0);
    let least = if is_whole { WHOLE_SECONDS } else { f64::MIN_POSITIVE };
    let step = |from: &LogPoint, to: &LogPoint| {
        let steps = to.step?.checked_sub(from.step?).filter(|n| *n > 0)? as f64;
        let value = (to.value - from.value) / steps;
        (value > 0.0).then_some(LogPoint { value, steps, ..*to })
    };
    let mut found = ClockedSteps { rounded: is_whole, ..Default::default() };
    let Some(mut from) = points.first() else { return found };
    let (mut last, mut before) = (None, from);
    for to in &points {
        if to.step < before.step || to.value < before.value {
            found.points.clear();
            (found.restarts, found.begins) = (found.restarts + 1, before.line + 1);
            (from, last) = (to, None);
        }
        last = step(from, to).or(last);
        if last.is_some() && to.value - from.value >= least {
            found.points.extend(last.take());
            from = to;
        }
        before = to;
    }
    // The rest counts where a run has no more.
    if found.points.is_empty() {
        found.points.extend(last);
    }
    found
}

/// The points of the bar that counts the steps of the training: of bars with several totals (`| 3/100`) the one that
/// begins anew least often, as an evaluation's does.
fn one_bar(points: &[LogPoint]) -> Vec<LogPoint> {
    let mut bars: BTreeMap<Option<u64>, Vec<LogPoint>> = BTreeMap::new();
    points.iter().for_each(|point| bars.entry(point.of).or_default().push(*point));
    let anew = |bar: &Vec<LogPoint>| bar.windows(2).filter(|two| two[1].step < two[0].step).count();
    bars.into_values().min_by_key(|bar| (anew(bar), std::cmp::Reverse(bar.len()))).unwrap_or_default()
}
