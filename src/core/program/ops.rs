//! The program of one rank: streams of ops.

use super::facts::ProgramFacts;
use super::span::Span;
use crate::declare::named;
use crate::ids::{OpId, TransferId};
use crate::kernel_class::KernelClass;
use crate::units::Time;

/// The program of one rank, shared by all ranks of the same role.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The in-order queues; the index is the stream's number in this program.
    pub streams: Vec<Stream>,
    /// All ops, in an order in which every wait points backwards (so a forward sweep sees causes first).
    pub ops: Vec<Op>,
    /// Ops waited for: `Op::waits` is a span of this table.
    pub waits: Vec<OpId>,
    /// Allocations and frees: `Op::memory` is a span of this table.
    pub memory: Vec<MemoryEffect>,
    /// Descriptions of ops, for readers: `Op::info` indexes them. Micro-batches share entries.
    pub infos: Vec<OpInfo>,
    /// Bytes that are resident from the start, before any op.
    pub resident: Vec<MemoryEffect>,
    /// Where the program repeats itself, as a run of several steps does: the number of ops up to the end of each round.
    pub rounds: Vec<u32>,
    /// The number of its inputs among inputs that differ between ranks: programs of other inputs have more or less to
    /// do.
    pub inputs: u32,
    /// The facts known of it and of others of its shape.
    pub facts: ProgramFacts,
}

impl Program {
    /// How much later than its end `op` sees the end of `before`, which it waits for.
    pub fn latency_between(&self, before: OpId, op: OpId) -> Time {
        let [from, to] = [before, op].map(|o| self.ops[o.index()].stream);
        if from == to { Time::ZERO } else { self.streams[usize::from(from)].latency }
    }
    /// Bytes per second that the hungriest kernels of all streams move at once, where none takes less than `fastest`
    /// of its time, to the picosecond.
    pub fn most_memory_rate(&self, fastest: f64) -> f64 {
        let mut of_stream = vec![0.0f64; self.streams.len()];
        for op in self.ops.iter().filter(|op| op.memory_rate > 0.0) {
            let Some(most) = of_stream.get_mut(usize::from(op.stream)) else { continue };
            let rate = match op.work {
                Work::Compute { time } if fastest < 1.0 => {
                    let nominal = time.0 as f64;
                    f64::from(op.memory_rate) * (nominal / (nominal * fastest - 0.5).max(1.0))
                }
                _ => f64::from(op.memory_rate),
            };
            *most = most.max(rate);
        }
        of_stream.into_iter().sum()
    }
}

/// An in-order queue of ops on one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// The purpose of the stream, for readers.
    pub kind: StreamKind,
    /// The traits that the engine knows.
    pub traits: StreamTraits,
    /// Its ops in order.
    pub ops: Vec<OpId>,
    /// Ops of other streams that wait for one of its ops see its end so much later (launches: the way from the host
    /// to the device).
    pub latency: Time,
}

/// How a stream behaves beside the others of its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StreamTraits {
    /// Communication on it is a kernel that takes compute units from the device.
    pub takes_units: bool,
    /// Where several streams wait for room on a tier, it goes before those that are not urgent.
    pub urgent: bool,
}

named! {
    /// The purpose of a stream, in the order of the rows on screen.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum StreamKind {
        /// Kernels.
        Compute = "compute",
        /// Tensor-parallel collectives.
        Tensor = "tp",
        /// Context-parallel transfers.
        Context = "cp",
        /// Expert-parallel all-to-alls.
        Expert = "ep",
        /// Pipeline sends.
        PipelineSend = "pp send",
        /// Pipeline receives.
        PipelineRecv = "pp recv",
        /// Data-parallel collectives.
        Data = "dp",
        /// Copies towards the device (prefetch).
        CopyIn = "h2d",
        /// Copies away from the device (write-back, offload).
        CopyOut = "d2h",
        /// Work of the host (kernel launches, host optimizer).
        Host = "host",
    }
}

impl StreamKind {
    /// The traits of streams of this kind unless the plan says otherwise: collectives are kernels that take compute
    /// units (copy engines and the network adapters of point-to-point transfers do not), and kernels have memory
    /// first.
    pub fn traits(self) -> StreamTraits {
        StreamTraits {
            takes_units: matches!(
                self,
                StreamKind::Tensor | StreamKind::Context | StreamKind::Expert | StreamKind::Data
            ),
            urgent: self == StreamKind::Compute,
        }
    }
}

/// One op of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Op {
    /// Its work.
    pub work: Work,
    /// Ops of the same rank that must have ended: span of `Program::waits`.
    pub waits: Span,
    /// Bytes taken and given back: span of `Program::memory`.
    pub memory: Span,
    /// Index into `Program::infos`.
    pub info: u32,
    /// Micro-batch, or `NO_MICRO_BATCH`.
    pub micro_batch: u32,
    /// The stream that it is queued on.
    pub stream: u16,
    /// Extra time in thousandths while a communication kernel takes compute units of the device: 250 makes the op
    /// 1.25 times as long for that while. 0 for ops that do not mind.
    pub slowdown: u16,
    /// Bytes per second that a kernel moves to and from device memory while nothing disturbs it. 0 where that does not
    /// matter.
    pub memory_rate: f32,
}

impl Op {
    /// Notes the slot that it uses, in a list of whether each is used.
    #[inline]
    pub(crate) fn note_slot(&self, used: &mut Vec<bool>) {
        if let Work::Comm { slot, .. } = self.work {
            let slot = usize::from(slot);
            if used.len() <= slot {
                used.resize(slot + 1, false);
            }
            used[slot] = true;
        }
    }
}

/// The micro-batch of an op that belongs to none (optimizer step, gradient bucket).
pub const NO_MICRO_BATCH: u32 = u32::MAX;

/// The work of an op while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A kernel: a fixed time on the device (times the rank's slowness and jitter).
    Compute {
        /// Its duration on an undisturbed device.
        time: Time,
    },
    /// Communication, or a copy: takes part in the next action of a communicator.
    Comm {
        /// The rank's communicator: index into its bindings.
        slot: u16,
        /// The transfer: the communicator's profile turns it into an action.
        transfer: TransferId,
    },
}

/// An allocation or a free on a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryEffect {
    /// When and in which direction.
    pub when: MemoryWhen,
    /// The contents of the bytes.
    pub class: MemoryClass,
    /// The rank's tier: index into its tier bindings; 0 is the device's own memory.
    pub tier: u8,
    /// How many.
    pub bytes: u64,
}

/// When a memory effect takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryWhen {
    /// Taken when the op starts; the op does not start before the bytes fit.
    AllocAtStart,
    /// Given back when the op starts.
    FreeAtStart,
    /// Given back when the op ends.
    FreeAtEnd,
}

named! {
    /// The contents of allocated bytes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum MemoryClass {
        /// Parameters in the precision of the forward pass (gathered copies too).
        Weights = "weights",
        /// Gradients.
        Gradients = "gradients",
        /// Master weights and moments.
        Optimizer = "optimizer",
        /// Activations saved for the backward pass.
        Activations = "activations",
        /// Short-lived buffers of running kernels and copies.
        Workspace = "workspace",
    }
}

/// The description of an op, for readers of the record.
#[derive(Clone, Debug, PartialEq)]
pub struct OpInfo {
    /// Kernel or collective in the field's words: `qkv`, `all-gather`, `optimizer step`.
    pub name: std::borrow::Cow<'static, str>,
    /// The part of the step that it belongs to.
    pub phase: Phase,
    /// Global layer number, where it belongs to one layer.
    pub layer: Option<u32>,
    /// The kind of kernel; `None` for communication and abstract work.
    pub class: Option<KernelClass>,
    /// Floating-point operations of one execution on one rank.
    pub flops: f64,
    /// For kernels: bytes moved to and from device memory. For communication: bytes of the message on this rank.
    pub bytes: f64,
}

impl OpInfo {
    /// Of an op outside layers that is no kernel of a class: communication, or abstract work.
    pub fn of(name: impl Into<std::borrow::Cow<'static, str>>, phase: Phase, bytes: f64) -> OpInfo {
        OpInfo { name: name.into(), phase, layer: None, class: None, flops: 0.0, bytes }
    }
}

named! {
    /// Parts of a training step.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Phase {
        /// Forward pass.
        Forward = "forward",
        /// Forward repeated in the backward pass.
        Recompute = "recompute",
        /// Backward pass, both gradients in one.
        Backward = "backward",
        /// Gradient of the inputs.
        InputGrad = "input gradient",
        /// Gradient of the weights.
        WeightGrad = "weight gradient",
        /// Optimizer step and what surrounds it.
        Optimizer = "optimizer",
    }
}
