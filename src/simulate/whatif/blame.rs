//! Who is to blame: each cause that a step may have is taken away, and the step played again.
//!
//! First come causes that a step on healthy, level parts would not have: slow ranks and jitter, slow links, the heaviest stage, a
//! host that launches late, a full tier. Behind them stands what each class of links would buy if it had no end: a limit, no fault.
//!
//! What a cause costs is the difference of the two steps. The part that is its own is read of the run with it: kernels of a slow
//! rank beyond what the device needs, kernels of the heaviest stage beyond the mean of the others, waits for the host, for
//! room on a tier, and, of a link, what communication was exposed for longer than without it. The rest is what ranks waited
//! for each other: bubbles, late peers, the tail.

use super::change::{Change, ENDLESS, Subject, apply};
use super::crosses;
use super::levels::Levels;
use crate::jump::figures_edited;
use crate::{Asked, Inputs, Options, SimulationError};
use stepsim_read::analysis::blame::Blame;
use stepsim_read::analysis::hangs_on::heavier;
use stepsim_read::analysis::report::Report;
use stepsim_step::plan::step::Plan;

/// A cause that costs less than this part of the step has no line.
const SMALL: f64 = 0.0005;

/// What may be to blame, before it is played.
struct Suspect {
    cause: String,
    changes: Vec<Change>,
    /// Its own part; `None`: what communication is exposed for less without it.
    itself_s: Option<f64>,
}

impl Suspect {
    fn of(cause: String, subject: Subject, itself_s: f64) -> Suspect {
        Suspect { cause, changes: vec![Change { subject, factor: 1.0 }], itself_s: Some(itself_s) }
    }
}

/// The causes of a step, most costly first, and then its limits. A cause whose absence cannot be played has no line.
///
/// # Errors
/// The step cannot be planned.
pub fn blame(inputs: &Inputs, options: &Options, report: &Report) -> Result<Vec<Blame>, SimulationError> {
    let (plan, _, _) = Asked { inputs, options, edits: &[], common: None }.prepared()?;
    let levels = Levels::of(&plan, report);
    let mut causes: Vec<Blame> = suspects(inputs, &plan, &levels, report)
        .into_iter()
        .filter_map(|suspect| played(inputs, options, &levels, report, suspect))
        .filter(|blame| blame.cost_s >= SMALL * report.run_time_s)
        .collect();
    causes.sort_by(|a, b| a.limit.cmp(&b.limit).then(b.cost_s.total_cmp(&a.cost_s)));
    Ok(causes)
}

fn played(
    inputs: &Inputs,
    options: &Options,
    levels: &Levels,
    r: &Report,
    suspect: Suspect,
) -> Option<Blame> {
    let (changed, edits) = apply(inputs, levels, &suspect.changes).ok()?;
    let exposes = suspect.itself_s.is_none();
    let figures = figures_edited(&changed, options, &edits, exposes).ok()?;
    let without_s = figures.step_end.s();
    let exposed: f64 = r.communication.values().map(|c| c.exposed_s).sum();
    let itself_s = suspect.itself_s.unwrap_or_else(|| exposed - figures.exposed.values().sum::<f64>());
    let cost_s = r.run_time_s - without_s;
    let limit = suspect.changes.iter().any(|c| matches!(c.subject, Subject::Links(_)));
    let names = suspect.changes.iter().map(|c| format!("--without {}", c.subject.name()));
    Some(Blame {
        cause: suspect.cause,
        limit,
        whatif: names.collect::<Vec<_>>().join(" "),
        without_s,
        cost_s,
        itself_s,
        others_s: cost_s - itself_s,
    })
}

fn suspects(inputs: &Inputs, plan: &Plan, levels: &Levels, report: &Report) -> Vec<Suspect> {
    let mut suspects = Vec::new();
    suspects.extend(slow_ranks(inputs, report));
    suspects.extend(heavy_stage(levels, report));
    suspects.extend(links(inputs, plan));
    if inputs.workload.value.host().is_some() {
        let changes = vec![Change { subject: Subject::Host, factor: ENDLESS }];
        suspects.push(Suspect { cause: "host".into(), changes, itself_s: Some(bar(report, "host", "")) });
    }
    let blocked = bar(report, "exposed communication", "full tier");
    if blocked > 0.0 || report.critical_path.memory_s > 0.0 {
        suspects.push(Suspect::of("full tier".into(), Subject::FullTier, blocked));
    }
    suspects
}

/// Seconds of the bars of a group, of one part where it is named.
fn bar(report: &Report, group: &str, part: &str) -> f64 {
    let bars = report.waterfall.iter().flat_map(|w| &w.mean.bars);
    bars.filter(|b| b.group == group && (part.is_empty() || b.part == part)).map(|b| b.time_s).sum()
}

/// Ranks that are slow, and kernels that jitter: one bar of the waterfall, and one cause.
fn slow_ranks(inputs: &Inputs, report: &Report) -> Option<Suspect> {
    let noise = &inputs.workload.value.noise;
    let jitter = noise.compute_sigma > 0.0;
    let ranks = !report.slow_ranks.is_empty() || noise.between_worker_sigma > 0.0;
    let slow = match report.slow_ranks.as_slice() {
        [] => "unequal ranks".to_owned(),
        [one] => one.name.clone(),
        [worst, rest @ ..] => {
            format!(
                "{} and {} slow ranks more",
                worst.name,
                rest.iter().map(|s| s.ranks.len()).sum::<usize>()
            )
        }
    };
    let cause = match (ranks, jitter) {
        (true, true) => format!("{slow}, jitter"),
        (true, false) => slow,
        (false, true) => "jitter".to_owned(),
        (false, false) => return None,
    };
    let subjects = [(Subject::Stragglers, ranks), (Subject::Jitter, jitter)];
    let changes = subjects.into_iter().filter(|s| s.1).map(|(subject, _)| Change { subject, factor: 1.0 });
    Some(Suspect { cause, changes: changes.collect(), itself_s: Some(bar(report, "stragglers", "")) })
}

/// The longest stage, against the mean of the others.
fn heavy_stage(levels: &Levels, report: &Report) -> Option<Suspect> {
    let (stage, longer_s) = levels.longest()?;
    let why = report.stages.iter().find(|s| s.stage == stage).and_then(|s| heavier(report, s));
    let cause = why.map_or(format!("stage {stage}"), |why| format!("stage {stage} ({why})"));
    Some(Suspect::of(cause, Subject::Stage(stage), longer_s / levels.stages() as f64))
}

/// Links that carry less than they should; where there are none, each class of links that the step crosses.
fn links(inputs: &Inputs, plan: &Plan) -> Vec<Suspect> {
    let slow = &inputs.workload.value.noise.slow_links;
    if let [first, rest @ ..] = slow.as_slice() {
        let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        let cause = format!("links {} (÷{}){more}", first.link, first.slowness);
        let changes = vec![Change { subject: Subject::SlowLinks, factor: 1.0 }];
        return vec![Suspect { cause, changes, itself_s: None }];
    }
    let classes =
        inputs.topology.value.link_classes().into_iter().filter(|class| crosses(inputs, plan, class));
    let suspect = |class: String| {
        let rate = inputs.topology.value.link_rate(&class);
        let cause = rate.map_or(class.clone(), |rate| format!("{class} ({rate} GB/s), endless"));
        Suspect {
            cause,
            changes: vec![Change { subject: Subject::Links(class), factor: ENDLESS }],
            itself_s: None,
        }
    };
    classes.map(suspect).collect()
}
