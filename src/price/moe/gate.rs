//! Gates that rank groups of experts by their scores, sampled.
//!
//! Every expert gets a score; the groups with the best ones are kept, then the best experts in them. A group is kept
//! for an expert that is good, so it is nearly always used: a token touches more domains than where groups are drawn
//! (9 % more for DeepSeek-V3 on eight nodes). Scores are independent and even here, as where a benchmark replaces the
//! router's scores by random ones; a trained router's are not. No closed form is known to us, so tokens are drawn,
//! always the same.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::routing::{Distinct, Routing};
use stepsim_spec::model::GroupScore;

/// Scores drawn: with 256 experts the mean of distinct parts is right to about 0.1 %.
const SCORES: u64 = 1 << 21;

/// Tokens drawn.
pub(super) fn tokens(routing: &Routing) -> u64 {
    (SCORES / routing.experts).clamp(64, 8192)
}

impl Routing {
    /// Distinct parts that a token touches where experts lie in `parts` equal runs. Found once for each router while the
    /// program runs: studies ask for every layout.
    pub fn distinct(&self, parts: u64) -> Distinct {
        static KNOWN: LazyLock<Mutex<BTreeMap<(Routing, u64), Distinct>>> = LazyLock::new(Mutex::default);
        let ranks_groups = self.score != GroupScore::Drawn && self.group_limit < self.groups;
        let found = || if ranks_groups && parts > 1 { sampled(self, parts) } else { self.counted(parts) };
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry((*self, parts)).or_insert_with(found).clone()
    }
}

/// The same where the gate ranks groups.
fn sampled(routing: &Routing, parts: u64) -> Distinct {
    let chosen = chosen(routing);
    let part = routing.experts.div_ceil(parts) as usize;
    let mut touched = vec![0_u32; routing.top_k.min(parts) as usize + 1];
    for experts in chosen.chunks(routing.top_k.max(1) as usize) {
        let mut to: Vec<usize> = experts.iter().map(|expert| *expert as usize / part).collect();
        to.sort_unstable();
        to.dedup();
        touched[to.len()] += 1;
    }
    let tokens = tokens(routing) as f64;
    Distinct::of(touched.iter().map(|n| f64::from(*n) / tokens).collect())
}

/// The experts of a sample of tokens, as many of each as it visits. Drawn once for each router while the program runs,
/// since studies ask again and again.
fn chosen(routing: &Routing) -> Arc<Vec<u32>> {
    static DRAWN: LazyLock<Mutex<BTreeMap<Routing, Arc<Vec<u32>>>>> = LazyLock::new(Mutex::default);
    let mut drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(drawn.entry(*routing).or_insert_with(|| Arc::new(draw(routing, tokens(routing)))))
}

fn draw(routing: &Routing, tokens: u64) -> Vec<u32> {
    let group = (routing.experts / routing.groups) as usize;
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let mut scores = vec![0_f32; routing.experts as usize];
    let mut chosen = Vec::with_capacity((tokens * routing.top_k) as usize);
    let (mut groups, mut experts) = (Vec::new(), Vec::new());
    for _ in 0..tokens {
        scores.fill_with(|| rng.random());
        groups.clear();
        let scored = scores
            .chunks(group.max(1))
            .take(routing.groups as usize)
            .map(|scores| score_of(routing.score, scores));
        groups.extend((0..).zip(scored).map(|(g, score)| ranked(score, g)));
        best(&mut groups, routing.group_limit as usize);
        experts.clear();
        for first in groups.iter().map(|g| number(*g) * group) {
            experts.extend((first..first + group).map(|expert| ranked(scores[expert], expert)));
        }
        best(&mut experts, routing.top_k as usize);
        chosen.extend(experts.iter().map(|expert| number(*expert) as u32));
    }
    chosen
}

/// A score that is not negative and the number of what has it, as one number that is less the better the score is.
fn ranked(score: f32, number: usize) -> u64 {
    u64::from(!score.to_bits()) << 32 | number as u64
}

fn number(ranked: u64) -> usize {
    ranked as u32 as usize
}

/// Leaves the best so many, in no order.
fn best(ranked: &mut Vec<u64>, take: usize) {
    if take < ranked.len() {
        ranked.select_nth_unstable(take);
        ranked.truncate(take);
    }
}

/// How good a group is in which the experts have these scores.
fn score_of(group: GroupScore, scores: &[f32]) -> f32 {
    let (mut best, mut second) = (0.0, 0.0);
    for &score in scores {
        (best, second) = if score > best { (score, best) } else { (best, f32::max(second, score)) };
    }
    match group {
        GroupScore::Drawn | GroupScore::Best => best,
        GroupScore::SumOfBestTwo => best + second,
    }
}
