//! A naive engine: floating-point seconds, every rate found from scratch at every event by progressive filling over
//! all flows (kernels among them, on their devices' memory), every stream looked at every time. It shares no code
//! with the engine and none of its ideas.

use stepsim_core::ids::{CommId, RankId, TransferId};
use stepsim_core::program::{Action, BEHIND, Flow, Work, World};

/// Start and end of every op of every rank, in seconds.
pub fn run(world: &World) -> Vec<Vec<(f64, f64)>> {
    let mut play = Naive::new(world);
    loop {
        while play.start_what_can() {}
        let rates = play.rates();
        let Some(dt) = play.next(&rates) else { break };
        play.pass(dt, &rates);
    }
    assert!(play.streams.iter().all(|s| s.cursor == s.ops.len()), "the naive engine stands still");
    play.spans
}

struct Naive<'w> {
    world: &'w World,
    now: f64,
    spans: Vec<Vec<(f64, f64)>>,
    /// By rank and op: seconds from its end until other streams see it; below `OVER` once they do.
    unseen: Vec<Vec<f64>>,
    done: Vec<Vec<bool>>,
    streams: Vec<Stream>,
    /// By communicator: the streams that have arrived, and what is played once all have.
    arrived: Vec<Vec<usize>>,
    playing: Vec<Option<Playing>>,
}

struct Stream {
    rank: usize,
    takes_units: bool,
    ops: Vec<usize>,
    cursor: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Waits,
    /// A kernel with this many seconds left if nothing disturbs it.
    Kernel(f64),
    Arrived,
}

struct Playing {
    units: f64,
    slot_of_time: f64,
    /// Flows by node: (flow, nodes that must have ended, state).
    nodes: Vec<(Flow, Vec<u32>, Node)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Node {
    Waits,
    Latency(f64),
    Moves(f64),
    Ended,
}

/// What happens at a constant rate until the next event: where, seconds or bytes left, how fast.
struct Rates {
    /// By stream: progress of its kernel for each second.
    kernels: Vec<f64>,
    /// By communicator and node: bytes each second.
    flows: Vec<(usize, usize, f64)>,
}

/// Less than this, in seconds, is over: a thousandth of a picosecond.
const OVER: f64 = 1e-15;

impl<'w> Naive<'w> {
    fn new(world: &'w World) -> Self {
        let mut streams = Vec::new();
        for rank in 0..world.ranks().len() {
            for stream in &world.program_of(RankId(rank as u32)).streams {
                streams.push(Stream {
                    rank,
                    takes_units: stream.traits.takes_units,
                    ops: stream.ops.iter().map(|o| o.index()).collect(),
                    cursor: 0,
                    state: State::Waits,
                });
            }
        }
        let ops = |r: usize| world.program_of(RankId(r as u32)).ops.len();
        Naive {
            world,
            now: 0.0,
            spans: (0..world.ranks().len()).map(|r| vec![(0.0, 0.0); ops(r)]).collect(),
            unseen: (0..world.ranks().len()).map(|r| latencies(world, RankId(r as u32))).collect(),
            done: (0..world.ranks().len()).map(|r| vec![false; ops(r)]).collect(),
            streams,
            arrived: vec![Vec::new(); world.comms().len()],
            playing: world.comms().iter().map(|_| None).collect(),
        }
    }

    /// Starts kernels, arrivals, actions and flows that wait for nothing, and ends what is over; false if there is
    /// none.
    fn start_what_can(&mut self) -> bool {
        let mut moved = false;
        for s in 0..self.streams.len() {
            moved |= self.advance(s);
        }
        for c in 0..self.playing.len() {
            moved |= self.play(c);
        }
        moved
    }

    fn advance(&mut self, s: usize) -> bool {
        let Stream { rank, cursor, state, .. } = self.streams[s];
        let Some(&op) = self.streams[s].ops.get(cursor) else { return false };
        let program = self.world.program_of(RankId(rank as u32));
        match state {
            State::Waits => {
                let waits = &program.waits[program.ops[op].waits.range()];
                let sees = |w: usize| {
                    let own = program.ops[w].stream == program.ops[op].stream;
                    self.done[rank][w] && (own || self.unseen[rank][w] <= OVER)
                };
                if waits.iter().any(|w| !sees(w.index())) {
                    return false;
                }
                match program.ops[op].work {
                    Work::Compute { time } => {
                        self.spans[rank][op].0 = self.now;
                        let time = (time.0 as f64 * self.world.ranks()[rank].slowness).round();
                        self.streams[s].state = State::Kernel(time / 1e12);
                    }
                    Work::Comm { slot, transfer } => {
                        self.streams[s].state = State::Arrived;
                        let comm = self.world.slots_of(RankId(rank as u32))[usize::from(slot)].index();
                        self.arrived[comm].push(s);
                        if self.arrived[comm].len() == self.world.comms()[comm].needed as usize {
                            self.start_action(comm, transfer.index());
                        }
                    }
                }
                true
            }
            State::Kernel(left) if left <= OVER => {
                self.end(s);
                true
            }
            State::Kernel(_) | State::Arrived => false,
        }
    }

    fn end(&mut self, s: usize) {
        let stream = &mut self.streams[s];
        let op = stream.ops[stream.cursor];
        stream.cursor += 1;
        stream.state = State::Waits;
        self.spans[stream.rank][op].1 = self.now;
        self.done[stream.rank][op] = true;
    }

    fn start_action(&mut self, comm: usize, transfer: usize) {
        for &s in &self.arrived[comm] {
            let stream = &self.streams[s];
            self.spans[stream.rank][stream.ops[stream.cursor]].0 = self.now;
        }
        let (id, transfer) = (CommId(comm as u32), TransferId(transfer as u32));
        let (action, units) = self.world.action_of(id, transfer).expect("a transfer of this communicator");
        let (time, nodes) = match action {
            Action::Fixed(time) => (time.s(), Vec::new()),
            Action::Phases(flows) => {
                let follows = |i: usize| (0..i as u32).rev().take(1).collect();
                (0.0, flows.iter().enumerate().map(|(i, f)| (*f, follows(i), Node::Waits)).collect())
            }
            Action::Graph { flows, parents, parent_ids } => {
                let all = |i: usize| parent_ids[parents[i].range()].to_vec();
                (0.0, flows.iter().enumerate().map(|(i, f)| (*f, all(i), Node::Waits)).collect())
            }
            Action::Rounds(_) => unreachable!("random worlds write their rounds out"),
        };
        let units = f64::from(units) / 1000.0;
        self.playing[comm] = Some(Playing { units, slot_of_time: time, nodes });
    }

    fn play(&mut self, comm: usize) -> bool {
        let Some(playing) = &mut self.playing[comm] else { return false };
        let mut moved = false;
        for i in 0..playing.nodes.len() {
            let ended = |p: u32| playing.nodes[(p & !BEHIND) as usize].2 == Node::Ended;
            let ready = playing.nodes[i].1.iter().all(|&p| p & BEHIND != 0 || ended(p));
            let free = playing.nodes[i].1.iter().all(|&p| ended(p));
            let (flow, _, state) = &mut playing.nodes[i];
            let next = match *state {
                Node::Waits if ready => Node::Latency(flow.latency.s()),
                Node::Latency(left) if left <= OVER && free => Node::Moves(flow.bytes),
                // Bytes that a terabyte a second moves in no time.
                Node::Moves(left) if left <= OVER * 1e12 => Node::Ended,
                same => same,
            };
            moved |= next != *state;
            *state = next;
        }
        if playing.slot_of_time <= OVER && playing.nodes.iter().all(|n| n.2 == Node::Ended) {
            self.playing[comm] = None;
            for s in std::mem::take(&mut self.arrived[comm]) {
                self.end(s);
            }
            moved = true;
        }
        moved
    }

    /// Units taken from a rank's device by communication that runs, in those that slowdowns are for.
    fn taken(&self, rank: usize) -> f64 {
        let mut taken = 0.0;
        for (streams, playing) in self.arrived.iter().zip(&self.playing) {
            let Some(playing) = playing else { continue };
            let on = |s: &&usize| self.streams[**s].rank == rank && self.streams[**s].takes_units;
            taken += playing.units * streams.iter().filter(on).count() as f64;
        }
        taken
    }

    /// The pace of the kernel at the head of a stream as units are taken, and what it moves at full pace.
    fn pace(&self, stream: &Stream) -> (f64, f64) {
        let rank = RankId(stream.rank as u32);
        let op = &self.world.program_of(rank).ops[stream.ops[stream.cursor]];
        let slowdown = f64::from(op.slowdown) / 1000.0;
        let Work::Compute { time } = op.work else { return (0.0, 0.0) };
        let longer = (time.0 as f64 * self.world.ranks()[rank.index()].slowness).round() / time.0 as f64;
        let moves = f64::from(op.memory_rate) / longer;
        (1.0 / (1.0 + slowdown * self.taken(stream.rank)), moves)
    }

    fn rates(&self) -> Rates {
        let mut kernels: Vec<f64> = Vec::new();
        // Every kernel that moves anything is a flow: those come first.
        let mut flows: Vec<Active> = Vec::new();
        for (s, stream) in self.streams.iter().enumerate() {
            kernels.push(0.0);
            if let State::Kernel(_) = stream.state {
                let (pace, moves) = self.pace(stream);
                kernels[s] = pace;
                let memory = self.world.memory_of(RankId(stream.rank as u32));
                if moves > 0.0 && !memory.is_empty() {
                    let path = memory.iter().map(|(r, a)| (r.index(), *a)).collect();
                    flows.push((usize::MAX, s, path, pace * moves));
                }
            }
        }
        for (c, playing) in self.playing.iter().enumerate() {
            for (i, (flow, _, state)) in playing.iter().flat_map(|p| p.nodes.iter().enumerate()) {
                if matches!(state, Node::Moves(_)) {
                    let path = self.world.path(CommId(c as u32), flow.path);
                    flows.push((c, i, path.iter().map(|(r, a)| (r.index(), *a)).collect(), flow.rate_limit));
                }
            }
        }
        let rates = progressive_filling(self.world, &flows);
        for (f, rate) in flows.iter().zip(&rates).filter(|(f, _)| f.0 == usize::MAX) {
            kernels[f.1] = rate / self.pace(&self.streams[f.1]).1;
        }
        let moving = flows.iter().zip(rates).filter(|(f, _)| f.0 != usize::MAX);
        Rates { kernels, flows: moving.map(|(f, rate)| (f.0, f.1, rate)).collect() }
    }

    /// Seconds until something ends; `None` if nothing is on its way.
    fn next(&self, rates: &Rates) -> Option<f64> {
        let mut next = f64::INFINITY;
        for (stream, speed) in self.streams.iter().zip(&rates.kernels) {
            if let State::Kernel(left) = stream.state {
                next = next.min(left / speed);
            }
        }
        for (unseen, done) in self.unseen.iter().flatten().zip(self.done.iter().flatten()) {
            if *done && *unseen > OVER {
                next = next.min(*unseen);
            }
        }
        for playing in self.playing.iter().flatten() {
            if playing.nodes.is_empty() {
                next = next.min(playing.slot_of_time);
            }
            for node in &playing.nodes {
                if let Node::Latency(left) = node.2
                    && left > OVER
                {
                    next = next.min(left);
                }
            }
        }
        for &(c, i, rate) in &rates.flows {
            if let Some(Node::Moves(left)) = self.playing[c].as_ref().map(|p| p.nodes[i].2) {
                next = next.min(left / rate);
            }
        }
        next.is_finite().then_some(next)
    }

    fn pass(&mut self, dt: f64, rates: &Rates) {
        self.now += dt;
        for (stream, speed) in self.streams.iter_mut().zip(&rates.kernels) {
            if let State::Kernel(left) = &mut stream.state {
                *left -= dt * speed;
            }
        }
        for (unseen, done) in self.unseen.iter_mut().flatten().zip(self.done.iter().flatten()) {
            *unseen -= if *done { dt } else { 0.0 };
        }
        for playing in self.playing.iter_mut().flatten() {
            playing.slot_of_time -= dt;
            for node in &mut playing.nodes {
                if let Node::Latency(left) = &mut node.2 {
                    *left -= dt;
                }
            }
        }
        for &(c, i, rate) in &rates.flows {
            if let Some(playing) = &mut self.playing[c]
                && let Node::Moves(left) = &mut playing.nodes[i].2
            {
                // What is left after the last byte's time is rounding.
                *left = if *left - dt * rate <= 1e-12 * *left { 0.0 } else { *left - dt * rate };
            }
        }
    }
}

/// By op of a rank: seconds from its end until other streams see it.
fn latencies(world: &World, rank: RankId) -> Vec<f64> {
    let program = world.program_of(rank);
    program.ops.iter().map(|op| program.streams[usize::from(op.stream)].latency.s()).collect()
}

/// A flow in progress: communicator, node, its path (resource, times), its own limit.
type Active = (usize, usize, Vec<(usize, u32)>, f64);

/// Max–min fair rates: one level for all that are not frozen, raised from limit to limit.
fn progressive_filling(world: &World, flows: &[Active]) -> Vec<f64> {
    let mut rate = vec![f64::NAN; flows.len()];
    while rate.iter().any(|r| r.is_nan()) {
        let mut level = f64::INFINITY;
        let at = |r: usize| -> f64 {
            let load = |frozen: bool| -> f64 {
                let on = flows.iter().zip(&rate).filter(|(_, rate)| rate.is_nan() != frozen);
                on.flat_map(|(f, rate)| f.2.iter().filter(|u| u.0 == r).map(move |u| (u.1, *rate)))
                    .map(|(a, rate)| f64::from(a) * if frozen { rate } else { 1.0 })
                    .sum()
            };
            (world.resources()[r].capacity.0 - load(true)).max(0.0) / load(false)
        };
        for (f, rate) in flows.iter().zip(&rate) {
            if rate.is_nan() {
                level = level.min(f.3);
                level = f.2.iter().map(|u| at(u.0)).fold(level, f64::min);
            }
        }
        let full: Vec<bool> = (0..world.resources().len()).map(|r| at(r) <= level * (1.0 + 1e-12)).collect();
        for (f, rate) in flows.iter().zip(&mut rate) {
            if rate.is_nan() && (f.3 <= level || f.2.iter().any(|u| full[u.0])) {
                *rate = level;
            }
        }
    }
    rate
}
