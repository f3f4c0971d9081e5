//! An order of passes becomes one program per pipeline rank: the same code for abstract and for real steps.
//!
//! A [`StageWork`] says what one pass of one micro-batch through one chunk does on a rank; this module puts the
//! transfers around it. The data of one border between stages in one direction (activations into stage s, gradients
//! into stage s) is a **channel**: a communicator of the sending and the receiving rank, with a stream of its own on
//! both. Sends and receives of a channel stand in the producer's order on both sides, so that messages cannot
//! mismatch, whatever the consumer's order. Receives are posted ahead; a pass waits for the receive it needs, and no
//! pass waits for its send. A border inside a rank (the turn of a V) needs no transfer.
//!
//! Hazards:
//! * A channel carries one message at a time. Where transfers may last longer than the time between two messages and
//!   must not queue, give the channels more lanes: messages then go round-robin over parallel communicators.
//! * With [`Sends::Blocking`] a send holds the compute stream until the transfer ends.

mod abstract_work;

pub use abstract_work::{AbstractPipeline, abstract_world};

use crate::ids::{OpId, TransferId};
use crate::plan::schedule::{Data, Order, Part, Pass, Placement, Seat, Slot, StageAt};
use crate::program::{OpInfo, Phase, Program, ProgramBuilder, StreamKind, Work};

/// How transfers and compute share a rank's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sends {
    /// On streams of their own; receives are posted ahead.
    #[default]
    Asynchronous,
    /// A send is queued on the compute stream, behind its pass: the next pass waits for the transfer to end.
    /// Receives are posted ahead.
    Blocking,
    /// As blocking, and a receive is posted only when the pass before its consumer has ended: Megatron's batched
    /// send-and-receive between passes. Not every order can run so; the engine shows the wait cycle of one that cannot.
    Batched,
}

/// What crosses one border in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// What it carries.
    pub data: Data,
    /// The stage that makes it.
    pub from_stage: StageAt,
    /// The chunk that makes it.
    pub from: Seat,
    /// The chunk that takes it.
    pub to: Seat,
    /// Which of the parallel lanes of this border, from 0.
    pub lane: u32,
}

/// A message of a channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message {
    /// What the channel's communicator does for it.
    pub transfer: TransferId,
    /// Its size on one rank, for readers of the record.
    pub bytes: f64,
}

/// One pass of one micro-batch on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The pipeline rank.
    pub rank: u32,
    /// The stage that the chunk is.
    pub at: StageAt,
    /// Pass, chunk and micro-batch.
    pub part: Part,
    /// The op that ends when the input is there: a receive, or on this rank the pass across the border (for the
    /// backward pass of the last stage its own forward pass). `None` for the first stage's forward pass and for weight
    /// gradients.
    pub input: Option<OpId>,
    /// No part of this chunk stands before it in the rank's order.
    pub first_of_chunk: bool,
    /// No part of this chunk stands behind it in the rank's order.
    pub last_of_chunk: bool,
}

/// What passes do on a rank: implemented by whoever knows the stages.
pub trait StageWork {
    /// Opens a rank's program: adds its streams, resident bytes and whatever comes before the first pass. Returns
    /// the compute stream.
    fn begin(&mut self, program: &mut ProgramBuilder, rank: u32) -> u16;
    /// Pushes the ops of one pass, the first of which wait for `task.input`. Returns the op after which the output may
    /// be sent.
    fn pass(&mut self, program: &mut ProgramBuilder, task: &Task) -> OpId;
    /// Pushes the ops of two overlapped passes and returns the ops after which each output may be sent. By default
    /// one after the other.
    fn overlapped(&mut self, program: &mut ProgramBuilder, forward: &Task, backward: &Task) -> (OpId, OpId) {
        (self.pass(program, forward), self.pass(program, backward))
    }
    /// Closes a rank's program: whatever comes after the last pass.
    fn end(&mut self, program: &mut ProgramBuilder, rank: u32);
    /// What a channel's messages are.
    fn message(&self, channel: &Channel) -> Message;
    /// Called after a send has been pushed, to add its memory effects.
    fn sent(&mut self, _program: &mut ProgramBuilder, _channel: &Channel) {}
    /// Called after a receive has been pushed, to add its memory effects.
    fn received(&mut self, _program: &mut ProgramBuilder, _channel: &Channel) {}
}

/// The programs of the pipeline ranks and what they talk over.
#[derive(Debug, Default)]
pub struct Pipeline {
    /// One program per pipeline rank.
    pub programs: Vec<Program>,
    /// All channels, each lane by itself; the members of its communicator are (from.rank, to.rank) in this order.
    pub channels: Vec<Channel>,
    /// For each rank, the channel that its slot `first_slot + i` means, as an index into `channels`.
    pub slots: Vec<Vec<u32>>,
}

/// Settings of [`programs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How sends are queued.
    pub sends: Sends,
    /// Parallel lanes of each channel, at least 1.
    pub lanes: u32,
    /// The first communicator slot that pipeline transfers may use; those below are the caller's.
    pub first_slot: u16,
}

impl Default for Options {
    fn default() -> Self {
        Options { sends: Sends::Asynchronous, lanes: 1, first_slot: 0 }
    }
}

/// Builds the program of every pipeline rank.
///
/// `order` must have passed [`Order::check`] (those of the named schedules always do).
pub fn programs(order: &Order, options: Options, work: &mut dyn StageWork) -> Pipeline {
    let wires = Wires::new(order);
    let mut channels =
        Channels { list: Vec::new(), known: vec![u32::MAX; wires.made.len() * options.lanes as usize] };
    let mut pipeline = Pipeline::default();
    for rank in 0..order.placement.ranks() {
        let (program, slots) = RankBuilder::new(order, &wires, options, rank, &mut channels).build(work);
        pipeline.programs.push(program);
        pipeline.slots.push(slots);
    }
    pipeline.channels = channels.list;
    pipeline
}

/// The channels met so far; each is met on two ranks.
struct Channels {
    list: Vec<Channel>,
    /// Per (wire, lane) its place in the list, or `u32::MAX`.
    known: Vec<u32>,
}

impl Channels {
    fn index_of(&mut self, key: usize, channel: Channel) -> u32 {
        if self.known[key] == u32::MAX {
            self.known[key] = self.list.len() as u32;
            self.list.push(channel);
        }
        self.known[key]
    }
}

/// What each stage makes, in its order.
struct Wires {
    stages: usize,
    micro_batches: usize,
    /// `made[wire]`: the micro-batches in the order in which the producer makes them.
    made: Vec<Vec<u32>>,
    /// `place[wire · m + micro-batch]`: where in `made` it stands.
    place: Vec<u32>,
}

impl Wires {
    fn new(order: &Order) -> Wires {
        let stages = order.placement.stages() as usize;
        let (micro_batches, wires) =
            (order.micro_batches as usize, 2 * stages * order.placement.directions() as usize);
        let mut w = Wires {
            stages,
            micro_batches,
            made: vec![Vec::new(); wires],
            place: vec![0; wires * micro_batches],
        };
        for (rank, slots) in order.ranks.iter().enumerate() {
            for part in slots.iter().flat_map(|s| s.parts()) {
                let Some(data) = part.pass.makes() else { continue };
                let at = order.placement.stage(Seat { rank: rank as u32, chunk: part.chunk });
                let wire = w.wire(at, data);
                w.place[wire * micro_batches + part.micro_batch as usize] = w.made[wire].len() as u32;
                w.made[wire].push(part.micro_batch);
            }
        }
        w
    }
    fn wire(&self, at: StageAt, data: Data) -> usize {
        2 * (usize::from(at.direction) * self.stages + at.stage as usize) + data as usize
    }
    fn place(&self, wire: usize, micro_batch: u32) -> usize {
        self.place[wire * self.micro_batches + micro_batch as usize] as usize
    }
}

/// One end of the lanes of a channel on one rank.
struct End {
    wire: usize,
    /// Stream, slot, channel and message description per lane.
    lanes: Vec<Lane>,
    /// Receives posted, in the producer's order.
    posted: Vec<OpId>,
}

#[derive(Clone, Copy)]
struct Lane {
    stream: u16,
    slot: u16,
    channel: u32,
    info: u32,
    transfer: TransferId,
}

/// A stage border as one of a rank's chunks sees it.
enum Border {
    /// The pipeline begins or ends here.
    Open,
    /// The other side is on this rank too.
    Inside,
    /// The other side is on another rank: index into `RankBuilder::ends`.
    Across(usize),
}

struct RankBuilder<'a> {
    order: &'a Order,
    wires: &'a Wires,
    options: Options,
    rank: u32,
    channels: &'a mut Channels,
    program: ProgramBuilder,
    compute: u16,
    slots: Vec<u32>,
    ends: Vec<End>,
    /// `[chunk][data]`: where that input comes from, and where that output goes.
    inputs: Vec<[Border; 2]>,
    outputs: Vec<[Border; 2]>,
    /// Per (chunk, data, micro-batch): the op that made what stays on this rank.
    local: Vec<OpId>,
    /// The last op of the pass before.
    before: Option<OpId>,
}

impl<'a> RankBuilder<'a> {
    fn new(
        order: &'a Order,
        wires: &'a Wires,
        options: Options,
        rank: u32,
        channels: &'a mut Channels,
    ) -> RankBuilder<'a> {
        let chunks = usize::from(order.placement.chunks(rank));
        RankBuilder {
            order,
            wires,
            options,
            rank,
            channels,
            program: ProgramBuilder::new(),
            compute: 0,
            slots: Vec::new(),
            ends: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            local: vec![OpId(0); chunks * 2 * order.micro_batches as usize],
            before: None,
        }
    }

    fn build(mut self, work: &mut dyn StageWork) -> (Program, Vec<u32>) {
        self.compute = work.begin(&mut self.program, self.rank);
        for chunk in 0..self.order.placement.chunks(self.rank) {
            let at = self.order.placement.stage(Seat { rank: self.rank, chunk });
            let input = [Data::Activations, Data::Gradients].map(|data| self.input_border(work, at, data));
            let output = [Data::Activations, Data::Gradients].map(|data| self.output_border(work, at, data));
            self.inputs.push(input);
            self.outputs.push(output);
        }
        let order = self.order;
        let slots = &order.ranks[self.rank as usize];
        let chunks = self.inputs.len();
        let (mut first, mut last) = (vec![usize::MAX; chunks], vec![0; chunks]);
        for (i, chunk) in
            slots.iter().enumerate().flat_map(|(i, s)| s.parts().map(move |p| (i, p.chunk as usize)))
        {
            first[chunk] = first[chunk].min(i);
            last[chunk] = i;
        }
        for (i, slot) in slots.iter().enumerate() {
            let mut task = |part: Part| {
                let c = part.chunk as usize;
                self.task(work, part, first[c] == i, last[c] == i)
            };
            match *slot {
                Slot::Single(part) => {
                    let task = task(part);
                    let done = work.pass(&mut self.program, &task);
                    self.output(work, part, done);
                    self.before = Some(done);
                }
                Slot::Overlapped { forward, backward } => {
                    let (f, b) = (task(forward), task(backward));
                    let done = work.overlapped(&mut self.program, &f, &b);
                    self.output(work, forward, done.0);
                    self.output(work, backward, done.1);
                    self.before = Some(done.0.max(done.1));
                }
            }
        }
        work.end(&mut self.program, self.rank);
        (self.program.finish(), self.slots)
    }

    fn input_border(&mut self, work: &mut dyn StageWork, at: StageAt, data: Data) -> Border {
        match self.order.placement.source(at, data) {
            None => Border::Open,
            Some((from, _)) if self.order.placement.seat(from).rank == self.rank => Border::Inside,
            Some((from, data)) => self.across(work, from, at, data, StreamKind::PipelineRecv),
        }
    }
    fn output_border(&mut self, work: &mut dyn StageWork, at: StageAt, data: Data) -> Border {
        match consumer(&self.order.placement, at, data) {
            None => Border::Open,
            Some(to) if self.order.placement.seat(to).rank == self.rank => Border::Inside,
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
    ) -> Border {
        let placement = &self.order.placement;
        let sends = kind == StreamKind::PipelineSend;
        let wire = self.wires.wire(from, data);
        let mut lanes = Vec::new();
        for lane in 0..self.options.lanes {
            let channel =
                Channel { data, from_stage: from, from: placement.seat(from), to: placement.seat(to), lane };
            let index = self.channels.index_of(wire * self.options.lanes as usize + lane as usize, channel);
            let on_compute = sends && self.options.sends != Sends::Asynchronous;
            let stream = if on_compute { self.compute } else { self.program.stream(kind) };
            let message = work.message(&channel);
            let info = self.program.info(info(data, sends, message.bytes));
            let slot = self.options.first_slot + self.slots.len() as u16;
            self.slots.push(index);
            lanes.push(Lane { stream, slot, channel: index, info, transfer: message.transfer });
        }
        self.ends.push(End { wire, lanes, posted: Vec::new() });
        Border::Across(self.ends.len() - 1)
    }

    fn task(
        &mut self,
        work: &mut dyn StageWork,
        part: Part,
        first_of_chunk: bool,
        last_of_chunk: bool,
    ) -> Task {
        let at = self.order.placement.stage(Seat { rank: self.rank, chunk: part.chunk });
        let input =
            part.pass.makes().and_then(|data| match self.inputs[part.chunk as usize][data as usize] {
                Border::Open => None,
                Border::Inside => {
                    let (from, data) = self.order.placement.source(at, data)?;
                    Some(
                        self.local
                            [self.local_index(self.order.placement.seat(from).chunk, data, part.micro_batch)],
                    )
                }
                Border::Across(end) => Some(self.receive(work, end, part.micro_batch)),
            });
        Task { rank: self.rank, at, part, input, first_of_chunk, last_of_chunk }
    }

    /// The receive of one micro-batch; posts it and all that the producer makes before it, unless that is done.
    fn receive(&mut self, work: &mut dyn StageWork, end: usize, micro_batch: u32) -> OpId {
        let place = self.wires.place(self.ends[end].wire, micro_batch);
        while self.ends[end].posted.len() <= place {
            let End { wire, lanes, posted } = &mut self.ends[end];
            let lane = lanes[posted.len() % lanes.len()];
            let micro_batch = self.wires.made[*wire][posted.len()];
            let after = self.before.filter(|_| self.options.sends == Sends::Batched);
            let op = Work::Comm { slot: lane.slot, transfer: lane.transfer };
            posted.push(self.program.op(lane.stream, op, after.as_slice(), lane.info, micro_batch));
            work.received(&mut self.program, &self.channels.list[lane.channel as usize]);
        }
        self.ends[end].posted[place]
    }

    /// Sends what `part` has made, or remembers it for this rank.
    fn output(&mut self, work: &mut dyn StageWork, part: Part, done: OpId) {
        let Some(data) = part.pass.makes() else { return };
        if let Border::Across(end) = self.outputs[part.chunk as usize][data as usize] {
            let End { wire, lanes, .. } = &self.ends[end];
            let lane = lanes[self.wires.place(*wire, part.micro_batch) % lanes.len()];
            let op = Work::Comm { slot: lane.slot, transfer: lane.transfer };
            self.program.op(lane.stream, op, &[done], lane.info, part.micro_batch);
            work.sent(&mut self.program, &self.channels.list[lane.channel as usize]);
        } else {
            let index = self.local_index(part.chunk, data, part.micro_batch);
            self.local[index] = done;
        }
    }

    fn local_index(&self, chunk: u16, data: Data, micro_batch: u32) -> usize {
        (2 * chunk as usize + data as usize) * self.order.micro_batches as usize + micro_batch as usize
    }
}

/// The stage that takes what stage `at` makes.
fn consumer(placement: &Placement, at: StageAt, data: Data) -> Option<StageAt> {
    match data {
        Data::Activations => {
            (at.stage + 1 < placement.stages()).then_some(StageAt { stage: at.stage + 1, ..at })
        }
        Data::Gradients => at.stage.checked_sub(1).map(|stage| StageAt { stage, ..at }),
    }
}

fn info(data: Data, sends: bool, bytes: f64) -> OpInfo {
    let (name, phase) = match (data, sends) {
        (Data::Activations, true) => ("send activations", Phase::Forward),
        (Data::Activations, false) => ("recv activations", Phase::Forward),
        (Data::Gradients, true) => ("send gradients", Phase::Backward),
        (Data::Gradients, false) => ("recv gradients", Phase::Backward),
    };
    OpInfo { name: name.into(), phase, layer: None, flops: 0.0, bytes }
}

/// The phase that a pass belongs to.
pub fn phase(pass: Pass) -> Phase {
    match pass {
        Pass::Forward => Phase::Forward,
        Pass::Backward => Phase::Backward,
        Pass::InputGrad => Phase::InputGrad,
        Pass::WeightGrad => Phase::WeightGrad,
    }
}
