//! The order of passes, walked: when each rank is done with its last.
//!
//! Each slot of a rank's order is a matrix ([`super::chunks`]); what it waits for from other stages is its input,
//! which a message of c seconds brings:
//! * asynchronous: beside passes, one message of a border and direction at a time;
//! * blocking: the sender goes on when it has been delivered; batched: and it starts when the receiver's pass before
//!   has ended.
//!
//! A schedule that goes on by turns ([`Turns`](stepsim_schedule::Turns)) is walked for two numbers of turns
//! past its warm-up; what they differ by is what each further one takes, since the ends of a max-plus linear system
//! grow evenly in the long run. They do so over as many micro-batches as there are ranks: a message in 1F1B delays
//! one of p. Short orders are walked to their end.

use std::rc::Rc;

use super::beside::{SideLaunches, SideQueues, SideWork};
use super::chunks::{Gradients, period};
use super::crossings::Crossing;
use super::form::StepForm;
use super::pass_time::PassTime;
use super::queues::{Passage, QUEUES, Queue, QueueTimes};
use super::residency::ResidencyDemand;
use super::walk_key::RankEnd;
use stepsim_plan::step::PlanError;
use stepsim_plan::step::groups::Group;
use stepsim_price::model::CommGroup;
use stepsim_schedule::{Data, Order, Pass, ScheduleChoice, Seat, Slot, SlotPass, StageAt};
use stepsim_spec::stack::{GraphScope, HostRead, HostSpec};
use stepsim_spec::workload::{ExpertOverlap, PointToPoint};

/// The numbers of micro-batches whose walks give the walks of all others.
struct Repeats {
    /// Walked: `first`, and `every` further on again.
    first: u32,
    every: u32,
    /// How many times as many follow.
    more: f64,
}

impl StepForm<'_> {
    /// When the last rank is done with its passes, and with what is switched on beside them.
    ///
    /// # Errors
    /// There is no order of the micro-batches that are walked.
    pub fn passes_end(&self, held: &ResidencyDemand, on: SideWork) -> Result<f64, PlanError> {
        let walked = |micro_batches| {
            if let Some(end) = held.walks.borrow().get(&(micro_batches, on)) {
                return Ok(*end);
            }
            let end = self.walked(&self.order_of(micro_batches)?, held, on);
            held.walks.borrow_mut().insert((micro_batches, on), end);
            Ok::<_, PlanError>(end)
        };
        let Some(repeats) = self.repeats() else { return walked(self.micro_batches) };
        let Repeats { first, every, more } = repeats;
        let (first, second) = (walked(first)?, walked(first + every)?);
        Ok(second + more * (second - first))
    }

    /// The walks that give the walk of all micro-batches; none where it is short, or its schedule does not repeat
    /// itself.
    fn repeats(&self) -> Option<Repeats> {
        let pipeline = &self.workload().parallelism.pipeline;
        let ScheduleChoice::Named(schedule) = pipeline.choice() else { return None };
        if self.parts.order.placement.has_sides() {
            return None;
        }
        if self.workload().expert.overlap.pairs() {
            return None;
        }
        let turns = schedule.turns(&pipeline.shape(self.micro_batches))?;
        let (ranks, parts) = (self.parts.order.placement.ranks(), self.parts.order.placement.parts());
        let every = turns.every * ranks.div_ceil(turns.every);
        let from = turns.from + 2 * every;
        if self.micro_batches.saturating_mul(2 * ranks * parts) <= FEW {
            return None;
        }
        let first = from + self.micro_batches.checked_sub(from)? % every;
        let more = self.micro_batches.checked_sub(first + every)? / every;
        (more > 0).then_some(Repeats { first, every, more: f64::from(more) })
    }

    /// The slots of a rank in all, each among others like it: their seconds, and the seconds of their kernels.
    pub fn busy(&self, rank: usize) -> Result<PassTime, PlanError> {
        let passes = f64::from(self.passes());
        let sum = &self.ranks[rank].sum;
        let mut all = sum.forward.times(passes);
        all += sum.recompute.times(passes);
        all += self.gradients(sum).times(passes);
        let paired = |slot: &Slot| matches!(slot, Slot::Overlapped { .. });
        if !self.parts.order.ranks[rank].iter().any(paired) {
            return Ok(all);
        }
        let order = self.order_of(self.micro_batches)?;
        // The time that simultaneous passes hide of one another.
        let (mut apart, mut at_once) = (0.0, 0.0);
        for slot in order.ranks[rank].iter().filter(|slot| paired(slot)) {
            at_once += period(&self.slot(rank as u32, slot, false));
            let alone = |part| period(&self.slot(rank as u32, &Slot::Single(part), false));
            apart += slot.parts().map(alone).sum::<f64>();
        }
        let exposed = all.exposed();
        let kept = if exposed > 0.0 { ((exposed + at_once - apart) / exposed).clamp(0.0, 1.0) } else { 0.0 };
        for queue in [Queue::Tensor, Queue::Context, Queue::Expert, Queue::Host] {
            all[queue] *= kept;
        }
        Ok(all)
    }
}

impl StepForm<'_> {
    /// The matrix of a slot; the `first` of a chunk casts its weights.
    fn slot(&self, rank: u32, slot: &Slot, first: bool) -> Rc<Passage> {
        let kind = |part: SlotPass| self.kind(rank, part);
        match *slot {
            Slot::Single(part) => self.chunks.single(kind(part), part.pass, first),
            Slot::Overlapped { forward, backward } => {
                self.chunks.pair([kind(forward), kind(backward)], self.expert_gradients())
            }
        }
    }

    /// Where weight gradients of passes at once run that exchange tokens.
    pub(super) fn expert_gradients(&self) -> Option<Gradients> {
        match self.workload().expert.overlap {
            _ if !self.parts.links.has(Group::Layer(CommGroup::Expert)) => None,
            ExpertOverlap::MicroBatchesFusedGradients => Some(Gradients::Fused),
            _ => Some(Gradients::Delayed),
        }
    }

    pub(super) fn kind(&self, rank: u32, part: SlotPass) -> usize {
        self.ranks[rank as usize].kinds[usize::from(part.chunk)]
    }
    /// True if a rank goes on only when its messages have been delivered.
    fn holds_sender(&self) -> bool {
        let blocks = self.workload().host().is_some_and(|host| host.blocking);
        blocks || self.workload().parallelism.pipeline.p2p != PointToPoint::Async
    }
    /// How the host launches messages and copies beside passes, if one launches them by themselves.
    pub(super) fn side_launches(&self) -> Option<SideLaunches> {
        let host = self.workload().host();
        let host = host.filter(|h| !matches!(h.graphs.scope, GraphScope::Passes | GraphScope::Step))?;
        let [message, copy] =
            [host.launch_us.collective, host.launch_us.copy].map(|us| us * self.host_scale(host));
        Some(SideLaunches { message, copy, latency: host.latency_us * 1e-6, blocks: host.blocking })
    }
    /// True if a message waits until the pass before its receiver's has ended.
    fn awaits_receiver(&self) -> bool {
        self.workload().parallelism.pipeline.p2p == PointToPoint::Batched
    }
    /// Factor on the times of the host, in seconds.
    pub fn host_scale(&self, host: &HostSpec) -> f64 {
        host.slowness * self.parts.prices.on(0).host_slowness() * 1e-6
    }
    /// When the host launches the first op: what it reads at the end of a step puts its own work there.
    fn host_begins(&self) -> f64 {
        let ahead = |host: &&HostSpec| !host.reads.contains(&HostRead::Loss);
        self.workload().host().filter(ahead).map_or(0.0, |host| host.step_us * self.host_scale(host))
    }
    fn reads(&self, what: HostRead) -> Option<f64> {
        let host = self.workload().host().filter(|host| host.reads.contains(&what));
        host.map(|host| host.synchronise_us * self.host_scale(host))
    }
}

/// When the kernels of a rank are done: nothing waits for its last messages.
fn done(times: QueueTimes) -> f64 {
    times[Queue::Compute as usize].max(0.0)
}

/// The exchanges of ranks, where their passes send and receive together.
fn exchanges(form: &StepForm<'_>, order: &Order) -> Vec<SendRecvPair> {
    if !form.awaits_receiver() || !order.alternates() {
        return Vec::new();
    }
    let of_rank = |slots: &Vec<Slot>| SendRecvPair {
        // Where all forward passes come first, the last one shares no exchange with the backward pass behind it.
        pairs: slots.windows(2).any(|two| turn(&[two[1], two[0]])),
        before: usize::MAX,
        ..SendRecvPair::default()
    };
    order.ranks.iter().map(of_rank).collect()
}

impl SendRecvPair {
    /// True if slot `i` shares the exchange of the slot before it.
    fn shares(&self, slots: &[Slot], i: usize) -> bool {
        self.pairs && i > 0 && i < slots.len() && turn(&slots[i - 1..=i])
    }
}

/// True if these slots are a forward and a backward pass.
fn turn(slots: &[Slot]) -> bool {
    let pass = |slot: &Slot| match slot {
        Slot::Single(part) => Some(part.pass),
        Slot::Overlapped { .. } => None,
    };
    matches!(slots, [a, b] if pass(a) == Some(Pass::Forward) && pass(b) == Some(Pass::Backward))
}

/// Passes of all ranks that are walked one by one.
const FEW: u32 = 512;

/// An order on its way.
pub(super) struct OrderWalk<'f, 'a> {
    form: &'f StepForm<'a>,
    order: &'f Order,
    /// By kind of message: seconds from each pipeline rank to the one behind it; one that takes none still waits for
    /// its receiver where those do.
    pub(super) hops: Vec<Vec<f64>>,
    /// By data, stage and micro-batch: when its message is made, and when it is there.
    made: [Vec<Option<f64>>; 2],
    there: [Vec<Option<f64>>; 2],
    /// By data and stage: when the border carries nothing.
    border: [Vec<f64>; 2],
    /// By rank.
    beside: Vec<SideQueues<'f, 'a>>,
    /// By rank; none where each pass sends by itself.
    exchanges: Vec<SendRecvPair>,
    /// True if anything has been sent since the ranks were last looked at.
    posted: bool,
    /// The host that launches messages, where they take any time.
    host: Option<SideLaunches>,
    waits: RankWaits,
    /// By direction and stage, then by data: as [`OrderWalk::way`] has it; none where it goes by the micro-batch.
    ways: Vec<[Option<f64>; 2]>,
}

/// The times that a rank waits for between its passes, beside their inputs.
#[derive(Clone, Copy, Debug)]
struct RankWaits {
    /// True if it goes on only when its messages have been delivered.
    sends: bool,
    /// True if a message waits until the pass before its receiver's has ended.
    receiver: bool,
    /// Seconds in which the host reads what passes receive, if it does.
    reads: Option<f64>,
    /// By pass: seconds in which the host sees that all kernels before it are over, if it waits for them.
    kernels: [Option<f64>; Pass::COUNT],
}

impl RankWaits {
    fn of(form: &StepForm<'_>) -> RankWaits {
        let sends = form.holds_sender();
        let passes = form.reads(HostRead::Passes);
        let mut kernels = [passes; Pass::COUNT];
        kernels[Pass::Forward as usize] = form.reads(HostRead::Batch).or(passes);
        RankWaits {
            sends,
            receiver: form.awaits_receiver(),
            reads: form.reads(HostRead::Transfers).filter(|_| sends),
            kernels,
        }
    }
}

/// The messages that a rank sends and receives at once between two of its passes.
#[derive(Clone, Debug, Default)]
struct SendRecvPair {
    /// True if a forward and a backward pass in a row share one.
    pairs: bool,
    /// The slot that the last one stands before, and what it has sent.
    before: usize,
    sent: Vec<(Data, usize)>,
    /// Made since: the stage and the micro-batch.
    unsent: Vec<(StageAt, Data, u32)>,
}

impl<'f, 'a> OrderWalk<'f, 'a> {
    pub(super) fn new(
        form: &'f StepForm<'a>,
        order: &'f Order,
        held: &'f ResidencyDemand,
        on: SideWork,
    ) -> OrderWalk<'f, 'a> {
        let stages = order.placement.all_stages() as usize * usize::from(order.placement.directions());
        let none = vec![None; stages * order.micro_batches as usize];
        let hops = |&Crossing { message, in_turn, gathered }: &Crossing| {
            let hop = |pipe: &super::Pipe| {
                if on.transfers { in_turn * pipe.time(message) + gathered } else { 0.0 }
            };
            form.parts.links.borders().iter().map(hop).collect()
        };
        let passes = order.per_direction();
        let beside = held.asked.iter().enumerate();
        let mut walk = OrderWalk {
            beside: beside.map(|(rank, asked)| SideQueues::new(form, rank, asked, on, passes)).collect(),
            form,
            order,
            hops: form.crossings.kinds.iter().map(hops).collect(),
            made: [none.clone(), none.clone()],
            there: [none.clone(), none],
            border: [vec![0.0; stages], vec![0.0; stages]],
            exchanges: exchanges(form, order),
            posted: false,
            host: form.side_launches().filter(|_| on.transfers),
            waits: RankWaits::of(form),
            ways: Vec::new(),
        };
        if !order.placement.has_sides() {
            let directions = 0..order.placement.directions();
            let all = directions.flat_map(|direction| {
                (0..order.placement.stages()).map(move |stage| StageAt { direction, stage })
            });
            let ways = |at| [Data::Activations, Data::Gradients].map(|data| walk.way(at, data, 0));
            walk.ways = all.map(ways).collect();
        }
        walk
    }

    /// Where each rank's walk ends, before what is reduced behind it.
    pub(super) fn rank_ends(mut self) -> Vec<RankEnd> {
        self.beside.iter_mut().for_each(SideQueues::leave_reductions);
        let ends = self.ends();
        self.beside.into_iter().zip(ends).map(|(beside, times)| beside.rank_end(done(times))).collect()
    }

    /// When the last rank is done.
    pub(super) fn end(mut self) -> f64 {
        let ends = self.ends();
        let ranks = std::mem::take(&mut self.beside).into_iter().zip(ends);
        ranks.map(|(beside, times)| beside.close(done(times))).fold(0.0, f64::max)
    }

    /// The times of each rank behind its last slot.
    fn ends(&mut self) -> Vec<QueueTimes> {
        let order = self.order;
        let mut begin = [0.0; QUEUES];
        begin[Queue::Host as usize] = self.form.host_begins();
        let mut times = vec![begin; order.ranks.len()];
        let mut next = vec![0; order.ranks.len()];
        loop {
            let before: usize = next.iter().sum();
            self.posted = false;
            for (rank, slots) in order.ranks.iter().enumerate() {
                while next[rank] < slots.len() {
                    let Some(after) = self.run(rank as u32, next[rank], times[rank]) else { break };
                    times[rank] = after;
                    next[rank] += 1;
                }
                self.post(rank, next[rank], times[rank][Queue::Compute as usize]);
            }
            if next.iter().sum::<usize>() == before && !self.posted {
                // Orders that stand still are refused before.
                let left = order.ranks.iter().zip(&next).position(|(slots, next)| *next < slots.len());
                assert!(left.is_none(), "rank {left:?} stands still: {next:?}");
                return times;
            }
        }
    }

    /// The times behind slot `i`; `None` while its input is not made.
    fn run(&mut self, rank: u32, i: usize, mut times: QueueTimes) -> Option<QueueTimes> {
        let slots = &self.order.ranks[rank as usize];
        let slot = &slots[i];
        let compute = Queue::Compute as usize;
        let paired = matches!(slot, Slot::Overlapped { .. });
        times[compute] = self.exchange(rank, i, times[compute])?;
        let mut reads = false;
        // The receives of a slot are posted as soon as the slot before is over, together with its sends.
        for part in slot.parts() {
            if self.host.is_some() && self.comes_from_another(rank, part) {
                self.launched(&mut times);
            }
            let posted =
                self.host.map_or(f64::NEG_INFINITY, |host| times[Queue::Host as usize] + host.latency);
            let input = self.input(rank, part, times[compute].max(posted))?;
            let queue = if paired && part.pass != Pass::Forward { Queue::Other } else { Queue::Input };
            times[queue as usize] = input.unwrap_or(f64::NEG_INFINITY);
            reads |= input.is_some();
        }
        if self.waits.sends && self.exchanges.is_empty() {
            // The sends of the slot before hold the rank.
            for part in i.checked_sub(1).into_iter().flat_map(|before| slots[before].parts()) {
                if let Some(at) = self.sent(rank, part) {
                    times[compute] = times[compute].max(self.there[at.0][at.1]?);
                }
            }
        }
        let first = slot.parts().all(|part| part.micro_batch % self.order.per_direction() == 0);
        if let Some(seconds) = self.waits.reads.filter(|_| reads) {
            let all = [Queue::Host, Queue::Input, Queue::Compute].map(|queue| times[queue as usize]);
            times[Queue::Host as usize] = all.into_iter().fold(0.0, f64::max) + seconds;
        }
        let waits = |part: SlotPass| self.waits.kernels[part.pass as usize];
        if let Some(seconds) = slot.parts().find_map(waits).filter(|_| i > 0) {
            let all = [Queue::Host, Queue::Compute].map(|queue| times[queue as usize]);
            times[Queue::Host as usize] = all.into_iter().fold(0.0, f64::max) + seconds;
        }
        let mut after = self.through(rank, slot, first, times);
        for part in slot.parts() {
            let queue = if paired && part.pass != Pass::Forward { Queue::Other } else { Queue::Input };
            let mut made = after[queue as usize];
            if let Some(host) = self.host.filter(|_| self.sent(rank, part).is_some()) {
                self.launched(&mut after);
                made = made.max(after[Queue::Host as usize] + host.latency);
            }
            self.output(rank, part, made);
        }
        Some(after)
    }

    /// The host launches a message; one that blocks holds up all behind it.
    fn launched(&self, times: &mut QueueTimes) {
        let Some(host) = self.host else { return };
        times[Queue::Host as usize] += host.message;
        if host.blocks {
            times[Queue::Compute as usize] += host.message + host.latency;
        }
    }

    /// The times behind a slot whose inputs are there; visit by visit where anything runs beside it.
    fn through(&mut self, rank: u32, slot: &Slot, first: bool, times: QueueTimes) -> QueueTimes {
        let beside = &mut self.beside[rank as usize];
        if !slot.parts().any(|part| beside.minds(part, first)) {
            slot.parts().for_each(|part| beside.over(part));
            return self.form.slot(rank, slot, first).after(&times);
        }
        match *slot {
            Slot::Single(part) => {
                let visits = self.form.chunks.visits(self.form.kind(rank, part), part.pass, first);
                beside.pass(part, &visits, times)
            }
            Slot::Overlapped { forward, backward } => beside.both([forward, backward], times),
        }
    }

    fn place(&self, direction: u16, stage: u32, micro_batch: u32) -> usize {
        let stages = u32::from(direction) * self.order.placement.all_stages() + stage;
        (stages * self.order.micro_batches + micro_batch) as usize
    }

    /// When the input of a pass is there, `Some(None)` if it needs none; `None` while it is not made. A message sent
    /// only when its receiver is ready waits for the end of the `before` pass.
    fn input(&mut self, rank: u32, part: SlotPass, before: f64) -> Option<Option<f64>> {
        let Some(data) = part.pass.makes() else { return Some(None) };
        let placement = &self.order.placement;
        let at = placement.stage(Seat { rank, chunk: part.chunk });
        let from = placement.source_of(at, data, part.micro_batch);
        let Some((from, data)) = from else { return Some(Some(0.0)) };
        let place = self.place(from.direction, from.stage, part.micro_batch);
        if let Some(there) = self.there[data as usize][place] {
            return Some(Some(there));
        }
        let made = self.made[data as usize][place]?;
        let there = self.deliver((from, data), part.micro_batch, made.max(before));
        Some(Some(there))
    }

    /// The output of a pass is on its way to the next stage, unless it is sent when its receiver is ready, or with the
    /// next exchange.
    fn output(&mut self, rank: u32, part: SlotPass, made: f64) {
        let Some(data) = part.pass.makes() else { return };
        let at = self.order.placement.stage(Seat { rank, chunk: part.chunk });
        let crosses = self.hop(at, data, part.micro_batch).is_some();
        if let Some(exchange) = self.exchanges.get_mut(rank as usize).filter(|_| crosses) {
            exchange.unsent.push((at, data, part.micro_batch));
            return;
        }
        let place = self.place(at.direction, at.stage, part.micro_batch);
        self.made[data as usize][place] = Some(made);
        if !crosses || !self.waits.receiver {
            self.deliver((at, data), part.micro_batch, made);
        }
    }

    /// All that a rank has made is sent before slot `i`.
    fn post(&mut self, rank: usize, i: usize, now: f64) {
        let slots = &self.order.ranks[rank];
        let Some(own) = self.exchanges.get_mut(rank) else { return };
        if own.before == i || i < slots.len() && own.shares(slots, i) {
            return;
        }
        own.before = i;
        let sent = std::mem::take(&mut own.unsent);
        self.posted |= !sent.is_empty();
        let mut places = Vec::with_capacity(sent.len());
        for (at, data, micro_batch) in sent {
            let place = self.place(at.direction, at.stage, micro_batch);
            self.made[data as usize][place] = Some(now);
            places.push((data, place));
            // The way round is received as early as can be.
            let to = self.order.placement.consumer(at, data);
            let to = to.map_or(rank as u32, |to| self.order.placement.seat(to).rank);
            if if data == Data::Activations { rank as u32 > to } else { (rank as u32) < to } {
                self.deliver((at, data), micro_batch, now);
            }
        }
        self.exchanges[rank].sent = places;
    }

    /// When the exchange before slot `i` is over, if there is one: it sends all that the rank has made, and receives
    /// what the slot needs, or a forward and a backward pass that share it.
    fn exchange(&mut self, rank: u32, i: usize, now: f64) -> Option<f64> {
        self.post(rank as usize, i, now);
        let slots = &self.order.ranks[rank as usize];
        let Some(own) = self.exchanges.get(rank as usize).filter(|own| own.before == i) else {
            return Some(now);
        };
        let sent = own.sent.clone();
        let together = if own.shares(slots, i + 1) { 2 } else { 1 };
        let mut over = now;
        if !sent.is_empty() {
            for part in slots[i..i + together].iter().flat_map(Slot::parts) {
                if self.comes_from_another(rank, part) {
                    over = self.input(rank, part, now)?.map_or(over, |there| there.max(over));
                }
            }
        }
        for (data, place) in sent {
            over = over.max(self.there[data as usize][place]?);
        }
        Some(over)
    }

    /// True if the input of a pass crosses a border.
    fn comes_from_another(&self, rank: u32, part: SlotPass) -> bool {
        let placement = &self.order.placement;
        let source = part
            .pass
            .makes()
            .and_then(|data| placement.source(placement.stage(Seat { rank, chunk: part.chunk }), data));
        source.is_some_and(|(from, _)| placement.seat(from).rank != rank)
    }

    /// A message goes when its border is free, not before `ready`.
    fn deliver(&mut self, (from, data): (StageAt, Data), micro_batch: u32, ready: f64) -> f64 {
        let there = match self.hop(from, data, micro_batch) {
            None => ready,
            Some(seconds) => {
                let border = self.place(from.direction, from.stage, 0) / self.order.micro_batches as usize;
                let border = &mut self.border[data as usize][border];
                *border = border.max(ready) + seconds;
                *border
            }
        };
        let place = self.place(from.direction, from.stage, micro_batch);
        self.there[data as usize][place] = Some(there);
        there
    }

    /// Seconds of a message that leaves a stage, if another rank takes it.
    fn hop(&self, from: StageAt, data: Data, micro_batch: u32) -> Option<f64> {
        let stage = u32::from(from.direction) * self.order.placement.all_stages() + from.stage;
        let known = self.ways.get(stage as usize);
        known.map_or_else(|| self.way(from, data, micro_batch), |ways| ways[data as usize])
    }
    /// The same, looked for.
    fn way(&self, from: StageAt, data: Data, micro_batch: u32) -> Option<f64> {
        let placement = &self.order.placement;
        let to = placement.consumer_of(from, data, micro_batch)?;
        let side = placement.is_side(from) || placement.is_side(to);
        let crossings = &self.form.crossings;
        let hops = &self.hops[if side { crossings.side(data) } else { crossings.kind(from.stage, data) }];
        let [from, to] = [from, to].map(|at| placement.seat(at).rank as usize);
        match from.abs_diff(to) {
            0 => None,
            1 => Some(hops[from.min(to)]),
            // The way round.
            _ => hops.last().copied(),
        }
    }

    /// The message that a pass has sent to another rank.
    fn sent(&self, rank: u32, part: SlotPass) -> Option<(usize, usize)> {
        let data = part.pass.makes()?;
        let at = self.order.placement.stage(Seat { rank, chunk: part.chunk });
        self.hop(at, data, part.micro_batch)?;
        Some((data as usize, self.place(at.direction, at.stage, part.micro_batch)))
    }
}
