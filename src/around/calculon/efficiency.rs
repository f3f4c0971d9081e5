//! Efficiencies and the sample rate (restatement §2.10).

use super::terms::CalculonTerms;

/// How well the step uses its processors. Recomputation does not count as useful, full s² attention does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Efficiency {
    /// FLOP of one block and micro-batch: forward, both gradients, optimizer.
    pub useful_flops: f64,
    /// Useful FLOP at peak rate over the time of forward, backward and optimizer.
    pub compute: f64,
    /// Time of forward, backward and optimizer over the whole step.
    pub system: f64,
    /// Useful FLOP at peak rate over the whole step: an MFU.
    pub total: f64,
    /// Sequences per second.
    pub sample_rate: f64,
}

impl Efficiency {
    /// From the useful FLOP of one block, `blocks` = n·M of them, the matrix peak in FLOP/s and the global batch.
    pub fn new(useful_flops: f64, blocks: f64, peak: f64, batch: f64, terms: &CalculonTerms) -> Efficiency {
        let at_peak = blocks * useful_flops / peak;
        let compute = terms.forward + terms.backward + terms.optimizer;
        Efficiency {
            useful_flops,
            compute: at_peak / compute,
            system: compute / terms.total(),
            total: at_peak / terms.total(),
            sample_rate: batch / terms.total(),
        }
    }
}
