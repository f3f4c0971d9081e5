//! The requests of one rank's policies.

use stepsim_plan::step::residency::{
    Gathers, ReductionStreams, ReductionTimes, Reductions, UnitMessages, Updates,
};

/// The requests of one rank's policies, by chunk and unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PolicyDemand {
    pub(super) around: Vec<Vec<UnitMessages>>,
    pub(super) gathers: Gathers,
    pub(super) reductions: Option<Reductions>,
    /// The reduction that leaves with the backward visit of a unit; none where its bucket is not full.
    pub(super) reduced: Vec<Vec<Option<ReductionTimes>>>,
    /// Reductions behind the last pass.
    pub(super) left: Vec<ReductionTimes>,
    /// Seconds in which first and last stage add up the gradients of the table that they share, behind all others.
    pub(super) tied: f64,
    /// Seconds behind the optimizer step.
    pub(super) behind: f64,
    pub(super) updates: Option<Updates>,
    /// Bytes that a visit brings in, and its kernels: what prefetch may count.
    pub(super) size: Vec<Vec<[Size; 2]>>,
}

/// The size of a visit where prefetch looks ahead by bytes or kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Size {
    pub(super) bytes: f64,
    pub(super) kernels: f64,
    /// Bytes of its own copy.
    pub(super) own: f64,
}

impl PolicyDemand {
    /// True if its reductions hold up no pass, and run once.
    pub fn reduces_behind(&self) -> bool {
        self.reductions.is_none_or(|reductions| !reductions.every && !reductions.held)
    }
    /// The end of a rank at least, whose `passes` of each direction end at a time: the longest reduction behind them, or
    /// its gathers or reductions one after the other; then the table that stages share, and messages behind the
    /// optimizer step.
    pub fn least_end(&self, passes_end: f64, passes: f64) -> f64 {
        let left = self.left.iter().map(|times| times.alone(true)).fold(0.0, f64::max);
        let beside = self.gathering(passes).max(self.reducing(passes));
        (passes_end + left).max(beside) + self.tied + self.behind
    }
    /// Seconds of its gathers at least. What is kept between passes, and the last unit of a chunk, is gathered once.
    fn gathering(&self, passes: f64) -> f64 {
        let all = |chunk: &[UnitMessages], ways: usize| -> f64 {
            chunk.iter().flat_map(|unit| &unit.gather[..ways]).sum()
        };
        let of_chunk = |chunk: &Vec<UnitMessages>| match (self.gathers, chunk.split_last()) {
            (Gathers::Never, _) | (_, None) => 0.0,
            (Gathers::Each { keeps: false, .. }, Some((last, others))) => {
                passes * all(others, 2) + last.gather[0]
            }
            _ => all(chunk, 1),
        };
        self.around.iter().map(of_chunk).sum()
    }
    /// Seconds of its reductions on the stream that has most of them.
    fn reducing(&self, passes: f64) -> f64 {
        let Some(reductions) = self.reductions else { return 0.0 };
        let before_last = if reductions.every { passes - 1.0 } else { 0.0 };
        let last = if reductions.overlap { 1.0 } else { 0.0 };
        let mut streams = ReductionStreams::default();
        self.reduced
            .iter()
            .flatten()
            .flatten()
            .for_each(|times| times.add([before_last, last], &mut streams));
        self.left.iter().for_each(|times| times.add([0.0, 1.0], &mut streams));
        streams.into_iter().flatten().fold(0.0, f64::max)
    }
    /// True if it gathers as another does.
    pub fn gathers_as(&self, other: &PolicyDemand) -> bool {
        let gathers =
            |asked: &PolicyDemand| asked.around.iter().flatten().map(|a| a.gather).collect::<Vec<_>>();
        self.gathers == other.gathers && gathers(self) == gathers(other)
    }
    /// True if it has collectives.
    pub fn communicates(&self) -> bool {
        let gathers = |around: &UnitMessages| around.gather != [0.0; 2];
        let reduced = self.reduced.iter().flatten().flatten().chain(&self.left);
        self.tied + self.behind > 0.0
            || reduced.into_iter().any(|times| times.alone(true) > 0.0)
            || self.around.iter().flatten().any(gathers)
    }
    /// True if the kernels of its update lie between copies.
    pub fn updates_between_copies(&self) -> bool {
        self.updates.as_ref().is_some_and(|updates| updates.ahead.is_some())
    }
    /// True if it has copies.
    pub fn copies(&self) -> bool {
        let copies = |a: &UnitMessages| {
            let all = [a.copy_in, a.copy_out, a.carried, a.home];
            all.iter().flatten().any(|seconds| *seconds > 0.0)
        };
        self.updates.is_some() || self.around.iter().flatten().any(copies)
    }
}
