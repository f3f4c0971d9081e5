//! Programs as the loop reads them: one small record an op, in the cache for all ranks of a role.

use super::EngineError;
use crate::program::{MemoryWhen, Op, Program, Work, World};

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
    /// Some op waits for it.
    pub awaited: bool,
    /// It is a kernel whose end nobody minds, and the next op of the stream is a kernel that takes no memory.
    pub runs_on: bool,
}

/// A kernel's slot.
pub const NO_SLOT: u16 = u16::MAX;

/// A program in the loop's form; its ops are a stretch of the code of all programs.
#[derive(Debug)]
pub struct Compiled<'w> {
    /// The program itself, for what is rarely needed.
    pub program: &'w Program,
    /// Where each stream begins in the code; one entry more than streams.
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

/// All programs of a world, and their code: the ops of all streams in order, stream after stream.
///
/// # Errors
/// `Invalid` if a wait points nowhere, an op sits on two streams, on none or not in its turn, or one communicator slot is
/// used on two streams (its ops would have no order).
pub fn compile(world: &World) -> Result<(Vec<Compiled<'_>>, Vec<Code>), EngineError> {
    let mut code = Vec::with_capacity(world.programs.iter().map(|p| p.ops.len()).sum());
    let compiled = world.programs.iter().map(|p| Compiled::new(p, &mut code)).collect::<Result<_, _>>()?;
    Ok((compiled, code))
}

impl<'w> Compiled<'w> {
    fn new(program: &'w Program, code: &mut Vec<Code>) -> Result<Self, EngineError> {
        let n = program.ops.len();
        let begin = code.len();
        let awaited = awaited(program)?;
        let mut first = vec![begin as u32];
        let mut slowed = Vec::new();
        let mut stream_of_slot: Vec<u32> = Vec::new();
        for (s, stream) in (0..).zip(&program.streams) {
            let start = code.len();
            let mut minds = false;
            let mut next = 0;
            for &id in &stream.ops {
                let op = program.ops.get(id.index()).filter(|op| op.stream == s && id.0 >= next);
                let Some(op) = op else {
                    return invalid(format!("op {} stands on stream {s} where it does not belong", id.0));
                };
                next = id.0 + 1;
                if let Work::Comm { slot, .. } = op.work {
                    check_slot(&mut stream_of_slot, slot, s)?;
                } else {
                    minds |= op.slowdown > 0;
                }
                let of_op = Code::of(program, id.0, op, has(&awaited, id.0));
                if let Some(before) = code[start..].last_mut() {
                    before.runs_on = before.is_silent() && of_op.slot == NO_SLOT && !of_op.allocates;
                }
                code.push(of_op);
            }
            if minds {
                slowed.push(s);
            }
            first.push(code.len() as u32);
        }
        let queued = code.len() - begin;
        if queued != n {
            return invalid(format!("{} of {n} ops are queued on no stream", n - queued));
        }
        Ok(Compiled {
            program,
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

impl Code {
    #[inline]
    fn of(program: &Program, number: u32, op: &Op, awaited: bool) -> Code {
        let waits = &program.waits[op.waits.range()];
        let effects = &program.memory[op.memory.range()];
        let (value, slot) = match op.work {
            Work::Compute { time } => (time.0, NO_SLOT),
            Work::Comm { slot, transfer } => (u64::from(transfer.0), slot),
        };
        Code {
            value,
            op: number,
            wait: waits.first().map_or(NONE, |w| w.0),
            slot,
            slowdown: op.slowdown,
            more_waits: waits.len() > 1,
            allocates: effects.iter().any(|e| e.when != MemoryWhen::FreeAtEnd),
            frees: effects.iter().any(|e| e.when == MemoryWhen::FreeAtEnd),
            awaited,
            runs_on: false,
        }
    }

    /// A kernel whose end is seen by its own stream alone.
    fn is_silent(&self) -> bool {
        self.slot == NO_SLOT && !self.awaited && !self.frees
    }
}

/// A bit for each op that another waits for.
fn awaited(program: &Program) -> Result<Vec<u64>, EngineError> {
    let n = program.ops.len();
    let mut bits = vec![0; n.div_ceil(64)];
    for wait in &program.waits {
        if wait.index() >= n {
            return invalid("a wait for an op that does not exist".into());
        }
        bits[wait.index() / 64] |= 1 << (wait.0 % 64);
    }
    Ok(bits)
}

#[inline]
fn has(bits: &[u64], op: u32) -> bool {
    bits[op as usize / 64] >> (op % 64) & 1 == 1
}

/// Notes the stream on which a communicator slot is used.
#[inline]
fn check_slot(stream_of_slot: &mut Vec<u32>, slot: u16, stream: u16) -> Result<(), EngineError> {
    let at = usize::from(slot);
    if stream_of_slot.len() <= at {
        stream_of_slot.resize(at + 1, NONE);
    }
    if stream_of_slot[at] != NONE && stream_of_slot[at] != u32::from(stream) {
        return invalid(format!("communicator slot {slot} is used on two streams of one rank"));
    }
    stream_of_slot[at] = u32::from(stream);
    Ok(())
}

fn invalid<T>(text: String) -> Result<T, EngineError> {
    Err(EngineError::Invalid(text))
}
