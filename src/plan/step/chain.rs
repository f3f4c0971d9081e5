//! Pushing ops: a chain is one pass of one micro-batch, layer after layer.
//!
//! Kernels follow each other on the compute stream. A communication point waits for the kernel before it; the kernel
//! after it waits for the communication, unless the point lets a number of kernels run meanwhile. Two chains can be
//! pushed in turns (overlapped forward and backward): each time one comes to a communication point the other goes on,
//! so that its kernels fill the wait.

use std::rc::Rc;

use stepsim_core::ids::{OpId, TransferId};
use stepsim_core::program::{MemoryClass, MemoryEffect, MemoryWhen, ProgramBuilder, Work};
use stepsim_core::units::Time;
use stepsim_schedule::Pass;

/// One op to push.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// A kernel.
    Kernel {
        /// Its description in the open program.
        info: u32,
        /// Its time alone.
        time: Time,
        /// Thousandths that it takes longer beside a communication kernel.
        slowdown: u16,
    },
    /// A communication.
    Comm {
        /// The communicator's slot.
        slot: u16,
        /// The stream of that slot.
        stream: u16,
        /// The transfer.
        transfer: TransferId,
        /// Its description in the open program.
        info: u32,
        /// Kernels that may run before it must have ended.
        hidden: u32,
        /// True for an exchange with experts.
        exchange: bool,
    },
}

/// One pass through one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The unit, by its number on the rank.
    pub unit: u32,
    /// The pass.
    pub pass: Pass,
    /// True if this part repeats the forward pass for the backward pass to come.
    pub repeats: bool,
    /// True if recomputed items stand among its own ops.
    pub recomputes: bool,
    /// The micro-batch.
    pub micro_batch: u32,
}

/// The visits of a pass in order, each with its ops. Passes that differ in the micro-batch alone share them: they name
/// the micro-batch of the first.
pub type Segments = Rc<[(Visit, Rc<[Act]>)]>;

/// A pass of one micro-batch: visits with their ops.
#[derive(Debug, Default)]
pub struct Chain {
    segments: Segments,
    micro_batch: u32,
    segment: usize,
    at: usize,
    /// Ops in flight, each with the number of kernels that may still run before it must have ended.
    pending: Vec<(OpId, u32)>,
    /// The op pushed last whose output the next one reads.
    last: Option<OpId>,
    /// Effects of the next op.
    effects: Vec<MemoryEffect>,
    /// The ops that the op being pushed waits for; kept so that nothing is allocated for each.
    waits: Vec<OpId>,
    compute: u16,
}

/// The last act of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// Comes to a visit: everything it needs may be pushed now.
    Opens(Visit),
    /// Pushed a kernel.
    Kernel,
    /// Pushed a communication.
    Comm,
    /// Pushed an exchange with experts, and the op whose output it sends.
    Exchange(OpId, Option<OpId>),
    /// Has pushed the last op of a visit.
    Closes(Visit),
    /// Has nothing left.
    Done,
}

impl Chain {
    /// A pass of a micro-batch, whose first op waits for `input`.
    pub fn new(segments: Segments, micro_batch: u32, input: Option<OpId>, compute: u16) -> Chain {
        let pending = input.map(|op| (op, 0)).into_iter().collect();
        Chain { segments, micro_batch, at: usize::MAX, pending, compute, ..Chain::default() }
    }
    /// Makes the next kernel wait for an op.
    pub fn wait(&mut self, op: OpId) {
        self.pending.push((op, 0));
    }
    /// Makes the next op take bytes of device memory when it starts.
    pub fn take(&mut self, class: MemoryClass, bytes: u64) {
        if bytes > 0 {
            self.effects.push(MemoryEffect { when: MemoryWhen::AllocAtStart, class, tier: 0, bytes });
        }
    }
    /// The op after which the output is there.
    pub fn output(&self) -> Option<OpId> {
        self.pending.iter().map(|p| p.0).max().into_iter().chain(self.last).max()
    }

    /// True if the next op is an exchange with experts.
    pub fn is_at_exchange(&self) -> bool {
        let act = self.segments.get(self.segment).and_then(|(_, acts)| acts.get(self.at));
        matches!(act, Some(Act::Comm { exchange: true, .. }))
    }

    /// Pushes the next op, or says that a visit begins or ends.
    pub fn step(&mut self, b: &mut ProgramBuilder) -> Advance {
        let Some((visit, acts)) = self.segments.get(self.segment) else {
            return Advance::Done;
        };
        let visit = Visit { micro_batch: self.micro_batch, ..*visit };
        if self.at == usize::MAX {
            self.at = 0;
            return Advance::Opens(visit);
        }
        let Some(act) = acts.get(self.at).copied() else {
            self.segment += 1;
            self.at = usize::MAX;
            return Advance::Closes(visit);
        };
        self.at += 1;
        let (op, step) = self.push(b, act);
        if !self.effects.is_empty() {
            self.effects.drain(..).for_each(|effect| b.memory(op, effect));
        }
        step
    }

    fn push(&mut self, b: &mut ProgramBuilder, act: Act) -> (OpId, Advance) {
        match act {
            Act::Kernel { info, time, slowdown } => {
                self.gather_waits(true);
                // The kernel before it is on the same stream.
                let op = b.op(self.compute, Work::Compute { time }, &self.waits, info, self.micro_batch);
                b.slowdown(op, slowdown);
                self.last = Some(op);
                for (_, left) in &mut self.pending {
                    *left = left.saturating_sub(1);
                }
                (op, Advance::Kernel)
            }
            Act::Comm { slot, stream, transfer, info, hidden, exchange } => {
                let before = if exchange { self.output() } else { None };
                // A kernel that may run before this communication has ended waits for the same ops itself.
                self.gather_waits(hidden == 0);
                self.waits.extend(self.last);
                let op = b.op(stream, Work::Comm { slot, transfer }, &self.waits, info, self.micro_batch);
                self.pending.push((op, hidden));
                (op, if exchange { Advance::Exchange(op, before) } else { Advance::Comm })
            }
        }
    }

    /// Puts into `waits` what must have ended before the next op; if `passed_on`, what comes after that waits for it
    /// alone.
    fn gather_waits(&mut self, passed_on: bool) {
        let Chain { pending, waits, .. } = self;
        waits.clear();
        // Most kernels follow another one and nothing else.
        if pending.is_empty() {
            return;
        }
        waits.extend(pending.iter().filter(|(_, left)| *left == 0).map(|(op, _)| *op));
        if passed_on {
            pending.retain(|(_, left)| *left > 0);
        }
    }
}
