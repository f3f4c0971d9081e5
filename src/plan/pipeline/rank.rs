//! The program of one rank: its passes with sends and receives around them.

use super::wires::{Channels, Wires};
use super::{Channel, PipelineOptions, Receive, Sends, StageWork, Task};
use stepsim_core::ids::{OpId, TransferId};
use stepsim_core::program::{NO_MICRO_BATCH, OpInfo, Phase, Program, ProgramBuilder, StreamKind, Work};
use stepsim_core::units::Time;
use stepsim_schedule::{Data, Order, Pass, Seat, Slot, SlotPass, StageAt};

/// One end of the lanes of a channel on one rank.
struct ChannelEnd {
    wire: usize,
    /// Stream, slot, channel and message description per lane.
    lanes: Vec<ChannelLane>,
    /// Receives posted, in the producer's order.
    posted: Vec<OpId>,
}

#[derive(Clone, Copy)]
struct ChannelLane {
    stream: u16,
    /// The first of its slots, and how many it has: each is a message of a micro-batch.
    slot: u16,
    slots: u16,
    channel: u32,
    info: u32,
    transfer: TransferId,
}

impl ChannelLane {
    /// Pushes the messages of a micro-batch, one after the other, and returns the last.
    fn messages(&self, program: &mut ProgramBuilder, waits: &[OpId], micro_batch: u32) -> OpId {
        let mut push = |slot| {
            let op = Work::Comm { slot, transfer: self.transfer };
            program.op(self.stream, op, waits, self.info, micro_batch)
        };
        let first = push(self.slot);
        (self.slot + 1..self.slot + self.slots).map(push).last().unwrap_or(first)
    }
}

/// A stage border as one of a rank's chunks sees it.
enum ChunkBorder {
    /// The pipeline begins or ends here.
    Open,
    /// The other side is on this rank too.
    Inside,
    /// The other side is on another rank: index into `RankBuilder::ends`.
    Across(usize),
}

pub(super) struct RankBuilder<'a> {
    order: &'a Order,
    wires: &'a Wires,
    /// Receives that are posted before a slot of this rank; see [`super::posts`].
    posts: &'a [(usize, Receive)],
    options: PipelineOptions,
    rank: u32,
    channels: &'a mut Channels,
    program: ProgramBuilder,
    compute: u16,
    slots: Vec<u32>,
    ends: Vec<ChannelEnd>,
    /// `[chunk][data]`: where that input comes from, and where that output goes.
    inputs: Vec<[ChunkBorder; 2]>,
    outputs: Vec<[ChunkBorder; 2]>,
    /// On the rank of the first stage, by rank: how the side of each hands it its input, and how gradients go back.
    sides: [Vec<ChunkBorder>; 2],
    /// Per (chunk, data, micro-batch): the op that made what stays on this rank.
    local: Vec<OpId>,
    /// The step that is being written, from 0.
    step: u32,
    /// The last op of the pass before.
    before: Option<OpId>,
    /// With exchanges between passes: what was made and is not sent yet. `None` without.
    unsent: Option<Vec<(SlotPass, OpId)>>,
    /// The exchange right before the pass at hand, if there is one.
    exchanged: Option<OpId>,
}

impl<'a> RankBuilder<'a> {
    pub(super) fn new(
        order: &'a Order,
        wires: &'a Wires,
        posts: &'a [(usize, Receive)],
        options: PipelineOptions,
        rank: u32,
        channels: &'a mut Channels,
        program: ProgramBuilder,
    ) -> RankBuilder<'a> {
        let chunks = usize::from(order.placement.chunks(rank));
        RankBuilder {
            order,
            wires,
            posts,
            options,
            rank,
            channels,
            program,
            compute: 0,
            slots: Vec::new(),
            ends: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            sides: Default::default(),
            local: vec![OpId(0); chunks * 2 * order.micro_batches as usize],
            step: 0,
            before: None,
            unsent: (options.sends == Sends::Batched && order.alternates()).then(Vec::new),
            exchanged: None,
        }
    }

    pub(super) fn build(mut self, work: &mut dyn StageWork) -> (Program, Vec<u32>, Vec<Receive>) {
        self.compute = work.begin(&mut self.program, self.rank);
        for chunk in 0..self.order.placement.chunks(self.rank) {
            let at = self.order.placement.stage(Seat { rank: self.rank, chunk });
            let input = [Data::Activations, Data::Gradients].map(|data| self.input_border(work, at, data));
            let output = [Data::Activations, Data::Gradients].map(|data| self.output_border(work, at, data));
            self.inputs.push(input);
            self.outputs.push(output);
        }
        self.open_sides(work);
        let order = self.order;
        let slots = &order.ranks[self.rank as usize];
        let chunks = self.inputs.len();
        let mut last = vec![0; chunks];
        for (i, chunk) in
            slots.iter().enumerate().flat_map(|(i, s)| s.parts().map(move |p| (i, p.chunk as usize)))
        {
            last[chunk] = i;
        }
        // Where all forward passes come first, the last one shares no exchange with the backward pass behind it.
        let steady = slots.windows(2).any(|two| pair(&[two[1], two[0]]));
        for step in 0..self.options.steps.max(1) {
            self.step = step;
            let mut posts = self.posts.iter().peekable();
            for (i, slot) in slots.iter().enumerate() {
                while let Some((_, receive)) = posts.next_if(|(slot, _)| *slot <= i) {
                    self.receive(receive.end, receive.micro_batch);
                }
                self.exchanged = None;
                if !(steady && i > 0 && pair(&slots[i - 1..=i])) {
                    let together = if steady && pair(&slots[i..]) { i..i + 2 } else { i..i + 1 };
                    self.exchange(&slots[together]);
                }
                let mut task = |part: SlotPass| self.task(part, last[part.chunk as usize] == i);
                match *slot {
                    Slot::Single(part) => {
                        let task = task(part);
                        let done = work.pass(&mut self.program, &task);
                        self.output(part, done);
                        self.before = Some(done);
                    }
                    Slot::Overlapped { forward, backward } => {
                        let (f, b) = (task(forward), task(backward));
                        let done = work.overlapped(&mut self.program, &f, &b);
                        self.output(forward, done.0);
                        self.output(backward, done.1);
                        self.before = Some(done.0.max(done.1));
                    }
                }
            }
            self.exchange(&[]);
            work.end(&mut self.program, self.rank);
            self.program.end_round();
        }
        let receives = self.receives();
        (self.program.finish(), self.slots, receives)
    }

    /// Where the data that a chunk needs come from, the same for all its micro-batches: the input of the first stage
    /// comes from sides.
    fn source(&self, at: StageAt, data: Data) -> Option<(StageAt, Data)> {
        let placement = &self.order.placement;
        match placement.is_side(at) {
            true => placement.source_of(at, data, placement.owned(self.rank).next()?),
            false => placement.source(at, data),
        }
    }
    /// Where the data that a chunk makes go.
    fn consumer(&self, at: StageAt, data: Data) -> Option<StageAt> {
        let placement = &self.order.placement;
        match placement.is_side(at) {
            true => placement.consumer_of(at, data, placement.owned(self.rank).next()?),
            false => placement.consumer(at, data),
        }
    }
    /// Opens what the first stage has with the sides of all ranks.
    fn open_sides(&mut self, work: &mut dyn StageWork) {
        let (order, first) = (self.order, StageAt { direction: 0, stage: 0 });
        if !order.placement.has_sides() || order.placement.seat(first).rank != self.rank {
            return;
        }
        for rank in 0..order.placement.ranks() {
            let made = order.placement.owned(rank).next();
            let to = |data| order.placement.consumer_of(first, data, made?);
            let from = made.and_then(|made| order.placement.source_of(first, Data::Activations, made));
            let input = match from {
                None => ChunkBorder::Open,
                Some(_) if rank == self.rank => ChunkBorder::Inside,
                Some((side, data)) => self.across(work, side, first, data, StreamKind::PipelineRecv),
            };
            let output = match to(Data::Gradients) {
                None => ChunkBorder::Open,
                Some(_) if rank == self.rank => ChunkBorder::Inside,
                Some(side) => self.across(work, first, side, Data::Gradients, StreamKind::PipelineSend),
            };
            self.sides[0].push(input);
            self.sides[1].push(output);
        }
    }
    /// The border over which the input of a pass comes.
    fn input_of(&self, part: SlotPass, at: StageAt, data: Data) -> &ChunkBorder {
        match self.order.placement.source_of(at, data, part.micro_batch) {
            Some((side, _)) if self.order.placement.is_side(side) && at.stage == 0 => {
                &self.sides[0][self.order.placement.seat(side).rank as usize]
            }
            _ => &self.inputs[part.chunk as usize][data as usize],
        }
    }
    /// The border over which the output of a pass goes.
    fn output_of(&self, part: SlotPass, data: Data) -> &ChunkBorder {
        let placement = &self.order.placement;
        let at = placement.stage(Seat { rank: self.rank, chunk: part.chunk });
        match placement.consumer_of(at, data, part.micro_batch) {
            Some(side) if placement.is_side(side) => &self.sides[1][placement.seat(side).rank as usize],
            _ => &self.outputs[part.chunk as usize][data as usize],
        }
    }

    fn input_border(&mut self, work: &mut dyn StageWork, at: StageAt, data: Data) -> ChunkBorder {
        match self.source(at, data) {
            None => ChunkBorder::Open,
            Some((from, _)) if self.order.placement.seat(from).rank == self.rank => ChunkBorder::Inside,
            Some((from, data)) => self.across(work, from, at, data, StreamKind::PipelineRecv),
        }
    }
    fn output_border(&mut self, work: &mut dyn StageWork, at: StageAt, data: Data) -> ChunkBorder {
        match self.consumer(at, data) {
            None => ChunkBorder::Open,
            Some(to) if self.order.placement.seat(to).rank == self.rank => ChunkBorder::Inside,
            Some(to) => self.across(work, at, to, data, StreamKind::PipelineSend),
        }
    }
    /// Opens this rank's end of all lanes of a channel.
    fn across(
        &mut self,
        work: &mut dyn StageWork,
        from: StageAt,
        to: StageAt,
        data: Data,
        kind: StreamKind,
    ) -> ChunkBorder {
        let placement = &self.order.placement;
        let sends = kind == StreamKind::PipelineSend;
        let wire = self.wires.between(placement, from, Some(to), data);
        let mut lanes = Vec::new();
        for lane in 0..self.options.lanes {
            let channel =
                Channel { data, from_stage: from, from: placement.seat(from), to: placement.seat(to), lane };
            let index = self.channels.index_of(wire * self.options.lanes as usize + lane as usize, channel);
            let on_compute = sends && self.options.sends != Sends::Asynchronous && self.unsent.is_none();
            let stream = if on_compute { self.compute } else { self.program.stream(kind) };
            let message = work.message(&channel);
            let info = self.program.info(info(data, sends, message.bytes));
            let slot = self.options.first_slot + self.slots.len() as u16;
            let slots = message.fans[usize::from(!sends)] as u16;
            self.slots.extend((0..slots).map(|_| index));
            lanes.push(ChannelLane { stream, slot, slots, channel: index, info, transfer: message.transfer });
        }
        self.ends.push(ChannelEnd { wire, lanes, posted: Vec::new() });
        ChunkBorder::Across(self.ends.len() - 1)
    }

    fn task(&mut self, part: SlotPass, last_of_chunk: bool) -> Task {
        let mut exchange = self.exchanged.take();
        let at = self.order.placement.stage(Seat { rank: self.rank, chunk: part.chunk });
        let input = part.pass.makes().and_then(|data| match *self.input_of(part, at, data) {
            ChunkBorder::Open => None,
            ChunkBorder::Inside => {
                let (from, data) = self.order.placement.source_of(at, data, part.micro_batch)?;
                Some(
                    self.local
                        [self.local_index(self.order.placement.seat(from).chunk, data, part.micro_batch)],
                )
            }
            ChunkBorder::Across(end) => {
                let posted = self.program.len();
                let op = self.receive(end, part.micro_batch);
                // Where a host posts receives early, a blocking one still waits for the receive of the pass.
                let early = self.options.launched && self.options.sends == Sends::Blocking;
                if early || self.program.len() > posted {
                    exchange = Some(op);
                }
                Some(op)
            }
        });
        Task { rank: self.rank, at, part, input, exchange, last_of_chunk }
    }

    /// The receive of one micro-batch; posts it and all that the producer makes before it, unless that is done.
    fn receive(&mut self, end: usize, micro_batch: u32) -> OpId {
        let place = self.place(self.ends[end].wire, micro_batch);
        while self.ends[end].posted.len() <= place {
            let ChannelEnd { wire, lanes, posted } = &mut self.ends[end];
            let lane = lanes[posted.len() % lanes.len()];
            let made = &self.wires.made[*wire];
            let micro_batch = made[posted.len() % made.len()];
            // The way round from the last rank to the first is received as early as can be.
            let round = self.unsent.is_some() && comes_round(&self.channels.list[lane.channel as usize]);
            let after = self.before.filter(|_| self.options.sends == Sends::Batched && !round);
            posted.push(lane.messages(&mut self.program, after.as_slice(), micro_batch));
        }
        self.ends[end].posted[place]
    }

    /// The receives of the first step.
    fn receives(&self) -> Vec<Receive> {
        let ends = self.ends.iter().enumerate().flat_map(|(end, of)| {
            let comes_round = comes_round(&self.channels.list[of.lanes[0].channel as usize]);
            let made = self.wires.made[of.wire].iter().zip(&of.posted);
            made.map(move |(&micro_batch, &op)| Receive { op, end, micro_batch, comes_round })
        });
        ends.collect()
    }

    /// Between passes, all that was made is sent and all that the next passes need is received; they wait for both.
    fn exchange(&mut self, next: &[Slot]) {
        let Some(unsent) = self.unsent.replace(Vec::new()) else {
            self.unsent = None;
            return;
        };
        let (Some(before), false) = (self.before, unsent.is_empty()) else { return };
        let mut waits: Vec<OpId> =
            unsent.into_iter().filter_map(|(part, _)| self.send(part, before)).collect();
        for part in next.iter().flat_map(Slot::parts) {
            let input = part.pass.makes().map(|data| &self.inputs[part.chunk as usize][data as usize]);
            if let Some(&ChunkBorder::Across(end)) = input {
                waits.push(self.receive(end, part.micro_batch));
            }
        }
        if !next.is_empty() && !waits.is_empty() {
            let info = OpInfo::of(EXCHANGE, Phase::Forward, 0.0);
            let info = self.program.info(info);
            let nothing = Work::Compute { time: Time::ZERO };
            self.exchanged = Some(self.program.op(self.compute, nothing, &waits, info, NO_MICRO_BATCH));
        }
    }

    /// Sends what `part` has made, now or with the next exchange, or remembers it for this rank.
    fn output(&mut self, part: SlotPass, done: OpId) {
        match &mut self.unsent {
            Some(unsent) => unsent.push((part, done)),
            None => drop(self.send(part, done)),
        }
        let Some(data) = part.pass.makes() else { return };
        if !matches!(self.output_of(part, data), ChunkBorder::Across(_)) {
            let index = self.local_index(part.chunk, data, part.micro_batch);
            self.local[index] = done;
        }
    }

    /// Sends what `part` has made after `done`, if another rank takes it.
    fn send(&mut self, part: SlotPass, done: OpId) -> Option<OpId> {
        let data = part.pass.makes()?;
        if let ChunkBorder::Across(end) = *self.output_of(part, data) {
            let ChannelEnd { wire, lanes, .. } = &self.ends[end];
            let lane = lanes[self.place(*wire, part.micro_batch) % lanes.len()];
            return Some(lane.messages(&mut self.program, &[done], part.micro_batch));
        }
        None
    }

    /// Where a micro-batch of this step stands among all that a wire carries.
    fn place(&self, wire: usize, micro_batch: u32) -> usize {
        self.step as usize * self.wires.made[wire].len() + self.wires.place(wire, micro_batch)
    }

    fn local_index(&self, chunk: u16, data: Data, micro_batch: u32) -> usize {
        (2 * chunk as usize + data as usize) * self.order.micro_batches as usize + micro_batch as usize
    }
}

/// True if these slots begin with a forward and a backward pass that share an exchange.
fn pair(slots: &[Slot]) -> bool {
    let pass = |slot: &Slot| match slot {
        Slot::Single(part) => Some(part.pass),
        Slot::Overlapped { .. } => None,
    };
    matches!(slots, [a, b, ..] if pass(a) == Some(Pass::Forward) && pass(b) == Some(Pass::Backward))
}

/// The name of the op that waits for all sends and receives between two passes.
const EXCHANGE: &str = "exchange";

/// True if a channel leads from a later rank forwards, or from an earlier one backwards.
fn comes_round(channel: &Channel) -> bool {
    let (from, to) = (channel.from.rank, channel.to.rank);
    if channel.data == Data::Activations { from > to } else { from < to }
}

fn info(data: Data, sends: bool, bytes: f64) -> OpInfo {
    let (name, phase) = match (data, sends) {
        (Data::Activations, true) => ("send activations", Phase::Forward),
        (Data::Activations, false) => ("recv activations", Phase::Forward),
        (Data::Gradients, true) => ("send gradients", Phase::Backward),
        (Data::Gradients, false) => ("recv gradients", Phase::Backward),
    };
    OpInfo::of(name, phase, bytes)
}
