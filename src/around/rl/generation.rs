//! Generation by one replica: sequences are admitted as the KV cache has room, run a token a step, and end.

use super::Decoder;

/// Most tokens that are played, step by step, in an iteration.
pub const MOST_TOKENS: u64 = 1 << 31;

/// The work of a replica.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replica {
    /// Seconds until its last sequence ended.
    pub s: f64,
    /// Of it, prefill.
    pub prefill_s: f64,
    /// Tokens that it made.
    pub tokens: u64,
    /// Decode steps.
    pub steps: u64,
    /// Sequences that run, from when on (seconds).
    pub running: Vec<(f64, u64)>,
}

/// A running sequence.
struct Sequence {
    /// Tokens so far.
    context: u64,
    /// Tokens to come.
    left: u64,
    /// Bytes of cache at its end.
    held: f64,
}

/// Plays a replica that makes responses of these lengths to prompts of `prompt` tokens; `samples` in a row share a
/// prefill. None where the KV cache of one sequence finds no room.
pub fn replica(
    decoder: &Decoder,
    responses: &[u64],
    prompt: u64,
    samples: u64,
    most: u32,
) -> Option<Replica> {
    let mut out = Replica::default();
    let mut waiting = responses.iter().enumerate();
    let mut next = waiting.next();
    let mut running: Vec<Sequence> = Vec::new();
    let mut held = 0.0;
    loop {
        let before = running.len();
        while let Some((number, &left)) = next {
            let needs = decoder.cache(prompt + left);
            if running.len() >= most as usize || held + needs > decoder.room() {
                break;
            }
            if (number as u64).is_multiple_of(samples) {
                out.prefill_s += decoder.prefill_s(prompt);
                out.s += decoder.prefill_s(prompt);
            }
            held += needs;
            running.push(Sequence { context: prompt, left, held: needs });
            next = waiting.next();
        }
        if running.is_empty() {
            return next.is_none().then_some(out);
        }
        if running.len() != before {
            out.running.push((out.s, running.len() as u64));
        }
        // Steps in which nothing ends differ by a line: the middle one stands for all of them, a few at a time.
        let until = running.iter().map(|sequence| sequence.left).min().unwrap_or(1);
        let turns = until.min(16);
        let batch = running.len() as u64;
        let middle = turns / 2;
        let seen: u64 = running.iter().map(|sequence| sequence.context + middle).sum();
        let cached: f64 = running.iter().map(|sequence| decoder.cache(sequence.context + middle)).sum();
        out.s += turns as f64 * decoder.step_s(batch, seen as f64, cached);
        out.steps += turns;
        out.tokens += turns * batch;
        running.retain_mut(|sequence| {
            sequence.context += turns;
            sequence.left -= turns;
            if sequence.left == 0 {
                held -= sequence.held;
            }
            sequence.left > 0
        });
        if running.len() as u64 != batch {
            out.running.push((out.s, running.len() as u64));
        }
    }
}
