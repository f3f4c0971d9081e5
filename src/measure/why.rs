//! The limits of a measured step: the step played again with one thing otherwise, each.
//!
//! A profile tells the time of every kernel and not why it took that, so the likes of a thing are its measure: a rank
//! beside the ranks that ran the same kernels, a group's collective beside the same collective of other groups. Else
//! a thing is played without: the host, a kind of communication, copies, what is computed again. From one rank's file
//! the lateness of its peers is part of its communication.

use std::collections::BTreeMap;

use crate::profile::RankEvents;
use crate::profile::classes::Family;
use crate::profile::programs::{ProgramOp, RankProgram, StepPrograms, programs};
use crate::replay::{check, replay};
use stepsim_core::units::Time;
use stepsim_read::analysis::candidates::{Candidate, CandidateKind};
use stepsim_spec::SpecError;

/// A difference from its like, or a gain, of less than this part is none.
const LEAST: f64 = 0.01;
/// Candidates that are told.
const TOLD: usize = 8;

/// The candidates of a step that some profiles hold, dearest first, and the step as it is played unchanged.
///
/// # Errors
/// The profiles hold no step that can be played ([`programs`]).
pub fn why(profiles: &[RankEvents]) -> Result<(Time, Vec<Candidate>), SpecError> {
    let step = programs(profiles, None)?;
    check(&step, &[])?;
    let play = |step: &StepPrograms| replay(step, &[]).map_err(|e| SpecError::file("replay", e.to_string()));
    let now = play(&step)?;
    let mut candidates = Vec::new();
    for change in changes(&step) {
        let then = play(&change.step)?;
        let gain = now.s() - then.s();
        if gain >= LEAST * now.s() {
            let StepChange { what, otherwise, kind, .. } = change;
            candidates.push(Candidate {
                what,
                otherwise,
                kind,
                step_s: then.s(),
                own_s: gain,
                ..Candidate::default()
            });
        }
    }
    // Of what gains the same, what is amiss comes before what is only a limit.
    candidates.sort_by(|a, b| b.cost_s().total_cmp(&a.cost_s()).then(a.kind.cmp(&b.kind)));
    candidates.truncate(TOLD);
    Ok((now, candidates))
}

/// A step with something otherwise.
struct StepChange {
    what: String,
    otherwise: String,
    kind: CandidateKind,
    step: StepPrograms,
}

/// All changes of a step that change anything.
fn changes(step: &StepPrograms) -> Vec<StepChange> {
    let mut all = ranks(step);
    all.extend(groups(step));
    let mut without = |what: &str, otherwise: &str, kind, takes: &dyn Fn(&ProgramOp) -> bool| {
        let mut changed = step.clone();
        let mut any = false;
        for op in changed.ranks.iter_mut().flat_map(|rank| &mut rank.ops).filter(|op| takes(op)) {
            any |= op.ns > 0;
            op.ns = 0;
        }
        if any {
            all.push(StepChange { what: what.into(), otherwise: otherwise.into(), kind, step: changed });
        }
    };
    without("host", "launches at no cost", CandidateKind::Limit, &|op| op.family.is_none());
    without("copies", "at no cost", CandidateKind::Limit, &|op| op.family == Some(Family::Memory));
    without("recomputation", "none", CandidateKind::Choice, &|op| op.name.ends_with("recompute"));
    let kinds = step.ranks.iter().flat_map(|rank| &rank.ops).filter_map(|op| op.collective.as_ref());
    let kinds: std::collections::BTreeSet<&str> = kinds.map(|collective| collective.kind.as_str()).collect();
    for kind in kinds {
        let of_kind = |op: &ProgramOp| op.collective.as_ref().is_some_and(|c| c.kind == kind);
        without(&format!("{kind}, exposed"), "at no cost", CandidateKind::Limit, &of_kind);
    }
    all
}

/// Places of ops of one sort on a rank: kernels and copies by name, or the host's, in order.
fn sort_of(rank: &RankProgram, of_host: bool) -> (Vec<&str>, Vec<usize>) {
    let is = |op: &&(usize, &ProgramOp)| match op.1.family {
        None => of_host,
        Some(Family::Compute) => !of_host,
        Some(_) => false,
    };
    let ops: Vec<(usize, &ProgramOp)> = rank.ops.iter().enumerate().collect();
    ops.iter().filter(is).map(|(place, op)| (op.name.as_str(), *place)).unzip()
}

/// Ranks that take longer than those that do the same, and work that is dealt out unevenly over them.
fn ranks(step: &StepPrograms) -> Vec<StepChange> {
    let mut all = Vec::new();
    for of_host in [false, true] {
        let mut alike: BTreeMap<Vec<&str>, Vec<(usize, Vec<usize>)>> = BTreeMap::new();
        for (number, rank) in step.ranks.iter().enumerate() {
            let (names, places) = sort_of(rank, of_host);
            alike.entry(names).or_default().push((number, places));
        }
        let mut level = step.clone();
        let mut uneven = false;
        for group in alike.values().filter(|group| group.len() > 1) {
            let times =
                |op: usize| group.iter().map(move |(rank, places)| step.ranks[*rank].ops[places[op]].ns);
            let count = group[0].1.len();
            let median: Vec<u64> = (0..count).map(|op| middle(times(op).collect())).collect();
            let mean: Vec<u64> = (0..count).map(|op| times(op).sum::<u64>() / group.len() as u64).collect();
            let usual = median.iter().sum::<u64>().max(1);
            for (rank, places) in group {
                let own: u64 = places.iter().map(|place| step.ranks[*rank].ops[*place].ns).sum();
                for (place, mean) in places.iter().zip(&mean) {
                    level.ranks[*rank].ops[*place].ns = *mean;
                }
                let times_as_slow = own as f64 / usual as f64;
                uneven |= (times_as_slow - 1.0).abs() > LEAST;
                if times_as_slow <= 1.0 + LEAST {
                    continue;
                }
                let mut changed = step.clone();
                for (place, median) in places.iter().zip(&median) {
                    changed.ranks[*rank].ops[*place].ns = *median;
                }
                let what = if of_host { "host of rank" } else { "rank" };
                all.push(StepChange {
                    what: format!("{what} {} (×{times_as_slow:.2})", step.ranks[*rank].rank),
                    otherwise: "as the others".into(),
                    kind: CandidateKind::Fault,
                    step: changed,
                });
            }
        }
        if uneven && !of_host {
            let (what, otherwise) = ("kernels differ between ranks".into(), "each as the mean".into());
            all.push(StepChange { what, otherwise, kind: CandidateKind::Uneven, step: level });
        }
    }
    all
}

/// Groups whose collectives take longer than the same collectives of other groups.
fn groups(step: &StepPrograms) -> Vec<StepChange> {
    // By kind, bytes and size of the group: the times of each group.
    let mut alike: BTreeMap<(&str, u64, i64), BTreeMap<&str, Vec<u64>>> = BTreeMap::new();
    for op in step.ranks.iter().flat_map(|rank| &rank.ops) {
        let Some(c) = &op.collective else { continue };
        let Some(bytes) = c.bytes.filter(|_| c.meets.is_some()) else { continue };
        let times = alike.entry((c.kind.as_str(), bytes, c.group_size)).or_default();
        times.entry(c.group.as_str()).or_default().push(op.ns);
    }
    let mut slow: BTreeMap<&str, BTreeMap<(&str, u64, i64), u64>> = BTreeMap::new();
    for (what, by_group) in alike.iter().filter(|(_, by_group)| by_group.len() > 2) {
        let usual: BTreeMap<&str, u64> = by_group.iter().map(|(g, ns)| (*g, middle(ns.clone()))).collect();
        let median = middle(usual.values().copied().collect());
        for (group, _) in usual.iter().filter(|(_, ns)| **ns as f64 > (1.0 + 10.0 * LEAST) * median as f64) {
            slow.entry(*group).or_default().insert(*what, median);
        }
    }
    let change = |(group, usual): (&str, BTreeMap<(&str, u64, i64), u64>)| {
        let mut changed = step.clone();
        let mut members: Vec<u64> = Vec::new();
        for rank in &mut changed.ranks {
            for op in &mut rank.ops {
                let Some(c) = op.collective.as_ref().filter(|c| c.group == group) else { continue };
                let key = (c.kind.as_str(), c.bytes.unwrap_or(0), c.group_size);
                if let Some(ns) = usual.get(&key) {
                    op.ns = op.ns.min(*ns);
                    members.push(rank.rank);
                }
            }
        }
        members.dedup();
        let members: Vec<String> = members.iter().take(4).map(u64::to_string).collect();
        StepChange {
            what: format!("links of ranks {}", members.join(", ")),
            otherwise: "as those of other groups".into(),
            kind: CandidateKind::Fault,
            step: changed,
        }
    };
    slow.into_iter().map(change).collect()
}

/// The median of some times.
fn middle(mut ns: Vec<u64>) -> u64 {
    ns.sort_unstable();
    ns.get(ns.len() / 2).copied().unwrap_or(0)
}
