//! What the step hangs on, in one sentence: where most of the critical path lies.
//!
//! The slow ranks, if half of it lies on them; else the stage that has half of it; else, where the path passes through all
//! stages or there is one, the kind of work. What *the others wait* is what the waterfall says of a mean rank: that a
//! peer was late, and that other stages are longer.

use super::kind::OpKind;
use super::report::{Report, StageReport};
use super::waterfall::Part;

/// A rank or stage with this part of the path is what the step hangs on.
const MOST: f64 = 0.5;

/// The sentence; empty where nothing ran.
pub(crate) fn sentence(r: &Report) -> String {
    if r.run_time_s <= 0.0 || r.critical_path.ranks.is_empty() {
        return String::new();
    }
    of_slow_ranks(r).or_else(|| of_stage(r)).unwrap_or_else(|| of_work(r))
}

/// A part of the step in percent.
fn percent(r: &Report, seconds: f64) -> String {
    format!("{:.1} %", 100.0 * seconds / r.run_time_s)
}

fn of_slow_ranks(r: &Report) -> Option<String> {
    let slow = |rank: u32| r.slow_ranks.iter().any(|s| s.ranks.binary_search(&rank).is_ok());
    let path = &r.critical_path.ranks;
    let time: f64 = path.iter().filter(|on| slow(on.rank)).map(|on| on.time_s).sum();
    if time < MOST * r.run_time_s {
        return None;
    }
    let who = match r.slow_ranks.as_slice() {
        [one] => one.name.clone(),
        [worst, ..] => {
            let all: usize = r.slow_ranks.iter().map(|s| s.ranks.len()).sum();
            format!("{all} slow ranks, slowest {}", worst.name)
        }
        [] => return None,
    };
    Some(format!(
        "{} of the step hangs on {who}; the others wait {}",
        percent(r, time),
        percent(r, waited(r))
    ))
}

fn of_stage(r: &Report) -> Option<String> {
    let stages = r.stages.iter().map(|stage| {
        let on = r.critical_path.ranks.iter().filter(|on| on.stage == stage.stage);
        (stage, on.map(|on| on.time_s).sum::<f64>())
    });
    let (stage, time) = stages.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| r.stages.len() > 1)?;
    let share = percent(r, time);
    let why = heavier(r, stage).map_or(String::new(), |why| format!(" ({why})"));
    Some(match time >= MOST * r.run_time_s {
        true => format!(
            "{share} of the step hangs on stage {}{why}; the others wait {}",
            stage.stage,
            percent(r, waited(r))
        ),
        false => format!(
            "the step hangs on all {} stages in turn, most on stage {}{why}: {share}",
            r.stages.len(),
            stage.stage
        ),
    })
}

/// What a stage has that most others have not, if it computes longer than they do.
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

/// What a mean rank waits because a peer is late, or other stages are longer.
fn waited(r: &Report) -> f64 {
    let bars = r.waterfall.iter().flat_map(|w| &w.mean.bars);
    bars.filter(|b| b.part == Part::LatePeer.name() || b.what == "imbalance")
        .fold(0.0, |sum, b| sum + b.time_s)
}

fn of_work(r: &Report) -> String {
    let path = &r.critical_path;
    let longest = path.by_kind_s.iter().max_by(|a, b| a.1.total_cmp(b.1));
    let Some((kind, time)) = longest else { return String::new() };
    let share = percent(r, *time);
    let class = path.by_class_s.iter().max_by(|a, b| a.1.total_cmp(b.1));
    match (kind, class) {
        (OpKind::Compute, Some((class, time))) => {
            format!("{share} of the step hangs on kernels, most on {} ({})", class.name(), percent(r, *time))
        }
        (OpKind::Compute, None) => format!("{share} of the step hangs on kernels"),
        (kind, _) => format!("{share} of the step hangs on {}", kind.words()),
    }
}
