//! The requests of a pipeline, and the work of its stages.

use stepsim_core::declare::defaults;
use stepsim_core::ids::{OpId, TransferId};
use stepsim_core::program::{Phase, Program, ProgramBuilder};
use stepsim_schedule::{Data, Pass, Seat, SlotPass, StageAt};

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
    /// send-and-receive between passes. Where ranks have several chunks
    /// ([`Order::alternates`](stepsim_schedule::Order::alternates)), all that a pass, or a forward and a backward pass
    /// in a row, has made is sent in one exchange with what the next ones need, and they wait for the whole exchange.
    /// Not every order can run so; the engine shows the wait cycle of one that cannot.
    Batched,
}

/// The data that cross one border in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The kind of data.
    pub data: Data,
    /// The stage that makes it.
    pub from_stage: StageAt,
    /// The chunk that makes it.
    pub from: Seat,
    /// The chunk that takes it.
    pub to: Seat,
    /// The lane of this border, from 0, where several run in parallel.
    pub lane: u32,
}

/// A message of a channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message {
    /// The transfer on the channel's communicator.
    pub transfer: TransferId,
    /// Its size on one rank, for readers of the record.
    pub bytes: f64,
    /// How many such messages the sending rank sends for a micro-batch, and the receiving rank receives, each from
    /// another rank, one after the other. More than one of them where a stage has more ranks than the other.
    pub fans: [u32; 2],
}

/// One pass of one micro-batch on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The pipeline rank.
    pub rank: u32,
    /// The stage that the chunk is.
    pub at: StageAt,
    /// Pass, chunk and micro-batch.
    pub part: SlotPass,
    /// The op that ends when the input is there: a receive, or on this rank the pass across the border (for the
    /// backward pass of the last stage its own forward pass). `None` for the first stage's forward pass and for weight
    /// gradients.
    pub input: Option<OpId>,
    /// The op that brought the input right before the pass, where passes exchange between them: hosts may wait for it.
    pub exchange: Option<OpId>,
    /// No part of this chunk stands behind it in the rank's order.
    pub last_of_chunk: bool,
}

/// The work of passes on a rank: implemented by whoever knows the stages.
pub trait StageWork {
    /// Opens a rank's program: adds its streams, resident bytes and whatever comes before the first pass. Returns
    /// the compute stream.
    fn begin(&mut self, program: &mut ProgramBuilder, rank: u32) -> u16;
    /// Pushes the ops of one pass; the first of them wait for `task.input`. Returns the op after which the output may
    /// be sent.
    fn pass(&mut self, program: &mut ProgramBuilder, task: &Task) -> OpId;
    /// Pushes the ops of two overlapped passes and returns the ops after which each output may be sent. By default
    /// one after the other.
    fn overlapped(&mut self, program: &mut ProgramBuilder, forward: &Task, backward: &Task) -> (OpId, OpId) {
        (self.pass(program, forward), self.pass(program, backward))
    }
    /// Closes a step of a rank's program: whatever comes after its last pass.
    fn end(&mut self, _program: &mut ProgramBuilder, _rank: u32) {}
    /// The message of a channel; by default the first of its communicator, of no bytes.
    fn message(&self, _channel: &Channel) -> Message {
        Message { transfer: TransferId(0), bytes: 0.0, fans: [1; 2] }
    }
}

/// The programs of the pipeline ranks and what they talk over.
#[derive(Debug, Default)]
pub struct Pipeline {
    /// One program per pipeline rank.
    pub programs: Vec<Program>,
    /// All channels, each lane by itself; the members of its communicator are (from.rank, to.rank) in this order.
    pub channels: Vec<Channel>,
    /// For each rank, the channel that its slot `first_slot + i` means, as an index into `channels`; as many slots in
    /// a row as its end has messages of a micro-batch.
    pub slots: Vec<Vec<u32>>,
    /// For each rank, the receives of its first step, channel by channel in the order of the messages.
    pub receives: Vec<Vec<Receive>>,
}

/// A message that a rank receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receive {
    /// The op that ends when it is there.
    pub op: OpId,
    /// The rank's channel end that it comes to, by the order in which ends were opened.
    pub end: usize,
    /// The micro-batch.
    pub micro_batch: u32,
    /// True if it comes the way round: forwards from a later rank, backwards from an earlier one.
    pub comes_round: bool,
}

defaults! {
    /// Settings of [`programs`](super::programs).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PipelineOptions {
        /// How sends are queued.
        pub sends: Sends = Sends::Asynchronous,
        /// Parallel lanes of each channel, at least 1.
        pub lanes: u32 = 1,
        /// The first communicator slot that pipeline transfers may use; those below are the caller's.
        pub first_slot: u16,
        /// How many times each rank goes through its order, at least 1: steps one after the other.
        pub steps: u32 = 1,
        /// True if a host launches the ops in the order in which they are written.
        pub launched: bool,
        /// True if this host waits for each op before it launches the next.
        pub blocks: bool,
    }
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
