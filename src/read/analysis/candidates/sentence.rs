//! The limits of the step, in one sentence: its dearest candidate, and its dearest fault or unevenness where that is
//! another; behind a choice the dearest limit where nothing is amiss.
//!
//! Before candidates are played, and where none of them costs anything, the sentence says where the critical path runs;
//! what a thing costs is never read off the path.

use super::{Candidate, CandidateKind};
use crate::analysis::kind::OpKind;
use crate::analysis::report::{Report, StageReport};
use stepsim_core::units::Time;

/// A rank or stage with this part of the path is where it runs.
const MOST: f64 = 0.5;

/// A candidate that costs less than this part of the step has no sentence.
const TOLD: f64 = 0.005;

/// The sentence; empty where nothing ran.
pub fn sentence(r: &Report) -> String {
    if r.run_time_s <= 0.0 || r.critical_path.ranks.is_empty() {
        return String::new();
    }
    let told = || r.candidates.iter().filter(|c| c.cost_s() >= TOLD * r.step_time_s);
    let Some(first) = told().next() else { return path(r) };
    let is_amiss = |c: &&Candidate| matches!(c.kind, CandidateKind::Fault | CandidateKind::Uneven);
    let cause = told().find(is_amiss).or_else(|| told().find(|c| c.kind != CandidateKind::Choice));
    let cause = cause.filter(|cause| cause.what != first.what);
    let also = cause.map_or(String::new(), |cause| format!("; {}", of_candidate(r, cause, "on")));
    format!("{}{also}", of_candidate(r, first, "of the step hangs on"))
}

fn of_candidate(r: &Report, c: &Candidate, hangs: &str) -> String {
    format!("{} {hangs} {}", percent(r.step_time_s, c.cost_s()), in_words(c))
}

/// A candidate, how it would be otherwise, and the step then.
pub fn in_words(c: &Candidate) -> String {
    format!("{}; {}: {}", c.what, c.otherwise, Time::from_s(c.step_s))
}

/// A part of the step in percent.
fn percent(step_s: f64, seconds: f64) -> String {
    format!("{:.1} %", 100.0 * seconds / step_s)
}

/// Where the critical path runs: over the stage that has half of it, else by the kind of its ops.
fn path(r: &Report) -> String {
    of_stage(r).unwrap_or_else(|| of_work(r))
}

fn of_stage(r: &Report) -> Option<String> {
    let stages = r.stages.iter().map(|stage| {
        let on = r.critical_path.ranks.iter().filter(|on| on.stage == stage.stage);
        (stage, on.map(|on| on.time_s).sum::<f64>())
    });
    let (stage, time) = stages.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| r.stages.len() > 1)?;
    let share = percent(r.run_time_s, time);
    let why = heavier(r, stage).map_or(String::new(), |why| format!(" ({why})"));
    Some(match time >= MOST * r.run_time_s {
        true => format!("the critical path runs {share} on stage {}{why}", stage.stage),
        false => format!(
            "the critical path runs over all {} stages in turn, most on stage {}{why}: {share}",
            r.stages.len(),
            stage.stage
        ),
    })
}

/// The extra parts of a stage that most others lack, if it computes longer than they do.
pub fn heavier(r: &Report, stage: &StageReport) -> Option<String> {
    let mean = r.stages.iter().map(|s| s.time.busy_s).sum::<f64>() / r.stages.len() as f64;
    if stage.time.busy_s <= mean {
        return None;
    }
    let most = |others: &mut dyn Iterator<Item = u64>| others.max().unwrap_or(0);
    let others = most(&mut r.stages.iter().filter(|s| s.stage != stage.stage).map(|s| s.layers));
    match stage.ends.join(" and ") {
        _ if stage.layers > others => Some(format!("{} layers", stage.layers)),
        ends if ends.is_empty() => None,
        ends => Some(ends),
    }
}

fn of_work(r: &Report) -> String {
    let path = &r.critical_path;
    let longest = path.by_kind_s.iter().max_by(|a, b| a.1.total_cmp(b.1));
    let Some((kind, time)) = longest else { return String::new() };
    let share = percent(r.run_time_s, *time);
    let class = path.by_class_s.iter().max_by(|a, b| a.1.total_cmp(b.1));
    let most = |(class, time): (&stepsim_core::kernel_class::KernelClass, &f64)| {
        format!(", most of them {} ({})", class.name(), percent(r.run_time_s, *time))
    };
    match kind {
        OpKind::Compute => {
            format!("the critical path runs {share} through kernels{}", class.map_or(String::new(), most))
        }
        kind => format!("the critical path runs {share} through {}", kind.words()),
    }
}
