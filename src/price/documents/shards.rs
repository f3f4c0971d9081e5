//! How context parallelism cuts a sequence of documents, and what each rank has to do.
//!
//! A rectangle of queries [a, b) and keys [c, d) of one document holds, under a causal mask,
//! G(b, d) − G(a, d) − G(b, c) + G(a, c) pairs, where G(q, k) counts the pairs of the first q queries with the first k
//! keys: t(t+1)/2 + (q − t)·k with t = min(q, k); a window w takes G(q − w, k) off it.

/// Where a sequence is cut for the ranks that share it. Borders are rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceSplit {
    /// Rank r of x holds one piece: [r·s/x, (r+1)·s/x).
    Contiguous,
    /// 2x pieces of the sequence; rank r holds r and 2x−1−r (Megatron-LM, Llama 3).
    Zigzag,
    /// The same of every document by itself (Transformer Engine's `thd` layout; WLB-LLM, arXiv 2503.17924).
    PerDocument,
}

/// The keys that a query sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisibleKeys {
    /// All of its document.
    All,
    /// Those up to itself.
    Causal,
    /// The last so many, itself included.
    Window(u64),
    /// The keys up to itself in its chunk of this many tokens.
    Chunk(u64),
    /// All keys in its chunk of this many tokens.
    WholeChunk(u64),
}

impl VisibleKeys {
    /// True if no token sees keys behind itself.
    pub fn is_causal(self) -> bool {
        !matches!(self, VisibleKeys::All | VisibleKeys::WholeChunk(_))
    }
}

/// A run of tokens of one document that one rank holds; borders count from the document's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TokenRun {
    rank: usize,
    start: u64,
    end: u64,
}

/// The pieces of each document of a sequence.
fn pieces(lengths: &[u64], ranks: u64, cut: SequenceSplit) -> Vec<Vec<TokenRun>> {
    let sequence: u64 = lengths.iter().sum();
    let parts = if cut == SequenceSplit::Contiguous { ranks } else { 2 * ranks };
    let holder = |part: u64| if cut == SequenceSplit::Contiguous { part } else { part.min(parts - 1 - part) };
    let border = |length: u64, part: u64| (u128::from(length) * u128::from(part) / u128::from(parts)) as u64;
    let mut from = 0;
    let mut of_document = |&length: &u64| {
        let (start, whole) = if cut == SequenceSplit::PerDocument { (0, length) } else { (from, sequence) };
        from += length;
        // The part that holds a token.
        let at = |token: u64| {
            ((u128::from(token) + 1) * u128::from(parts)).div_ceil(u128::from(whole.max(1))) as u64 - 1
        };
        let parts_of_it = at(start)..at(start + length - 1) + 1;
        let clip = |part| {
            let (a, b) = (border(whole, part).max(start), border(whole, part + 1).min(start + length));
            (a < b).then(|| TokenRun { rank: holder(part) as usize, start: a - start, end: b - start })
        };
        parts_of_it.filter_map(clip).collect()
    };
    lengths.iter().map(&mut of_document).collect()
}

/// Pairs of the first `q` queries with the first `k` keys under a causal mask.
fn corner(q: u64, k: u64) -> i128 {
    let (q, k) = (i128::from(q), i128::from(k));
    let t = q.min(k);
    t * (t + 1) / 2 + (q - t) * k
}

/// Pairs of queries [a, b) with keys [c, d) of one document.
fn pairs((a, b): (u64, u64), (c, d): (u64, u64), seen: VisibleKeys) -> i128 {
    let first = |q: u64, k: u64| match seen {
        VisibleKeys::Window(w) => corner(q, k) - corner(q.saturating_sub(w), k),
        _ => corner(q, k),
    };
    match seen {
        VisibleKeys::All => i128::from(b - a) * i128::from(d - c),
        VisibleKeys::Causal | VisibleKeys::Window(_) => first(b, d) - first(a, d) - first(b, c) + first(a, c),
        VisibleKeys::Chunk(size) | VisibleKeys::WholeChunk(size) => {
            let (size, own) =
                (size.max(1), if seen.is_causal() { VisibleKeys::Causal } else { VisibleKeys::All });
            let inside = |chunk: u64, (x, y): (u64, u64)| {
                let from = x.max(chunk * size);
                (from, y.min((chunk + 1) * size).max(from))
            };
            let chunks = a.max(c) / size..b.min(d).div_ceil(size);
            chunks.map(|n| pairs(inside(n, (a, b)), inside(n, (c, d)), own)).sum()
        }
    }
}

/// The work of the ranks that share a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceShares {
    /// `pairs[rank][step]`: pairs of the rank's queries with the keys that it has in that step of a ring: first its
    /// own keys, then the keys of the rank before it, and so on. Diagonal included.
    pub pairs: Vec<Vec<u128>>,
    /// Queries of each rank.
    pub tokens: Vec<u64>,
    /// Keys of other ranks that each rank's queries see.
    pub foreign_keys: Vec<u64>,
}

impl SequenceShares {
    /// Of a sequence of documents over `ranks` ranks.
    pub fn of(lengths: &[u64], ranks: u64, cut: SequenceSplit, seen: VisibleKeys) -> SequenceShares {
        let n = ranks as usize;
        let mut shares =
            SequenceShares { pairs: vec![vec![0; n]; n], tokens: vec![0; n], foreign_keys: vec![0; n] };
        for document in pieces(lengths, ranks, cut) {
            shares.add(&document, seen);
        }
        shares
    }

    fn add(&mut self, document: &[TokenRun], seen: VisibleKeys) {
        let ranks = self.tokens.len();
        let mut reach = vec![0; if document.len() > 1 { ranks } else { 0 }];
        for q in document {
            self.tokens[q.rank] += q.end - q.start;
            if let Some(reach) = reach.get_mut(q.rank) {
                *reach = q.end.max(*reach);
            }
            for k in document.iter().filter(|k| !seen.is_causal() || k.start < q.end) {
                let step = (q.rank + ranks - k.rank) % ranks;
                self.pairs[q.rank][step] += pairs((q.start, q.end), (k.start, k.end), seen) as u128;
            }
        }
        for (rank, reach) in reach.into_iter().enumerate() {
            let foreign = document.iter().filter(|k| k.rank != rank && k.start < reach);
            self.foreign_keys[rank] += foreign.map(|k| k.end.min(reach) - k.start).sum::<u64>();
        }
    }

    /// Pairs of each rank.
    pub fn by_rank(&self) -> impl Iterator<Item = u128> + '_ {
        self.pairs.iter().map(|steps| steps.iter().sum())
    }
    fn mean(&self) -> f64 {
        self.by_rank().sum::<u128>() as f64 / self.tokens.len() as f64
    }
    /// Work of the fullest rank over the mean: how much longer attention takes where keys are gathered first.
    pub fn max_over_mean(&self) -> f64 {
        self.by_rank().max().unwrap_or(0) as f64 / self.mean()
    }
    /// The same for a ring in lock-step: each step waits for the fullest rank.
    pub fn ring_over_mean(&self) -> f64 {
        let most = |step: usize| self.pairs.iter().map(|p| p[step]).max().unwrap_or(0);
        (0..self.tokens.len()).map(most).sum::<u128>() as f64 / self.mean()
    }
}
