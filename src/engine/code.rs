//! Programs as the loop reads them: one small record an op, in the cache for all ranks of a role.

use super::EngineError;
use crate::program::{MemoryWhen, Program, Work};

/// "Waits for nothing", "no more".
pub const NONE: u32 = u32::MAX;

/// What the loop needs of an op.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// Picoseconds of a kernel; transfer number of a communication.
    pub value: u64,
    /// The op's number in its program.
    pub op: u32,
    /// First op waited for, or `NONE`.
    pub wait: u32,
    /// Communicator slot, or `NO_SLOT` for a kernel.
    pub slot: u16,
    /// Thousandths that a kernel takes longer beside a communication kernel.
    pub slowdown: u16,
    /// More than one wait.
    pub more_waits: bool,
    /// Has effects when it starts.
    pub allocates: bool,
    /// Gives bytes back when it ends.
    pub frees: bool,
}

/// A kernel's slot.
pub const NO_SLOT: u16 = u16::MAX;

/// A program in the loop's form.
#[derive(Debug)]
pub struct Compiled<'w> {
    /// The program itself, for what is rarely needed.
    pub program: &'w Program,
    /// The ops of all streams in order, stream after stream.
    pub code: Vec<Code>,
    /// Where each stream begins in `code`; one entry more than streams.
    pub first: Vec<u32>,
    /// Whether communication on the stream takes compute units.
    pub takes_units: Vec<bool>,
    /// Streams with kernels that mind units taken beside them.
    pub slowed: Vec<u16>,
    /// Whether kernels of the stream come first when memory is given back.
    pub urgent: Vec<bool>,
    /// Words of 64 bits that hold one bit an op.
    pub words: usize,
}

impl<'w> Compiled<'w> {
    /// # Errors
    /// `Invalid` if a wait points nowhere, an op sits on two streams or on none, or one communicator slot is used
    /// on two streams (its ops would have no order).
    pub fn new(program: &'w Program) -> Result<Self, EngineError> {
        let n = program.ops.len();
        let invalid = |text: String| Err(EngineError::Invalid(text));
        let mut order = Vec::with_capacity(n);
        let mut first = vec![0];
        let mut queued = vec![false; n];
        let mut stream_of_slot: Vec<u32> = Vec::new();
        for (s, stream) in program.streams.iter().enumerate() {
            for &op in &stream.ops {
                if op.index() >= n || std::mem::replace(&mut queued[op.index()], true) {
                    return invalid(format!("op {} is queued twice or does not exist", op.0));
                }
                if let Work::Comm { slot, .. } = program.ops[op.index()].work {
                    let slot = usize::from(slot);
                    if stream_of_slot.len() <= slot {
                        stream_of_slot.resize(slot + 1, NONE);
                    }
                    if stream_of_slot[slot] != NONE && stream_of_slot[slot] != s as u32 {
                        return invalid(format!(
                            "communicator slot {slot} is used on two streams of one rank"
                        ));
                    }
                    stream_of_slot[slot] = s as u32;
                }
                order.push(op.0);
            }
            first.push(order.len() as u32);
        }
        if order.len() != n {
            return invalid(format!("{} of {n} ops are queued on no stream", n - order.len()));
        }
        let minds = |s: &u16| {
            program.streams[usize::from(*s)].ops.iter().any(|op| {
                let op = &program.ops[op.index()];
                op.slowdown > 0 && matches!(op.work, Work::Compute { .. })
            })
        };
        let slowed = (0..program.streams.len() as u16).filter(minds).collect();
        let code = order.iter().map(|&number: &u32| {
            let op = &program.ops[number as usize];
            let waits = &program.waits[op.waits.range()];
            if waits.iter().any(|w| w.index() >= n) {
                return Err(EngineError::Invalid("a wait for an op that does not exist".into()));
            }
            let effects = &program.memory[op.memory.range()];
            let (value, slot) = match op.work {
                Work::Compute { time } => (time.0, NO_SLOT),
                Work::Comm { slot, transfer } => (u64::from(transfer.0), slot),
            };
            Ok(Code {
                value,
                op: number,
                wait: waits.first().map_or(NONE, |w| w.0),
                slot,
                slowdown: op.slowdown,
                more_waits: waits.len() > 1,
                allocates: effects.iter().any(|e| e.when != MemoryWhen::FreeAtEnd),
                frees: effects.iter().any(|e| e.when == MemoryWhen::FreeAtEnd),
            })
        });
        Ok(Compiled {
            program,
            code: code.collect::<Result<_, _>>()?,
            first,
            takes_units: program.streams.iter().map(|s| s.traits.takes_units).collect(),
            slowed,
            urgent: program.streams.iter().map(|s| s.traits.urgent).collect(),
            words: n.div_ceil(64),
        })
    }

    /// Number of streams.
    pub fn streams(&self) -> usize {
        self.first.len() - 1
    }
}
