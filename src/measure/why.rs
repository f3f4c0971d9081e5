//! The limits of a measured step: the step played again with one thing otherwise, each.
//!
//! A profile tells the time of every kernel and not why it took that, so the likes of a thing are its measure: a rank
//! beside the ranks that ran the same kernels, a group's collective beside the same collective of other groups, a kernel
//! beside those of its name. Else an order is played that the same work allows (copies a copy earlier), or a thing is
//! played without: the host, a kind of communication, copies. From one rank's file the lateness of its peers is part of
//! its communication.

use std::collections::{BTreeMap, BTreeSet};

use crate::profile::RankEvents;
use crate::profile::classes::Family;
use crate::profile::programs::{ProgramOp, RankProgram, StepPrograms, programs};
use crate::replay::{check, replay};
use stepsim_read::analysis::answer::Answer;
use stepsim_read::analysis::candidates::{Candidate, CandidateKind};
use stepsim_spec::SpecError;

/// A difference from its like, or a gain, of less than this part is none.
const LEAST: f64 = 0.01;
/// Candidates that are told.
const TOLD: usize = 8;

/// The answer of a step that some profiles hold, as it is played unchanged, and its candidates: those of the answer first,
/// then by what they cost.
///
/// # Errors
/// The profiles hold no step that can be played ([`programs`]).
pub fn why(profiles: &[RankEvents]) -> Result<(Answer, Vec<Candidate>), SpecError> {
    let step = programs(profiles)?;
    check(&step)?;
    let play = |step: &StepPrograms| replay(step).map_err(|e| SpecError::file("replay", e.to_string()));
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
    let answer = Answer { step_time_s: now.s(), ..Answer::default() }.of(&candidates);
    let halves: Vec<&Candidate> = answer.halves().collect();
    candidates.sort_by_key(|c| halves.iter().position(|half| half.what == c.what).unwrap_or(TOLD));
    candidates.truncate(TOLD);
    Ok((answer, candidates))
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
    all.extend(experts(step));
    all.extend(ahead(step));
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
    let kinds = step.ranks.iter().flat_map(|rank| &rank.ops).filter_map(|op| op.collective.as_ref());
    let kinds: BTreeSet<&str> = kinds.map(|collective| collective.kind.as_str()).collect();
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
        let mut uneven: BTreeMap<&str, f64> = BTreeMap::new();
        for group in alike.values().filter(|group| group.len() > 1) {
            let times =
                |op: usize| group.iter().map(move |(rank, places)| step.ranks[*rank].ops[places[op]].ns);
            let count = group[0].1.len();
            let median: Vec<u64> = (0..count).map(|op| middle(times(op).collect())).collect();
            let mean: Vec<u64> = (0..count).map(|op| times(op).sum::<u64>() / group.len() as u64).collect();
            let usual = median.iter().sum::<u64>().max(1);
            for (rank, places) in group {
                let own: u64 = places.iter().map(|place| step.ranks[*rank].ops[*place].ns).sum();
                let times_as_slow = own as f64 / usual as f64;
                let is_uneven = (times_as_slow - 1.0).abs() > LEAST;
                for (place, mean) in places.iter().zip(&mean) {
                    let op = &mut level.ranks[*rank].ops[*place];
                    if is_uneven {
                        *uneven.entry(sort_of_work(op)).or_default() += op.ns.abs_diff(*mean) as f64;
                    }
                    op.ns = *mean;
                }
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
        let whole: f64 = uneven.values().sum();
        let most = uneven.into_iter().find(|(_, ns)| 2.0 * ns > whole).map_or("kernels", |(sort, _)| sort);
        if whole > 0.0 && !of_host {
            let (what, otherwise) = (format!("{most} between ranks"), "each as the mean".into());
            all.push(StepChange { what, otherwise, kind: CandidateKind::Uneven, step: level });
        }
    }
    all
}

/// The sort of work of a kernel that differs between ranks. Ranks differ in attention where their documents do.
fn sort_of_work(op: &ProgramOp) -> &'static str {
    let has = |word: &str| op.name.to_lowercase().contains(word) || op.class.to_lowercase().contains(word);
    match () {
        () if is_of_experts(op) => "experts' products",
        () if has("attention") || has("flash") || has("fmha") => "attention (documents)",
        () => "kernels",
    }
}

fn is_of_experts(op: &ProgramOp) -> bool {
    let name = op.name.to_lowercase();
    op.family == Some(Family::Compute) && (name.contains("grouped") || name.contains("group_gemm"))
}

/// The usual times of collectives, by kind, bytes and size of the group.
type UsualTimes<'a> = BTreeMap<(&'a str, u64, i64), u64>;

/// Groups whose collectives take longer than the same collectives of other groups. Groups of the same ranks are one.
fn groups(step: &StepPrograms) -> Vec<StepChange> {
    let mut members: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    // By kind, bytes and size of the group: the times of each group.
    let mut alike: BTreeMap<(&str, u64, i64), BTreeMap<&str, Vec<u64>>> = BTreeMap::new();
    for rank in &step.ranks {
        for op in &rank.ops {
            let Some(c) = &op.collective else { continue };
            members.entry(c.group.as_str()).or_default().insert(rank.rank);
            let Some(bytes) = c.bytes.filter(|_| c.meets.is_some()) else { continue };
            let times = alike.entry((c.kind.as_str(), bytes, c.group_size)).or_default();
            times.entry(c.group.as_str()).or_default().push(op.ns);
        }
    }
    let mut slow: BTreeMap<&BTreeSet<u64>, UsualTimes<'_>> = BTreeMap::new();
    for (what, by_group) in alike.iter().filter(|(_, by_group)| by_group.len() > 2) {
        let usual: BTreeMap<&str, u64> = by_group.iter().map(|(g, ns)| (*g, middle(ns.clone()))).collect();
        let median = middle(usual.values().copied().collect());
        for (group, _) in usual.iter().filter(|(_, ns)| **ns as f64 > (1.0 + 10.0 * LEAST) * median as f64) {
            slow.entry(&members[group]).or_default().insert(*what, median);
        }
    }
    let change = |(ranks, usual): (&BTreeSet<u64>, UsualTimes<'_>)| {
        let mut changed = step.clone();
        for op in changed.ranks.iter_mut().flat_map(|rank| &mut rank.ops) {
            let Some(c) = op.collective.as_ref().filter(|c| members[c.group.as_str()] == *ranks) else {
                continue;
            };
            let usual = usual.get(&(c.kind.as_str(), c.bytes.unwrap_or(0), c.group_size));
            op.ns = usual.map_or(op.ns, |ns| op.ns.min(*ns));
        }
        let ranks: Vec<String> = ranks.iter().take(4).map(u64::to_string).collect();
        StepChange {
            what: format!("links of ranks {}", ranks.join(", ")),
            otherwise: "as those of other groups".into(),
            kind: CandidateKind::Fault,
            step: changed,
        }
    };
    slow.into_iter().map(change).collect()
}

/// Experts' products that take longer in some layers or micro-batches than in others, with all else that does there: the
/// exchanges of their tokens, and passes over them.
fn experts(step: &StepPrograms) -> Option<StepChange> {
    let mut changed = step.clone();
    let mut most = 1.0f64;
    for rank in &mut changed.ranks {
        let mut alike: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (place, op) in rank.ops.iter().enumerate().filter(|(_, op)| op.ns > 0) {
            match &op.collective {
                Some(c) if c.kind == "all-to-all" => alike.entry(c.group.clone()).or_default().push(place),
                None if op.family == Some(Family::Compute) => {
                    alike.entry(op.name.clone()).or_default().push(place)
                }
                _ => {}
            }
        }
        for places in alike.values() {
            let usual = middle(places.iter().map(|place| rank.ops[*place].ns).collect());
            for place in places {
                let op = &mut rank.ops[*place];
                let times_as_long = op.ns as f64 / usual as f64;
                if times_as_long > 1.0 + 10.0 * LEAST {
                    most = if is_of_experts(op) { most.max(times_as_long) } else { most };
                    op.ns = usual;
                }
            }
        }
    }
    (most > 1.0).then(|| StepChange {
        what: format!("experts' load over layers (up to ×{most:.2})"),
        otherwise: "as the median".into(),
        kind: CandidateKind::Uneven,
        step: changed,
    })
}

/// Copies to the device a copy earlier: each behind the kernel that the copy before it on its stream waited for.
fn ahead(step: &StepPrograms) -> Option<StepChange> {
    let mut changed = step.clone();
    let mut any = false;
    for rank in &mut changed.ranks {
        let mut before: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for place in 0..rank.ops.len() {
            let op = &rank.ops[place];
            if op.family != Some(Family::Memory) || !op.name.contains("HtoD") {
                continue;
            }
            let is_kernel = |a: &u32| rank.ops[*a as usize].family == Some(Family::Compute);
            let (kernels, mut after): (Vec<u32>, Vec<u32>) = op.after.iter().partition(|a| is_kernel(a));
            any |= !kernels.is_empty();
            let stream = op.stream;
            after.extend(before.insert(stream, kernels).into_iter().flatten());
            rank.ops[place].after = after;
        }
    }
    any.then(|| StepChange {
        what: "copies to the device: when they are needed".into(),
        otherwise: "a copy ahead".into(),
        kind: CandidateKind::Choice,
        step: changed,
    })
}

/// The median of some times.
fn middle(mut ns: Vec<u64>) -> u64 {
    ns.sort_unstable();
    ns.get(ns.len() / 2).copied().unwrap_or(0)
}
