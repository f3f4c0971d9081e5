//! Who gets which sequence of the global batch.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::lengths::packed;
use stepsim_spec::SpecError;
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::{SequenceOrder, WorkloadSpec};

/// The sequences of a step, dealt to data-parallel ranks and micro-batches.
#[derive(Clone, Debug, PartialEq)]
pub struct Dealt {
    /// Lengths of the documents of each sequence, in the order in which they are packed.
    pub sequences: Vec<Vec<u64>>,
    micro_batches: usize,
    micro_batch: usize,
    /// By rank, in it by micro-batch: numbers of its sequences.
    of: Vec<u32>,
}

impl Dealt {
    /// The deal of a workload on `devices`; `None` where sequences hold no documents.
    ///
    /// # Errors
    /// Documents that cannot be read or are too many.
    pub fn new(workload: &WorkloadSpec, model: &ModelSpec, devices: u64) -> Result<Option<Dealt>, SpecError> {
        let Some(spec) = &workload.documents else { return Ok(None) };
        let sequences = packed(spec, workload.sequence(model), workload.batch.global)?;
        let ranks = workload.data_parallel(devices) as usize;
        let each = sequences.len() / ranks;
        let micro_batch = workload.batch.micro_batch as usize;
        let micro_batches = each / micro_batch;
        let costs: Vec<u128> = sequences.iter().map(|s| squares(s)).collect();
        let of = deal(&costs, spec.order, ranks, micro_batch);
        Ok(Some(Dealt { sequences, micro_batches, micro_batch, of }))
    }

    /// Data-parallel ranks.
    pub fn ranks(&self) -> usize {
        self.of.len() / (self.micro_batches * self.micro_batch)
    }
    /// Micro-batches of a rank.
    pub fn micro_batches(&self) -> usize {
        self.micro_batches
    }
    /// The sequences of a micro-batch of a rank.
    pub fn micro_batch(&self, rank: usize, number: usize) -> Vec<&[u64]> {
        let first = (rank * self.micro_batches + number) * self.micro_batch;
        self.of[first..first + self.micro_batch].iter().map(|s| &*self.sequences[*s as usize]).collect()
    }
    /// Squares of all lengths, summed over the sequences of each micro-batch, rank after rank: what attention costs.
    pub fn costs(&self) -> Vec<f64> {
        let all = (0..self.ranks()).flat_map(|r| (0..self.micro_batches).map(move |m| (r, m)));
        all.map(|(r, m)| self.micro_batch(r, m).iter().map(|s| squares(s) as f64).sum()).collect()
    }
}

/// Numbers of sequences of these costs by rank, in it by micro-batch.
pub(super) fn deal(costs: &[u128], order: SequenceOrder, ranks: usize, micro_batch: usize) -> Vec<u32> {
    let each = costs.len() / ranks;
    let mut costliest: Vec<u32> = (0..costs.len() as u32).collect();
    if order != SequenceOrder::Packed {
        costliest.sort_by_key(|s| Reverse(costs[*s as usize]));
    }
    let mut of = vec![0; ranks * each];
    match order {
        // Round after round over the ranks; where they are sorted, every other round backwards.
        SequenceOrder::Packed | SequenceOrder::Sorted => {
            for (i, sequence) in costliest.into_iter().enumerate() {
                let (m, in_micro_batch) = (i / (ranks * micro_batch), i % (ranks * micro_batch));
                let (rank, k) = match order {
                    SequenceOrder::Packed => (in_micro_batch / micro_batch, in_micro_batch % micro_batch),
                    _ if (i / ranks).is_multiple_of(2) => (i % ranks, in_micro_batch / ranks),
                    _ => (ranks - 1 - i % ranks, in_micro_batch / ranks),
                };
                of[rank * each + m * micro_batch + k] = sequence;
            }
        }
        SequenceOrder::Balanced => {
            let mut least: BinaryHeap<Reverse<(u128, usize, usize)>> =
                (0..ranks).map(|rank| Reverse((0, rank, 0))).collect();
            for sequence in costliest {
                let Some(Reverse((cost, rank, held))) = least.pop() else { break };
                of[rank * each + held] = sequence;
                if held + 1 < each {
                    least.push(Reverse((cost + costs[sequence as usize], rank, held + 1)));
                }
            }
        }
    }
    of
}

/// Sum of the squares of lengths.
fn squares(lengths: &[u64]) -> u128 {
    lengths.iter().map(|l| u128::from(*l).pow(2)).sum()
}
