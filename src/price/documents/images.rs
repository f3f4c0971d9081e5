//! Images that are spread unevenly over sequences: how many each sequence has, and who gets which sequence.

use super::dealt::deal;
use super::lengths::drawn;
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::{SequenceOrder, UsedModule, WorkloadSpec};

/// The images of a step by module: of each sequence, and of each micro-batch of each data-parallel rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Images {
    /// By module, in it by sequence.
    pub of_sequences: Vec<Vec<u64>>,
    /// By rank, in it by micro-batch: by module. Of modules whose images are exchanged, what the rank encodes.
    of_micro_batches: Vec<Vec<Vec<u64>>>,
}

/// Images of each of the sequences.
pub fn items_of(module: &UsedModule, sequences: u64) -> Vec<u64> {
    let usage = module.usage;
    match (&usage.counts, &usage.drawn) {
        (Some(counts), _) => counts.iter().copied().cycle().take(sequences as usize).collect(),
        (_, Some(law)) => drawn(&law.law(), sequences),
        _ => vec![usage.items.unwrap_or(0); sequences as usize],
    }
}

impl Images {
    /// The images of a workload on `devices`; `None` where all sequences have equally many.
    pub fn new(workload: &WorkloadSpec, model: &ModelSpec, devices: u64) -> Option<Images> {
        let modules = workload.used_modules(model);
        if !modules.iter().any(UsedModule::is_uneven) {
            return None;
        }
        let sequences = workload.batch.global;
        let of_sequences: Vec<Vec<u64>> = modules.iter().map(|m| items_of(m, sequences)).collect();
        // An image costs by its patches.
        let cost = |s: usize| -> u128 {
            let of_module = |(m, counts): (&UsedModule<'_>, &Vec<u64>)| u128::from(counts[s] * m.patches());
            modules.iter().zip(&of_sequences).map(of_module).sum()
        };
        let costs: Vec<u128> = (0..sequences as usize).map(cost).collect();
        let order = modules.iter().find(|m| m.is_uneven()).map_or(SequenceOrder::Packed, |m| m.usage.order);
        let (ranks, micro_batch) =
            (workload.data_parallel(devices) as usize, workload.batch.micro_batch as usize);
        let of = deal(&costs, order, ranks, micro_batch);
        let sum = |numbers: &[u32]| -> Vec<u64> {
            let of_module = |counts: &Vec<u64>| numbers.iter().map(|s| counts[*s as usize]).sum();
            of_sequences.iter().map(of_module).collect()
        };
        let of_rank = |rank: &[u32]| rank.chunks(micro_batch).map(sum).collect();
        let mut of_micro_batches: Vec<Vec<Vec<u64>>> = of.chunks(of.len() / ranks).map(of_rank).collect();
        let exchanged = modules.iter().enumerate().filter(|(_, m)| m.is_exchanged());
        exchanged.for_each(|(module, _)| exchange(&mut of_micro_batches, module));
        Some(Images { of_sequences, of_micro_batches })
    }

    /// Data-parallel ranks.
    pub fn ranks(&self) -> usize {
        self.of_micro_batches.len()
    }
    /// Images of each micro-batch of a rank, by module.
    pub fn of_rank(&self, rank: usize) -> &[Vec<u64>] {
        &self.of_micro_batches[rank]
    }
    /// The most that a micro-batch has, by module.
    pub fn fullest(&self) -> Vec<u64> {
        self.by_module(|counts| counts.max().unwrap_or(0))
    }
    /// The mean of a micro-batch, by module, rounded up.
    pub fn usual(&self) -> Vec<u64> {
        let all = self.of_micro_batches.iter().map(Vec::len).sum::<usize>() as u64;
        self.by_module(|counts| counts.sum::<u64>().div_ceil(all))
    }
    /// The mean of a micro-batch of the rank that has most in the step, by module, rounded up.
    pub fn slowest(&self) -> Vec<u64> {
        let sum = |rank: &Vec<Vec<u64>>, module: usize| rank.iter().map(|of| of[module]).sum::<u64>();
        let of_module = |module: usize| {
            let most = self.of_micro_batches.iter().map(|rank| sum(rank, module)).max().unwrap_or(0);
            most.div_ceil(self.of_micro_batches[0].len() as u64)
        };
        (0..self.of_sequences.len()).map(of_module).collect()
    }
    fn by_module(&self, of: impl Fn(&mut dyn Iterator<Item = u64>) -> u64) -> Vec<u64> {
        let counts = |module: usize| self.of_micro_batches.iter().flatten().map(move |of| of[module]);
        (0..self.of_sequences.len()).map(|module| of(&mut counts(module))).collect()
    }
}

/// Every rank gets an equal share of the images of each micro-batch of all ranks; the fullest decides.
fn exchange(of_micro_batches: &mut [Vec<Vec<u64>>], module: usize) {
    let ranks = of_micro_batches.len() as u64;
    for micro_batch in 0..of_micro_batches[0].len() {
        let all: u64 = of_micro_batches.iter().map(|rank| rank[micro_batch][module]).sum();
        let share = all.div_ceil(ranks);
        of_micro_batches.iter_mut().for_each(|rank| rank[micro_batch][module] = share);
    }
}
