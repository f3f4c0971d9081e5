//! Where kernels can feel the bandwidth of their device's memory.
//!
//! A kernel asks for its bytes over its time; what crosses the same memory beside it, for what the rest of its path
//! allows. Where all of that at once is less than the memory has, everybody gets what they ask for whatever runs
//! beside what, so that nobody need look. The most that can be asked for is known before a run: each compute stream
//! runs one kernel at a time, and each communicator that plays no graph has one flow at a time.

use super::World;
use crate::ids::ResourceId;

/// The part of a memory that may be asked for where nobody looks: a billionth less than all, far more than sums err.
const ALL: f64 = 1.0 - 1e-9;

impl World {
    /// By resource, whether kernels alone can ask more of it, as the bandwidth of their devices' memory, than it has.
    pub fn filled_by_kernels(&self) -> Vec<bool> {
        self.more_than_there_is(&self.asked_by_kernels(1.0))
    }

    fn more_than_there_is(&self, asked: &[f64]) -> Vec<bool> {
        asked.iter().zip(&self.resources).map(|(asked, r)| *asked > r.capacity.0).collect()
    }

    /// By resource, whether kernels can feel it as the bandwidth of their device's memory: they can fill it alone, or
    /// together with what else crosses it.
    pub fn felt_by_kernels(&self) -> Vec<bool> {
        let nominal = self.asked_by_kernels(1.0);
        let mut felt = self.more_than_there_is(&nominal);
        if nominal.iter().all(|asked| *asked == 0.0) {
            return felt;
        }
        let fastest = self.fastest();
        let kernels = if fastest < 1.0 { self.asked_by_kernels(fastest) } else { nominal };
        let flows = self.asked_by_flows(&kernels);
        for (felt, ((kernels, flows), r)) in
            felt.iter_mut().zip(kernels.iter().zip(&flows).zip(&self.resources))
        {
            *felt |= *flows > 0.0 && kernels + flows > ALL * r.capacity.0;
        }
        felt
    }

    /// The least factor on the time of a kernel.
    fn fastest(&self) -> f64 {
        let drawn = self.jitter.iter().copied().fold(1.0, f64::min);
        let of_ranks =
            self.ranks.iter().map(|rank| rank.slowness * if rank.jitter_seed != 0 { drawn } else { 1.0 });
        of_ranks.fold(1.0, f64::min)
    }

    /// By resource, the most that kernels can ask of it where none takes less than `fastest` of its time: the
    /// hungriest of each compute stream at once.
    fn asked_by_kernels(&self, fastest: f64) -> Vec<f64> {
        let mut asked = vec![0.0; self.resources.len()];
        let mut most = vec![None; self.programs.len()];
        for rank in self.ranks.iter().filter(|rank| !rank.memory.is_empty()) {
            let Some(program) = self.programs.get(rank.program.index()) else { continue };
            let most = *most[rank.program.index()].get_or_insert_with(|| program.most_memory_rate(fastest));
            self.uses[rank.memory.range()].iter().for_each(|&(r, a)| asked[r.index()] += most * f64::from(a));
        }
        asked
    }

    /// By resource that kernels ask something of, the most that flows can: one of each communicator, or without end
    /// where it plays a graph of them.
    fn asked_by_flows(&self, by_kernels: &[f64]) -> Vec<f64> {
        let mut asked = vec![0.0; self.resources.len()];
        // By resource: the communicator that was last found to cross it, and the most that one of its flows asks for.
        let mut last = vec![(usize::MAX, 0.0); self.resources.len()];
        let graphs: Vec<bool> = (0..self.profiles.len()).map(|p| self.plays_graphs(p as u32)).collect();
        for (c, comm) in self.comms.iter().enumerate() {
            for span in self.paths.get(comm.paths.range()).unwrap_or_default() {
                let uses = &self.uses[span.range()];
                if uses.iter().all(|(r, _)| by_kernels[r.index()] == 0.0) {
                    continue;
                }
                let alone = |&(r, a): &(ResourceId, u32)| self.resources[r.index()].capacity.0 / f64::from(a);
                let many = graphs.get(comm.profile as usize).is_none_or(|graphs| *graphs);
                let rate =
                    if many { f64::INFINITY } else { uses.iter().map(alone).fold(f64::INFINITY, f64::min) };
                for &(r, a) in uses {
                    let (of, before) = last[r.index()];
                    let before = if of == c { before } else { 0.0 };
                    let most = f64::max(before, rate * f64::from(a));
                    asked[r.index()] += if before.is_finite() { most - before } else { 0.0 };
                    last[r.index()] = (c, most);
                }
            }
        }
        asked
    }
}
