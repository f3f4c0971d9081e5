//! Dynamic context parallelism: each document is a sample with a degree of its own.
//!
//! After Megatron-LM's (pull requests 2054 and 2282, `hybrid_cp_schedule.py`, later `default_dynamic_cp` in
//! `datasets/data_schedule.py`):
//!
//! * A sample gets the smallest power of two of ranks that holds it within the token limit of a rank (`gpus_needed`).
//! * Groups are runs of 2, 4, … of the ranks of data × context, all made when the run begins.
//! * Samples are padded to twice the ranks of data × context, so that any group can cut them in zigzag
//!   (`_calculate_padding_divisor` of `sft_dataset.py`).
//! * The longest come first, each to the group that has least to do. Samples of one degree that fit run as one packed
//!   sequence.
//! * Where there is too little for all ranks, samples get more of them: as many as it takes for a sample to last no
//!   longer alone than a rank's average work. No rank is then idle.
//!
//! Waits between ranks follow from the order of passes, which is one for all ranks: no barrier is needed, and the
//! barrier between rounds of Megatron-LM's first version is not played.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rustc_hash::FxHashMap;

use super::Mask;
use super::shards::SequenceSplit;
use super::work::AttentionPairs;

/// Samples that a group of ranks runs as one packed sequence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PackedPass {
    /// Ranks of the group.
    pub degree: u64,
    /// Tokens of each sample with its padding.
    pub samples: Vec<u64>,
}

impl PackedPass {
    /// Tokens of all samples with their padding.
    pub fn tokens(&self) -> u64 {
        self.samples.iter().sum()
    }
    /// The attention work of each rank of the group.
    pub fn works(&self, masks: &[Mask]) -> Vec<AttentionPairs> {
        let cut = if self.degree == 1 { SequenceSplit::Contiguous } else { SequenceSplit::PerDocument };
        AttentionPairs::of(&[&self.samples], self.degree, cut, masks)
    }
}

/// The limits that samples are scheduled by.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Ranks of data × context, a power of two.
    pub ranks: u64,
    /// Most tokens of a pass on one rank.
    pub tokens_per_rank: u64,
    /// Samples are padded to a multiple of this.
    pub multiple: u64,
}

/// The samples of a step on groups of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicContext {
    /// In the order in which they run, the first rank of the group of each before it.
    pub passes: Vec<(u64, PackedPass)>,
    /// Cost of what each rank runs, its waits for others of its groups included.
    pub loads: Vec<u128>,
    /// Tokens of all samples, without padding.
    pub tokens: u64,
    /// Most tokens of a pass on one rank.
    pub tokens_per_rank: u64,
    /// Cost of all samples.
    cost: u128,
    /// By rank: which passes it runs.
    of: Vec<Vec<usize>>,
}

/// The passes of one degree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfDegree {
    /// Samples.
    pub samples: u64,
    /// Passes of groups.
    pub passes: u64,
    /// Tokens with their padding.
    pub tokens: u64,
}

/// A sample to be placed.
struct UnplacedSample {
    degree: u64,
    padded: u64,
    cost: u128,
}

impl DynamicContext {
    /// Schedules samples of these lengths in tokens; `cost(n)` is the work of a sample of n tokens.
    pub fn new(lengths: &[u64], room: Room, cost: impl Fn(u64) -> u128) -> DynamicContext {
        let padded = lengths.iter().map(|length| length.next_multiple_of(room.multiple));
        let mut known: FxHashMap<u64, u128> = FxHashMap::default();
        let mut costed = |padded| (padded, *known.entry(padded).or_insert_with(|| cost(padded).max(1)));
        let costs: Vec<(u64, u128)> = padded.map(&mut costed).collect();
        let all: u128 = costs.iter().map(|c| c.1).sum();
        let sample = |&(padded, cost): &(u64, u128)| {
            let held = padded.div_ceil(room.tokens_per_rank);
            let even = (cost * u128::from(room.ranks)).div_ceil(all) as u64;
            UnplacedSample { degree: held.max(even).next_power_of_two().min(room.ranks), padded, cost }
        };
        let mut samples: Vec<UnplacedSample> = costs.iter().map(sample).collect();
        samples.sort_by_key(|s| Reverse((s.degree, s.padded)));
        let mut schedule = DynamicContext {
            passes: Vec::new(),
            loads: vec![0; room.ranks as usize],
            tokens: lengths.iter().sum(),
            tokens_per_rank: room.tokens_per_rank,
            cost: all,
            of: vec![Vec::new(); room.ranks as usize],
        };
        samples.chunk_by(|a, b| a.degree == b.degree).for_each(|alike| schedule.place(alike));
        schedule
    }

    /// Puts samples of one degree, the longest first, each on the group that has least to do.
    fn place(&mut self, samples: &[UnplacedSample]) {
        let Some(degree) = samples.first().map(|sample| sample.degree as usize) else { return };
        let busy =
            |(group, ranks): (usize, &[u128])| Reverse((ranks.iter().copied().max().unwrap_or(0), group));
        let mut groups: BinaryHeap<_> = self.loads.chunks(degree).enumerate().map(busy).collect();
        let mut begun = vec![Vec::new(); groups.len()];
        for sample in samples {
            let Some(Reverse((load, group))) = groups.pop() else { return };
            let load = load + sample.cost / degree as u128;
            self.loads[group * degree..(group + 1) * degree].fill(load);
            self.pack(sample, group, &mut begun[group]);
            groups.push(Reverse((load, group)));
        }
    }

    /// Puts a sample of a group into the first of its passes with room for it, or into a new one.
    fn pack(&mut self, sample: &UnplacedSample, group: usize, begun: &mut Vec<usize>) {
        let room = sample.degree.saturating_mul(self.tokens_per_rank);
        let fits = |pass: &&usize| self.passes[**pass].1.tokens() + sample.padded <= room;
        if let Some(pass) = begun.iter().find(fits) {
            return self.passes[*pass].1.samples.push(sample.padded);
        }
        let (pass, first) = (self.passes.len(), group * sample.degree as usize);
        begun.push(pass);
        self.of[first..first + sample.degree as usize].iter_mut().for_each(|own| own.push(pass));
        let samples = vec![sample.padded];
        self.passes.push((first as u64, PackedPass { degree: sample.degree, samples }));
    }

    /// The passes of a rank in their order.
    pub fn of_rank(&self, rank: u64) -> impl Iterator<Item = &PackedPass> {
        self.of[rank as usize].iter().map(|pass| &self.passes[*pass].1)
    }
    /// Cost of the rank that has most over the mean of what ranks have to do.
    pub fn max_over_mean(&self) -> f64 {
        let most = self.loads.iter().copied().max().unwrap_or(0) as f64;
        most * self.loads.len() as f64 / self.cost as f64
    }
    /// Tokens with their padding.
    pub fn padded(&self) -> u64 {
        self.passes.iter().map(|(_, pass)| pass.tokens()).sum()
    }
    /// Tokens that a rank receives on average: each of a group gets the whole of a pass, and keeps its part
    /// (`reroute_samples_to_dcp_ranks`).
    pub fn received(&self) -> u64 {
        let all: u64 = self.passes.iter().map(|(_, pass)| pass.degree * pass.tokens()).sum();
        all / self.loads.len() as u64
    }
    /// Samples and passes by degree.
    pub fn by_degree(&self) -> BTreeMap<u64, OfDegree> {
        let mut found: BTreeMap<u64, OfDegree> = BTreeMap::new();
        for (_, pass) in &self.passes {
            let of = found.entry(pass.degree).or_default();
            of.samples += pass.samples.len() as u64;
            of.passes += 1;
            of.tokens += pass.tokens();
        }
        found
    }
}
