//! The critical path on the ranks that are shown.

use super::layout::places;
use super::{Critical, Timeline};

/// An op of the path on the row of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The op.
    pub link: Critical,
    /// The arrow from the op before it, if that is on another rank.
    pub into: Option<u64>,
    /// The arrow to the op after it, if that is on another rank.
    pub out: Option<u64>,
}

/// The path by rank.
#[derive(Debug)]
pub struct Path {
    /// For each traced rank, the ops on it in order of time.
    pub steps: Vec<Vec<Step>>,
}

impl Path {
    /// What of the path is seen; its arrows are numbered after `count`, which they add to.
    pub fn new(timeline: &Timeline, count: &mut u64) -> Path {
        let place_of = places(timeline);
        let (from, until) = timeline.window_ns();
        let mut steps: Vec<Vec<Step>> = vec![Vec::new(); timeline.ranks.len()];
        let mut last: Option<usize> = None;
        for link in timeline.critical {
            let Some(&place) = place_of.get(&link.rank) else { continue };
            let (start, end) = (link.start.round_ns(), link.end.round_ns());
            if start >= end || end <= from || start >= until {
                continue;
            }
            let mut step = Step { link: *link, into: None, out: None };
            if let Some(before) = last.filter(|before| *before != place)
                && let Some(left) = steps[before].last_mut()
                && left.link.start.round_ns() + 1 < end
            {
                *count += 1;
                left.out = Some(*count);
                step.into = Some(*count);
            }
            steps[place].push(step);
            last = Some(place);
        }
        Path { steps }
    }
}
