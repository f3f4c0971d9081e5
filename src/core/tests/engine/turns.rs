//! Turns of launched kernels: two ranks, each with a host that launches kernels and a collective a turn, a queue that
//! is full now and then, and results that are read back.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stepsim_core::engine::{self, Observer, State};
use stepsim_core::ids::{OpId, RankId, TransferId};
use stepsim_core::program::{
    Action, NO_MICRO_BATCH, OpInfo, Phase, Program, ProgramBuilder, StreamKind, Work, World,
};
use stepsim_core::units::Time;

/// What one rank does in a turn.
struct Turn {
    /// How long each launch and its kernel take, and whether the host reads the result.
    kernels: Vec<(u64, u64, bool)>,
    latency: u64,
    /// Launches that may wait to run.
    queue: usize,
}

impl Turn {
    fn drawn(rng: &mut ChaCha8Rng) -> Turn {
        let count = rng.random_range(1..6);
        let slow = if rng.random_bool(0.3) { 40 } else { 8 };
        let kernel =
            |rng: &mut ChaCha8Rng| (rng.random_range(1..slow), rng.random_range(1..20), rng.random_bool(0.1));
        let kernels = (0..count).map(|_| kernel(rng)).collect();
        Turn { kernels, latency: rng.random_range(0..9), queue: rng.random_range(1..15) }
    }

    /// Ops of the host and of the device, the collective among them.
    fn heads(&self) -> [u32; 3] {
        let reads = self.kernels.iter().filter(|(.., read)| *read).count() as u32;
        let kernels = self.kernels.len() as u32;
        [kernels + 1 + reads, kernels, 1]
    }

    fn program(&self, turns: usize) -> Program {
        let mut b = ProgramBuilder::new();
        b.info(OpInfo::of("op", Phase::Forward, 0.0));
        let [host, compute, tensor] =
            [StreamKind::Host, StreamKind::Compute, StreamKind::Tensor].map(|kind| b.stream(kind));
        b.latency(host, Time::from_ns(self.latency));
        let kernel = |ns: u64| Work::Compute { time: Time::from_ns(ns) };
        let mut launched: Vec<OpId> = Vec::new();
        for _ in 0..turns {
            let gather = (3, 0, false);
            for (at, &(launch, time, read)) in self.kernels.iter().chain([&gather]).enumerate() {
                let room = launched.len().checked_sub(self.queue).map(|oldest| launched[oldest]);
                let launch = b.op(host, kernel(launch), room.as_slice(), 0, NO_MICRO_BATCH);
                let last = launched.last().copied();
                let op = if at == self.kernels.len() {
                    let waits: Vec<OpId> = last.into_iter().chain([launch]).collect();
                    let work = Work::Comm { slot: 0, transfer: TransferId(0) };
                    b.op(tensor, work, &waits, 0, NO_MICRO_BATCH)
                } else {
                    let waits: Vec<OpId> = last.filter(|_| at == 0).into_iter().chain([launch]).collect();
                    b.op(compute, kernel(time), &waits, 0, NO_MICRO_BATCH)
                };
                launched.push(op);
                if read {
                    b.op(host, kernel(2), &[op], 0, NO_MICRO_BATCH);
                }
            }
        }
        b.finish()
    }
}

fn world(ranks: &[Turn], turns: usize) -> World {
    let mut world = World::default();
    let action = world.add_action(Action::Fixed(Time::from_ns(7)));
    let profile = world.add_profile([action]);
    let ranks: Vec<RankId> = ranks
        .iter()
        .map(|turn| {
            let program = world.add_program(turn.program(turns));
            world.add_rank(program, 1)
        })
        .collect();
    let comm = world.add_comm(profile, &ranks, &[&[]]);
    ranks.iter().for_each(|rank| world.bind(*rank, 0, comm));
    world
}

/// States at the end of the first kernel of each turn of rank 0, with or without events for the launches.
struct States<const IN_ORDER: bool> {
    kernels: usize,
    compute: Vec<OpId>,
    next: usize,
    wanted: bool,
    states: Vec<State>,
}

impl<const ORDER: bool> Observer for States<ORDER> {
    fn in_order(&self) -> bool {
        ORDER
    }
    fn finished(&mut self, rank: u32, op: u32, _: Time, _: Time) {
        if rank == 0 && self.compute.get(self.next * self.kernels) == Some(&OpId(op)) {
            (self.wanted, self.next) = (true, self.next + 1);
        }
    }
    fn wants_state(&self) -> bool {
        self.wanted
    }
    fn state(&mut self, state: State) {
        self.wanted = false;
        self.states.push(state);
    }
}

fn states<const ORDER: bool>(world: &World, turn: &Turn) -> Vec<State> {
    let compute = world.program_of(RankId(0)).streams[1].ops.clone();
    let (next, wanted, states) = (0, false, Vec::new());
    let mut told = States::<ORDER> { kernels: turn.kernels.len(), compute, next, wanted, states };
    engine::run_observed(world, &mut told).expect("a run");
    told.states
}

/// The first two states that are one, all heads so many turns further on and none at its end, and how many.
fn recurring(states: &[State], turns: &[Turn], world: &World) -> Option<(usize, Time)> {
    let in_turn: Vec<u32> = turns.iter().flat_map(Turn::heads).collect();
    let streams = world.ranks().iter().flat_map(|rank| &world.programs()[rank.program.index()].streams);
    let ends: Vec<u32> = streams.map(|stream| stream.ops.len() as u32).collect();
    (1..=4).find_map(|n| {
        states.windows(n + 1).find_map(|w| {
            let (before, after) = (&w[0], &w[n]);
            let on = |((from, to), (turn, end)): ((&u32, &u32), (&u32, &u32))| {
                from + n as u32 * turn == *to && to < end
            };
            let heads = before.heads.iter().zip(&after.heads).zip(in_turn.iter().zip(&ends));
            (before.rest == after.rest && heads.clone().all(on)).then(|| (n, after.at - before.at))
        })
    })
}

/// Draws so many pairs of ranks and plays them; how many came back to a state.
pub fn recur(seeds: u64) -> usize {
    const TURNS: usize = 24;
    let mut found = 0;
    for seed in 0..seeds {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let turns = [Turn::drawn(&mut rng), Turn::drawn(&mut rng)];
        let short = world(&turns, TURNS);
        let known = [
            recurring(&states::<true>(&short, &turns[0]), &turns, &short),
            recurring(&states::<false>(&short, &turns[0]), &turns, &short),
        ];
        for (n, turn) in known.into_iter().flatten() {
            found += 1;
            let end =
                |turns_more: usize| engine::run(&world(&turns, TURNS + turns_more)).expect("a run").step_end;
            assert_eq!(end(3 * n), end(0) + turn * 3, "pair {seed}: {n} turns of {turn}, {known:?}");
        }
    }
    found
}
