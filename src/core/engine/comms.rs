//! Communication: members that arrive, actions that play out, flows that share.

use rustc_hash::FxHashMap;

use super::code::NONE;
use super::event_loop::{COMM, FLOW, LATENCY, Play};
use super::moving::Moving;
use super::ranks::ARRIVED;
use super::sharing::{FlowId, Sharing};
use super::{EngineError, Listener, uncontended};
use crate::program::{Action, BEHIND, Flow, Span, World};
use crate::units::Time;

/// Marks a flow that is a kernel, in `CommStates::transit_of`; the rest is its stream.
const KERNEL: u32 = 1 << 31;

/// The state of all communicators.
pub(super) struct CommStates<'w> {
    pub states: Vec<CommState>,
    /// Streams that have arrived, a stretch for each communicator.
    pub arrivals: Vec<u32>,
    /// By path: the rate when nobody else is there, in bytes per second.
    path_rate: Vec<f64>,
    pub sharing: Sharing<'w>,
    /// Flows whose finish has moved, by their transit.
    pub moving: Moving,
    pub transits: Vec<Transit>,
    pub free_transits: Vec<u32>,
    /// By flow: its transit, or the stream of the kernel that it is.
    transit_of: Vec<u32>,
    /// Kernels that the last solution gave another share of their memory.
    kernels: Vec<(u32, FlowId)>,
    pub runs: Vec<GraphRun>,
    free_runs: Vec<u32>,
    children: FxHashMap<u32, Children>,
    retimes: u64,
}

/// One communicator.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommState {
    pub arrived: u32,
    pub needed: u32,
    pub first_arrival: u32,
    pub transfer: u32,
    pub action: u32,
    /// The phase that is on, or the graph that runs.
    pub stage: u32,
    /// Nobody else ever uses its paths, so its times are known beforehand.
    pub exclusive: bool,
    pub start: Time,
    /// As in the world, here so that an action that starts reads one place.
    profile: u32,
    first_path: u32,
}

/// A flow from the start of its latency to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transit {
    pub comm: u32,
    /// The flow of the action.
    pub node: u32,
    pub flow: FlowId,
    /// The event that ends it; others are out of date.
    pub event: u64,
}

/// A graph of flows being played.
#[derive(Debug, Default)]
pub(super) struct GraphRun {
    /// By flow: how many that it waits for have not ended.
    pub pending: Vec<u32>,
    /// The same of those that it queues behind; empty where none does.
    pub before: Vec<u32>,
    /// By flow: its transit, where its latency is over and its bytes queue.
    queued: Vec<u32>,
    pub left: u32,
}

/// Who follows each flow of a graph action.
#[derive(Debug)]
struct Children {
    first: Vec<u32>,
    /// Marked where they only queue behind it.
    ids: Vec<u32>,
    /// By flow: how many it queues behind; empty where none does.
    before: Vec<u32>,
}

impl Children {
    fn of(parents: &[Span], parent_ids: &[u32]) -> Children {
        let all = || {
            (0u32..)
                .zip(parents)
                .flat_map(|(child, span)| parent_ids[span.range()].iter().map(move |p| (child, *p)))
        };
        let mut first = vec![0u32; parents.len() + 1];
        all().for_each(|(_, p)| first[(p & !BEHIND) as usize + 1] += 1);
        (0..parents.len()).for_each(|k| first[k + 1] += first[k]);
        let (mut next, mut ids) = (first.clone(), vec![0; first[parents.len()] as usize]);
        for (child, p) in all() {
            let place = &mut next[(p & !BEHIND) as usize];
            ids[*place as usize] = child | p & BEHIND;
            *place += 1;
        }
        let mut before = Vec::new();
        if parent_ids.iter().any(|p| p & BEHIND != 0) {
            before = vec![0; parents.len()];
            all().filter(|(_, p)| p & BEHIND != 0).for_each(|(child, _)| before[child as usize] += 1);
        }
        Children { first, ids, before }
    }
}

impl<'w> CommStates<'w> {
    /// By resource, whether kernels can feel it.
    pub fn new(world: &'w World, felt: &[bool]) -> Self {
        let path_rate = uncontended::path_rates(world);
        let exclusive = uncontended::exclusive_comms(world, felt);
        let mut first_arrival = 0u32;
        let mut states = Vec::with_capacity(world.comms.len());
        for (comm, exclusive) in world.comms.iter().zip(exclusive) {
            states.push(CommState {
                arrived: 0,
                needed: comm.needed,
                first_arrival,
                transfer: 0,
                action: 0,
                stage: 0,
                exclusive,
                start: Time::ZERO,
                profile: comm.profile,
                first_path: comm.paths.start,
            });
            first_arrival += comm.needed;
        }
        let mut children = FxHashMap::default();
        for (i, action) in world.actions.iter().enumerate() {
            if let Action::Graph { parents, parent_ids, .. } = action {
                children.insert(i as u32, Children::of(parents, parent_ids));
            }
        }
        CommStates {
            states,
            arrivals: vec![NONE; first_arrival as usize],
            path_rate,
            sharing: Sharing::new(world.resources.iter().map(|r| r.capacity.0).collect(), &world.uses),
            moving: Moving::default(),
            transits: Vec::new(),
            free_transits: Vec::new(),
            transit_of: Vec::new(),
            kernels: Vec::new(),
            runs: Vec::new(),
            free_runs: Vec::new(),
            children,
            retimes: 0,
        }
    }

    /// When the first of the flows with a moved finish ends.
    #[inline]
    pub fn next_finish(&self) -> Option<Time> {
        self.moving.first()
    }

    pub fn pop_finish(&mut self) -> Option<(u32, u64)> {
        self.moving.pop()
    }

    /// Notes that a flow is the kernel of a stream.
    pub fn carry_kernel(&mut self, flow: FlowId, stream: u32) {
        self.name_flow(flow, stream | KERNEL);
    }

    fn name_flow(&mut self, flow: FlowId, what: u32) {
        if self.transit_of.len() <= flow as usize {
            self.transit_of.resize(flow as usize + 1, NONE);
        }
        self.transit_of[flow as usize] = what;
    }

    fn transit(&mut self, comm: u32, node: u32) -> u32 {
        let transit = Transit { comm, node, flow: NONE, event: 0 };
        match self.free_transits.pop() {
            Some(i) => {
                self.transits[i as usize] = transit;
                i
            }
            None => {
                self.transits.push(transit);
                (self.transits.len() - 1) as u32
            }
        }
    }
}

impl<O: Listener + ?Sized> Play<'_, O> {
    /// The head of stream `s` arrives at a communicator; the last arrival starts the action.
    #[inline]
    pub fn arrive(&mut self, s: u32, comm: u32, transfer: u32) {
        let state = &mut self.comms.states[comm as usize];
        if state.arrived == 0 {
            state.transfer = transfer;
        } else if state.transfer != transfer {
            let expected = state.transfer;
            self.error = Some(self.mismatch(s, transfer, expected));
            return;
        }
        if state.arrived == state.needed {
            self.error =
                Some(EngineError::Invalid(format!("communicator {comm} is joined by more than its members")));
            return;
        }
        self.comms.arrivals[(state.first_arrival + state.arrived) as usize] = s;
        state.arrived += 1;
        self.streams[s as usize].blocked = ARRIVED;
        if state.arrived == state.needed {
            self.start_comm(comm);
        }
    }

    fn start_comm(&mut self, comm: u32) {
        let world = self.world;
        let state = &mut self.comms.states[comm as usize];
        state.start = self.now;
        let profile = &world.profiles[state.profile as usize];
        let action = profile.get(state.transfer as usize).copied().unwrap_or(World::NO_ACTION);
        let Some(kind) = world.actions.get(action as usize) else {
            let text = format!("communicator {comm} has no action for transfer {}", state.transfer);
            self.error = Some(EngineError::Invalid(text));
            return;
        };
        state.action = action;
        if O::CAUSES {
            self.note_arrivals(comm);
        }
        if self.pace.minds_units() {
            self.take_units(comm, true);
        }
        let state = &mut self.comms.states[comm as usize];
        match kind {
            Action::Fixed(time) => {
                let ends = self.now + *time;
                self.schedule(ends, COMM, comm);
            }
            // An event even so: ops that end at once, one behind the other, must not end within each other.
            Action::Phases(flows) | Action::Graph { flows, .. } if flows.is_empty() => {
                self.schedule(self.now, COMM, comm);
            }
            Action::Phases(phases) if state.exclusive => {
                let (first, rates) = (state.first_path, &self.comms.path_rate);
                let time =
                    phases.iter().map(|f| uncontended::flow_time(f, rates[(first + f.path) as usize])).sum();
                let ends = self.now + time;
                self.schedule(ends, COMM, comm);
            }
            Action::Phases(phases) => {
                state.stage = 0;
                self.next_phase(comm, phases);
            }
            Action::Graph { flows, parents, .. } => self.start_graph(comm, flows, parents),
            Action::Rounds(_) => unreachable!("a world is flat when it is played"),
        }
    }

    /// Starts the phase that the communicator has come to, or ends the op after the last.
    fn next_phase(&mut self, comm: u32, phases: &[Flow]) {
        let node = self.comms.states[comm as usize].stage;
        match phases.get(node as usize) {
            Some(flow) => self.start_flow(comm, node, flow),
            None => self.comm_ended(comm),
        }
    }

    fn start_graph(&mut self, comm: u32, flows: &[Flow], parents: &[Span]) {
        let run = self.comms.free_runs.pop().unwrap_or_else(|| {
            self.comms.runs.push(GraphRun::default());
            (self.comms.runs.len() - 1) as u32
        });
        let CommStates { runs, states, children, .. } = &mut self.comms;
        let state = &mut runs[run as usize];
        let CommState { stage, action, .. } = &mut states[comm as usize];
        *stage = run;
        let before = &children[action].before;
        state.before.clone_from(before);
        state.queued.clear();
        state.queued.resize(before.len(), NONE);
        state.pending.clear();
        state.pending.extend(parents.iter().map(|p| p.len));
        state.pending.iter_mut().zip(before).for_each(|(pending, before)| *pending -= before);
        state.left = flows.len() as u32;
        for (node, flow) in (0u32..).zip(flows) {
            if self.comms.runs[run as usize].pending[node as usize] == 0 {
                self.start_flow(comm, node, flow);
            }
        }
    }

    fn start_flow(&mut self, comm: u32, node: u32, flow: &Flow) {
        let transit = self.comms.transit(comm, node);
        if flow.latency == Time::ZERO {
            self.take_turn(transit, flow);
        } else {
            let over = self.now + flow.latency;
            self.schedule(over, LATENCY, transit);
        }
    }

    pub fn latency_over(&mut self, transit: u32) {
        let Transit { comm, node, .. } = self.comms.transits[transit as usize];
        let flow = self.flow_of(comm, node);
        self.take_turn(transit, &flow);
    }

    /// Puts a flow whose latency is over on its path, once all that it queues behind have ended.
    fn take_turn(&mut self, transit: u32, flow: &Flow) {
        let Transit { comm, node, .. } = self.comms.transits[transit as usize];
        let CommState { stage, action, .. } = self.comms.states[comm as usize];
        if let Action::Graph { .. } = self.world.actions[action as usize] {
            let run = &mut self.comms.runs[stage as usize];
            if run.before.get(node as usize).is_some_and(|before| *before > 0) {
                run.queued[node as usize] = transit;
                return;
            }
        }
        self.occupy(transit, flow);
    }

    fn flow_of(&self, comm: u32, node: u32) -> Flow {
        match &self.world.actions[self.comms.states[comm as usize].action as usize] {
            Action::Phases(flows) | Action::Graph { flows, .. } => flows[node as usize],
            _ => unreachable!("what has no flows plays none"),
        }
    }

    /// Puts a flow on its path.
    fn occupy(&mut self, transit: u32, flow: &Flow) {
        let world = self.world;
        let comm = self.comms.transits[transit as usize].comm;
        let path_number = self.comms.states[comm as usize].first_path + flow.path;
        let span = world.paths[path_number as usize];
        let path = span.start..span.start + span.len;
        let (id, alone) = self.comms.sharing.insert(self.now, flow.bytes, flow.rate_limit, path);
        self.comms.name_flow(id, transit);
        self.comms.transits[transit as usize].flow = id;
        if let Some(ends) = alone {
            let seq = self.schedule(ends, FLOW, transit);
            self.comms.transits[transit as usize].event = seq;
        }
        if self.device_memory.is_on() {
            self.flow_uses_memory(path_number);
        }
    }

    /// Brings all rates up to date and moves the ends of flows whose rate changed.
    pub fn reshare(&mut self) {
        let CommStates { sharing, moving, transits, transit_of, kernels, retimes, .. } = &mut self.comms;
        sharing.solve(self.now, |flow, finish| {
            let transit = transit_of[flow as usize];
            if transit & KERNEL != 0 {
                kernels.push((transit ^ KERNEL, flow));
                return;
            }
            // Numbers of the queue lie above the heap's, so that an out-of-date heap event never matches.
            *retimes += 1;
            let seq = *retimes | 1 << 62;
            transits[transit as usize].event = seq;
            moving.set(transit, finish, seq);
        });
        let mut kernels = std::mem::take(&mut self.comms.kernels);
        for (s, flow) in kernels.drain(..) {
            self.memory_share(s, self.comms.sharing.rate(flow));
        }
        self.comms.kernels = kernels;
    }

    pub fn flow_ended(&mut self, transit: u32, seq: u64) {
        let Transit { comm, node, flow, event } = self.comms.transits[transit as usize];
        if event != seq {
            self.events -= 1;
            return;
        }
        self.comms.sharing.remove(flow);
        self.comms.transits[transit as usize].event = 0;
        self.comms.free_transits.push(transit);
        match &self.world.actions[self.comms.states[comm as usize].action as usize] {
            Action::Phases(phases) => {
                self.comms.states[comm as usize].stage += 1;
                self.next_phase(comm, phases);
            }
            Action::Graph { flows, .. } => self.graph_flow_ended(comm, node, flows),
            _ => unreachable!("what has no flows plays none"),
        }
    }

    fn graph_flow_ended(&mut self, comm: u32, node: u32, flows: &[Flow]) {
        let CommState { stage: run, action, .. } = self.comms.states[comm as usize];
        let span = {
            let children = &self.comms.children[&action];
            children.first[node as usize]..children.first[node as usize + 1]
        };
        for i in span {
            let marked = self.comms.children[&action].ids[i as usize];
            let child = marked & !BEHIND;
            let run = &mut self.comms.runs[run as usize];
            let waits = if marked == child { &mut run.pending } else { &mut run.before };
            waits[child as usize] -= 1;
            if waits[child as usize] > 0 {
                continue;
            }
            if marked == child {
                self.start_flow(comm, child, &flows[child as usize]);
            } else if run.queued[child as usize] != NONE {
                let transit = run.queued[child as usize];
                self.occupy(transit, &flows[child as usize]);
            }
        }
        let run_state = &mut self.comms.runs[run as usize];
        run_state.left -= 1;
        if run_state.left == 0 {
            self.comms.free_runs.push(run);
            self.comm_ended(comm);
        }
    }

    /// Ends the op on every member.
    pub fn comm_ended(&mut self, comm: u32) {
        if self.pace.minds_units() {
            self.take_units(comm, false);
        }
        let state = &mut self.comms.states[comm as usize];
        let CommState { needed, first_arrival, start, .. } = *state;
        state.arrived = 0;
        if O::CAUSES {
            self.observer.parted(comm, self.now);
        }
        // A member that ends may arrive for its next op at once; it then writes at or before the place just read.
        for i in first_arrival..first_arrival + needed {
            let s = self.comms.arrivals[i as usize];
            self.streams[s as usize].start = start;
            self.finish(s);
        }
    }
}
