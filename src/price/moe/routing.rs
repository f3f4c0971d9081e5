//! How many distinct domains and ranks a token touches.
//!
//! Model: of G groups of experts, L are drawn uniformly, then k experts without replacement among the L·E/G (no
//! limit: L = G). Gates that rank groups by their scores touch more: they are sampled (`gate.rs`).
//!
//! Where groups are drawn, the distribution is counted exactly: experts are walked in order, cut at the borders of
//! groups and parts, and the ways to choose groups and experts are added up by (groups drawn, experts drawn, parts
//! touched). All terms are positive, so nothing cancels.

use stepsim_spec::model::{GroupScore, MoeSpec};

/// The router's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Routing {
    /// Experts, E.
    pub experts: u64,
    /// Experts that a token visits, k.
    pub top_k: u64,
    /// Groups of experts, G (1: none).
    pub groups: u64,
    /// Groups that a token may use, L.
    pub group_limit: u64,
    /// The score that selects these groups.
    pub score: GroupScore,
}

/// How many distinct parts a token touches.
#[derive(Clone, Debug, PartialEq)]
pub struct Distinct {
    /// Mean.
    pub mean: f64,
    /// Variance.
    pub variance: f64,
    /// `p[d]`: probability of exactly d parts.
    pub p: Vec<f64>,
}

impl Distinct {
    /// From the probabilities of exactly d parts.
    pub(super) fn of(p: Vec<f64>) -> Distinct {
        let moment = |power: i32| p.iter().enumerate().map(|(d, p)| (d as f64).powi(power) * p).sum::<f64>();
        let mean = moment(1);
        Distinct { mean, variance: moment(2) - mean * mean, p }
    }
}

impl Routing {
    /// The router of a model.
    pub fn of(moe: &MoeSpec) -> Routing {
        Routing {
            experts: moe.experts,
            top_k: moe.top_k,
            groups: moe.groups,
            group_limit: moe.group_limit.unwrap_or(moe.groups),
            score: moe.group_score,
        }
    }

    /// Distinct parts where experts lie in `parts` equal runs and groups are drawn.
    pub(super) fn counted(&self, parts: u64) -> Distinct {
        let most = self.top_k.min(parts) as usize;
        let ways = self.ways(parts, most);
        let total: f64 = ways.iter().sum();
        Distinct::of(ways.iter().map(|w| w / total).collect())
    }

    /// Ways to choose, by distinct parts touched.
    fn ways(&self, parts: u64, most: usize) -> Vec<f64> {
        let (k, limit) = (self.top_k as usize, self.group_limit as usize);
        let (group, part) = (self.experts / self.groups.max(1), self.experts / parts.max(1));
        // By groups drawn so far, experts drawn so far, parts touched so far; apart for a group that is drawn or not
        // and for a part that is touched already or not.
        let at = |j: usize, m: usize, d: usize| (j * (k + 1) + m) * (most + 1) + d;
        let size = (limit + 1) * (k + 1) * (most + 1);
        let mut state = [[vec![0.0; size], vec![0.0; size]], [vec![0.0; size], vec![0.0; size]]];
        state[0][0][at(0, 0, 0)] = 1.0;
        let mut expert = 0;
        while expert < self.experts {
            if expert % part == 0 {
                for drawn in &mut state {
                    let touched = std::mem::replace(&mut drawn[1], vec![0.0; size]);
                    drawn[0].iter_mut().zip(touched).for_each(|(to, from)| *to += from);
                }
            }
            if expert % group == 0 {
                // The group before is over; this one is drawn or it is not.
                let [before, drawn] = &mut state;
                for (before, drawn) in before.iter_mut().zip(drawn) {
                    let ended = std::mem::replace(drawn, vec![0.0; size]);
                    before.iter_mut().zip(ended).for_each(|(to, from)| *to += from);
                    for i in 0..size - at(1, 0, 0).min(size) {
                        drawn[i + at(1, 0, 0)] = before[i];
                    }
                }
            }
            let next = ((expert / part + 1) * part).min((expert / group + 1) * group);
            let [untouched, touched] = &mut state[1];
            let from = [std::mem::take(untouched), std::mem::take(touched)];
            (*untouched, *touched) = (vec![0.0; size], vec![0.0; size]);
            for (was_touched, from) in from.iter().enumerate() {
                for (i, ways) in from.iter().enumerate().filter(|(_, ways)| **ways > 0.0) {
                    let (j, m, d) = (i / (most + 1) / (k + 1), i / (most + 1) % (k + 1), i % (most + 1));
                    let (run, mut chosen) = (next - expert, 1.0);
                    for more in 0..=(k - m).min(run as usize) {
                        // The ways to choose `more` of the run.
                        if more > 0 {
                            chosen *= (run + 1 - more as u64) as f64 / more as f64;
                        }
                        let ways = ways * chosen;
                        match (more, was_touched) {
                            (0, 0) => untouched[i] += ways,
                            (_, 0) if d < most => touched[at(j, m + more, d + 1)] += ways,
                            (_, 0) => {}
                            _ => touched[at(j, m + more, d)] += ways,
                        }
                    }
                }
            }
            expert = next;
        }
        let all = state.iter().flatten();
        let of = |d: usize| all.clone().map(|s| s[at(limit, k, d)]).sum();
        (0..=most).map(of).collect()
    }
}
