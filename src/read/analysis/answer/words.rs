//! The answer in words: its two halves; before candidates are played, and where none costs anything, where the critical
//! path runs. A cost is never read off the path.

use super::{Answer, HEAD_ROOM};
use crate::analysis::candidates::{Candidate, CandidateKind};
use crate::analysis::kind::OpKind;
use crate::analysis::report::{Report, StageReport};
use stepsim_core::units::Time;

/// A rank or stage with this part of the path is where it runs.
const MOST: f64 = 0.5;

impl Answer {
    /// The step with its range, in words: `13.250 s, 12.4 to 14.8 s in four of five`.
    pub fn step_in_words(&self) -> String {
        let range = self.range_s.map(|[low, high]| format!("{} to {}", digits(low), digits(high)));
        let range = range.map_or(String::new(), |range| format!(", {range} s in four of five"));
        format!("{}{range}", Time::from_s(self.step_time_s))
    }

    /// Its halves in words, each with the step then and by how much it is shorter.
    pub fn halves_in_words(&self) -> Vec<String> {
        let full = |c: &Candidate| {
            let share = c.memory_peak_bytes? as f64 / self.memory_capacity_bytes? as f64;
            let is_fuller = share > 1.0 - HEAD_ROOM && c.memory_peak_bytes > self.memory_peak_bytes;
            is_fuller.then(|| format!(", memory {:.0} % full then", 100.0 * share))
        };
        let then = |c: &Candidate| {
            let (step, full) = (Time::from_s(c.step_s), full(c).unwrap_or_default());
            format!("{step} (−{}{full})", percent(self.step_time_s, c.cost_s()))
        };
        self.halves().map(|c| format!("{}: {}", in_words(c), then(c))).collect()
    }
}

/// The sentence: the halves, or else the path, and what was not asked; empty where nothing ran.
pub(super) fn sentence(r: &Report, answer: &Answer) -> String {
    if r.run_time_s <= 0.0 || r.critical_path.ranks.is_empty() {
        return String::new();
    }
    let halves = answer.halves_in_words();
    let known = if halves.is_empty() { vec![path(r)] } else { halves };
    known.into_iter().chain(answer.not_asked.clone()).collect::<Vec<_>>().join(". ")
}

/// A candidate as something to do.
pub fn in_words(c: &Candidate) -> String {
    let Candidate { what, otherwise, .. } = c;
    match c.kind {
        CandidateKind::Choice => match what.split_once(": ") {
            Some((name, now)) => format!("Set {name} from {now} to {otherwise}"),
            None => format!("Set {what} to {otherwise}"),
        },
        CandidateKind::Fault if HEALED.contains(&otherwise.as_str()) => format!("Heal {what}"),
        CandidateKind::Fault => format!("Heal {what} (to {otherwise})"),
        CandidateKind::Uneven => format!("Even out {what} ({otherwise})"),
        CandidateKind::Limit => {
            let name = what.split(", ").next().unwrap_or(what);
            format!("With {name} {otherwise}")
        }
    }
}

/// Remedies of faults that go without saying.
const HEALED: [&str; 2] = ["as the others", "none"];

/// A part of the step in percent.
fn percent(step_s: f64, seconds: f64) -> String {
    format!("{:.1} %", 100.0 * seconds / step_s)
}

/// A time in three digits.
pub fn digits(seconds: f64) -> String {
    let decimals = (2.0 - seconds.max(f64::MIN_POSITIVE).log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{seconds:.decimals$}")
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
