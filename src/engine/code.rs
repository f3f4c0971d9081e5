//! Programs as the loop reads them: one small record an op, in the cache for all ranks of a role.

use super::EngineError;
use crate::ids::OpId;
use crate::program::{MemoryWhen, Program, Work, World};
use crate::units::Time;

/// "Waits for nothing", "no more".
pub const NONE: u32 = u32::MAX;
/// Most places in the code: numbers above stand for other things (`ranks`, `sweep`).
const MOST: usize = 1 << 31;

/// What the loop needs of an op, two in a line of the cache.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// Picoseconds of a kernel; transfer number of a communication.
    pub value: u64,
    /// The op's number in its program.
    pub op: u32,
    /// Place in the code of the first op waited for, or `NONE`.
    pub wait: u32,
    /// The stream of its rank on which that op is.
    pub wait_stream: u16,
    /// The stream of its rank that waits for it, `NOBODY` or `SEVERAL`.
    pub waiter: u16,
    /// Communicator slot, `NO_SLOT` for a kernel, `END` behind the last op of a stream.
    pub slot: u16,
    /// Thousandths that a kernel takes longer beside a communication kernel.
    pub slowdown: u16,
    /// More than one wait.
    pub more_waits: bool,
    /// Has effects when it starts.
    pub allocates: bool,
    /// Gives bytes back when it ends.
    pub frees: bool,
    /// Other streams see its end later than its own.
    pub late: bool,
    /// It is communication that takes compute units.
    pub takes_units: bool,
    /// It is a kernel whose end nobody minds, and the next op of the stream is a kernel that takes no memory.
    pub runs_on: bool,
}

/// A kernel's slot.
pub const NO_SLOT: u16 = u16::MAX;
/// What stands behind the last op of a stream.
pub const END: u16 = u16::MAX - 1;

/// No stream.
pub const NOBODY: u16 = u16::MAX;
/// More than one stream.
pub const SEVERAL: u16 = u16::MAX - 1;

/// A program in the loop's form; its ops are a stretch of the code of all programs.
#[derive(Debug)]
pub struct Compiled<'w> {
    /// The program itself, for what is rarely needed.
    pub program: &'w Program,
    /// Where each stream begins in the code; one entry more than streams.
    pub first: Vec<u32>,
    /// By op: its place in the code.
    pub places: Vec<u32>,
    /// By stream: how many streams before it have kernels.
    pub kernels: Vec<u16>,
    /// Number of streams that have kernels.
    pub streams_with_kernels: u16,
    /// Number of slots.
    pub slots: u16,
    /// Streams with kernels that mind units taken beside them.
    pub slowed: Vec<u16>,
    /// Whether kernels of the stream come first when memory is given back.
    pub urgent: Vec<bool>,
}

/// All programs of a world, and their code: the ops of all streams in order, stream after stream, an end behind each.
///
/// # Errors
/// `Invalid` if a wait points nowhere, an op sits on two streams, on none or not in its turn, or one communicator slot is
/// used on two streams (its ops would have no order). `Limit` if places have no numbers left.
pub fn compile(world: &World) -> Result<(Vec<Compiled<'_>>, Vec<Code>), EngineError> {
    let places: usize = world.programs.iter().map(|p| p.ops.len() + p.streams.len()).sum();
    if places >= MOST {
        return Err(EngineError::Limit { what: "ops of programs", need: places as u64, limit: MOST as u64 });
    }
    let mut code = Vec::with_capacity(places);
    let compiled = world.programs.iter().map(|p| Compiled::new(p, &mut code)).collect::<Result<_, _>>()?;
    Ok((compiled, code))
}

impl<'w> Compiled<'w> {
    fn new(program: &'w Program, code: &mut Vec<Code>) -> Result<Self, EngineError> {
        let (places, waiters) = (places(program, code.len())?, waiters(program)?);
        let mut first = vec![code.len() as u32];
        let (mut kernels, mut streams_with_kernels, mut slowed) = (Vec::new(), 0, Vec::new());
        let mut stream_of_slot: Vec<u32> = Vec::new();
        for (s, stream) in (0..).zip(&program.streams) {
            let start = code.len();
            for &OpId(id) in &stream.ops {
                let mut of_op = Code::of(program, id, &places);
                of_op.waiter = waiters[id as usize];
                of_op.late = stream.latency > Time::ZERO;
                of_op.takes_units = stream.traits.takes_units;
                if of_op.slot != NO_SLOT {
                    check_slot(&mut stream_of_slot, of_op.slot, s)?;
                }
                if let Some(before) = code[start..].last_mut() {
                    before.runs_on = before.is_silent() && of_op.slot == NO_SLOT && !of_op.allocates;
                }
                code.push(of_op);
            }
            let ops = &code[start..];
            kernels.push(streams_with_kernels);
            streams_with_kernels += u16::from(ops.iter().any(|c| c.slot == NO_SLOT));
            if ops.iter().any(|c| c.slot == NO_SLOT && c.slowdown > 0) {
                slowed.push(s);
            }
            code.push(Code::end());
            first.push(code.len() as u32);
        }
        let slots = stream_of_slot.len() as u16;
        let urgent = program.streams.iter().map(|stream| stream.traits.urgent).collect();
        Ok(Compiled { program, first, places, kernels, streams_with_kernels, slots, slowed, urgent })
    }

    /// Number of streams.
    pub fn streams(&self) -> usize {
        self.first.len() - 1
    }

    /// Behind the last op of each stream.
    pub fn end(&self, stream: usize) -> u32 {
        self.first[stream + 1] - 1
    }
}

impl Code {
    #[inline]
    fn of(program: &Program, number: u32, places: &[u32]) -> Code {
        let op = &program.ops[number as usize];
        let mut waits = program.waits[op.waits.range()].iter().filter(|w| is_open(program, number, w.0));
        let wait = waits.next();
        let effects = &program.memory[op.memory.range()];
        let (value, slot) = match op.work {
            Work::Compute { time } => (time.0, NO_SLOT),
            Work::Comm { slot, transfer } => (u64::from(transfer.0), slot),
        };
        Code {
            value,
            op: number,
            wait: wait.map_or(NONE, |w| places[w.index()]),
            wait_stream: wait.map_or(NOBODY, |w| program.ops[w.index()].stream),
            waiter: NOBODY,
            slot,
            slowdown: op.slowdown,
            more_waits: waits.next().is_some(),
            allocates: effects.iter().any(|e| e.when != MemoryWhen::FreeAtEnd),
            frees: effects.iter().any(|e| e.when == MemoryWhen::FreeAtEnd),
            late: false,
            takes_units: false,
            runs_on: false,
        }
    }

    /// What stands behind the last op of a stream.
    fn end() -> Code {
        Code {
            value: 0,
            op: NONE,
            wait: NONE,
            wait_stream: NOBODY,
            waiter: NOBODY,
            slot: END,
            slowdown: 0,
            more_waits: false,
            allocates: false,
            frees: false,
            late: false,
            takes_units: false,
            runs_on: false,
        }
    }

    /// A kernel whose end is seen by its own stream alone.
    fn is_silent(&self) -> bool {
        self.slot == NO_SLOT && self.waiter == NOBODY && !self.frees
    }
}

/// Whether `op` has to wait for the op `wait`: one before it on its own stream has ended anyway.
#[inline]
pub fn is_open(program: &Program, op: u32, wait: u32) -> bool {
    wait >= op || program.ops[wait as usize].stream != program.ops[op as usize].stream
}

/// By op: its place in code that begins at `begin`.
fn places(program: &Program, begin: usize) -> Result<Vec<u32>, EngineError> {
    let mut places = vec![NONE; program.ops.len()];
    let (mut place, mut queued) = (begin as u32, 0);
    for (s, stream) in (0..).zip(&program.streams) {
        let mut next = 0;
        for &OpId(id) in &stream.ops {
            if id < next || program.ops.get(id as usize).is_none_or(|op| op.stream != s) {
                return invalid(format!("op {id} stands on stream {s} where it does not belong"));
            }
            places[id as usize] = place;
            (next, place) = (id + 1, place + 1);
        }
        queued += stream.ops.len();
        place += 1;
    }
    if queued != places.len() {
        return invalid(format!("{} of {} ops are queued on no stream", places.len() - queued, places.len()));
    }
    Ok(places)
}

/// By op: the stream whose ops wait for it, `NOBODY` or `SEVERAL`.
fn waiters(program: &Program) -> Result<Vec<u16>, EngineError> {
    if program.waits.iter().any(|wait| wait.index() >= program.ops.len()) {
        return invalid("a wait for an op that does not exist".into());
    }
    let mut waiters = vec![NOBODY; program.ops.len()];
    for (number, op) in (0..).zip(&program.ops).filter(|(_, op)| !op.waits.is_empty()) {
        let waits = program.waits[op.waits.range()].iter();
        for wait in waits.filter(|wait| is_open(program, number, wait.0)) {
            let waiter = &mut waiters[wait.index()];
            *waiter = if *waiter == NOBODY || *waiter == op.stream { op.stream } else { SEVERAL };
        }
    }
    Ok(waiters)
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
