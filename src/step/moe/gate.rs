//! Gates that rank groups of experts by their scores, sampled.
//!
//! Every expert gets a score; the groups with the best ones are kept, then the best experts in them. A group is kept for
//! an expert that is good, so it is nearly always used: a token touches more domains than where groups are drawn (9 % more
//! for DeepSeek-V3 on eight nodes). Scores are independent and even here, as where a benchmark replaces the router's
//! by random ones; those of a trained router are not. No closed form is known to us, so tokens are drawn, always the same.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::routing::{Distinct, Routing};
use crate::step::spec::model::GroupScore;

/// Scores drawn: with 256 experts the mean of distinct parts is right to about 0.1 %.
const SCORES: u64 = 1 << 21;

/// Tokens drawn.
pub(super) fn tokens(routing: &Routing) -> u64 {
    (SCORES / routing.experts).clamp(64, 8192)
}

impl Routing {
    /// Distinct parts that a token touches where experts lie in `parts` equal runs.
    pub fn distinct(&self, parts: u64) -> Distinct {
        let ranks_groups = self.score != GroupScore::Drawn && self.group_limit < self.groups;
        if ranks_groups && parts > 1 { sampled(self, parts) } else { self.counted(parts) }
    }
}

/// The same where the gate ranks groups. Drawn once for each router and number of
/// parts while the program runs, since studies ask again and again.
fn sampled(routing: &Routing, parts: u64) -> Distinct {
    static DRAWN: LazyLock<Mutex<BTreeMap<(Routing, u64), Distinct>>> = LazyLock::new(Mutex::default);
    let known = |drawn: &BTreeMap<(Routing, u64), Distinct>| drawn.get(&(*routing, parts)).cloned();
    let lock = || DRAWN.lock().unwrap_or_else(|broken| broken.into_inner());
    if let Some(distinct) = known(&lock()) {
        return distinct;
    }
    let distinct = Distinct::of(draw(routing, parts, tokens(routing)));
    lock().insert((*routing, parts), distinct.clone());
    distinct
}

/// Probability of touching exactly d parts, from so many tokens.
fn draw(routing: &Routing, parts: u64, tokens: u64) -> Vec<f64> {
    let (experts, group) = (routing.experts as usize, (routing.experts / routing.groups) as usize);
    let part = routing.experts.div_ceil(parts) as usize;
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let mut scores = vec![0_f32; experts];
    let mut touched = vec![0_u32; routing.top_k.min(parts) as usize + 1];
    for _ in 0..tokens {
        scores.fill_with(|| rng.random());
        let mut kept = best(routing.groups as usize, routing.group_limit as usize, |g| {
            routing.score.of(&scores[g * group..(g + 1) * group])
        });
        kept.sort_unstable();
        let pool: Vec<usize> = kept.iter().flat_map(|g| g * group..(g + 1) * group).collect();
        let chosen = best(pool.len(), routing.top_k as usize, |i| scores[pool[i]]);
        let mut to: Vec<usize> = chosen.iter().map(|i| pool[*i] / part).collect();
        to.sort_unstable();
        to.dedup();
        touched[to.len()] += 1;
    }
    touched.iter().map(|n| f64::from(*n) / tokens as f64).collect()
}

/// The `take` of `n` that score highest, in no order.
fn best(n: usize, take: usize, score: impl Fn(usize) -> f32) -> Vec<usize> {
    let mut ranked: Vec<(f32, usize)> = (0..n).map(|i| (score(i), i)).collect();
    if take < n {
        ranked.select_nth_unstable_by(take, |a, b| b.0.total_cmp(&a.0));
        ranked.truncate(take);
    }
    ranked.into_iter().map(|(_, i)| i).collect()
}

impl GroupScore {
    /// How good a group is in which the experts have these scores.
    fn of(self, scores: &[f32]) -> f32 {
        let take = match self {
            GroupScore::Drawn | GroupScore::Best => 1,
            GroupScore::SumOfBestTwo => 2,
        };
        best(scores.len(), take, |i| scores[i]).into_iter().map(|i| scores[i]).sum()
    }
}
