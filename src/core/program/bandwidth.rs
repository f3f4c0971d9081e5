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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ProgramId, RankId, TransferId};
    use crate::program::{
        Action, Edit, Flow, NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, StreamKind, Work,
    };
    use crate::units::{Bandwidth, Time};

    /// A rank whose kernels of 100 ps move six tenths of what its memory of 1 TB/s can, and copies over links of as
    /// many GB/s.
    fn world(links: &[f64]) -> World {
        let mut b = ProgramBuilder::new();
        b.info(OpInfo::of("kernel", Phase::Forward, 60.0));
        let streams = [b.stream(StreamKind::Compute), b.stream(StreamKind::CopyIn)];
        b.op(streams[0], Work::Compute { time: Time(100) }, &[], 0, NO_MICRO_BATCH);
        b.op(streams[1], Work::Comm { slot: 0, transfer: TransferId(0) }, &[], 0, NO_MICRO_BATCH);
        let mut world = World::default();
        world.add_program(b.finish());
        let rank = world.add_rank(ProgramId(0), 1);
        let memory = world.add_resource(Bandwidth(1e12));
        world.set_memory(rank, &[(memory, 1)]);
        let flow = Flow { latency: Time::ZERO, bytes: 1.0, rate_limit: f64::INFINITY, path: 0 };
        let action = world.add_action(Action::Phases(vec![flow]));
        let profile = world.add_profile([action]);
        for gbps in links {
            let link = world.add_resource(Bandwidth(1e9 * gbps));
            // Two ways of one copy; it takes one at a time.
            world.add_comm(profile, &[rank], &[&[(memory, 1), (link, 1)], &[(memory, 1), (link, 2)]]);
        }
        world
    }

    #[test]
    fn kernels_feel_what_can_fill_their_memory() {
        let felt = |world: &World| world.felt_by_kernels()[0];
        assert!(!felt(&world(&[])) && !felt(&world(&[300.0])) && !felt(&world(&[200.0, 100.0, 50.0])));
        assert!(felt(&world(&[401.0])) && felt(&world(&[200.0, 100.0, 101.0])));
        // Quick kernels ask for more; slow ones are not told from others.
        let edited = |edit| {
            let mut world = world(&[300.0]);
            world.edit(&edit);
            world
        };
        assert!(
            felt(&edited(Edit::SlowRank(RankId(0), 0.8))) && !felt(&edited(Edit::SlowRank(RankId(0), 2.0)))
        );
        // A draw counts where ranks draw.
        let mut jitter = world(&[300.0]);
        jitter.set_jitter(vec![1.5, 0.8]);
        assert!(!felt(&jitter));
        jitter.set_jitter_seed(RankId(0), 1);
        assert!(felt(&jitter));
        // Of a graph, any number of flows may be under way.
        let mut graph = world(&[1.0]);
        graph.actions[0] = Action::Graph { flows: vec![], parents: vec![], parent_ids: vec![] };
        assert!(felt(&graph));
    }
}
