//! Programs as the loop reads them: one small record an op, in the cache for all ranks of a role.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::EngineError;
use crate::ids::OpId;
use crate::program::{MemoryWhen, Op, Program, Stream, Work};
use crate::units::Time;

/// "Waits for nothing", "no more".
pub const NONE: u32 = u32::MAX;
/// Most places in the code: numbers above stand for other things (`ranks`, `sweep`).
const MOST: usize = 1 << 31;

/// The fields of an op that the event loop reads: 32 bytes, two a cache line.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// Picoseconds of a kernel; transfer number of a communication.
    pub value: u64,
    /// The op's number in its program.
    pub op: u32,
    /// Place in the code of the op waited for, or `NONE`; of several, where the list of them begins.
    pub wait: u32,
    /// The stream of its rank on which that op is.
    pub wait_stream: u16,
    /// The stream of its rank that waits for it, `NOBODY`, or several ([`ProgramCode::waiting`]).
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
    /// Its stream runs ahead (`ahead`).
    pub ahead: bool,
    /// It is communication that takes compute units.
    pub takes_units: bool,
    /// It is a kernel whose end nobody minds, and the next op of the stream is a kernel that takes no memory.
    pub runs_on: bool,
}

/// A kernel's slot.
pub const NO_SLOT: u16 = u16::MAX;
/// The mark behind the last op of a stream.
pub const END: u16 = u16::MAX - 1;

/// No stream.
pub const NOBODY: u16 = u16::MAX;
/// More than one stream.
pub const SEVERAL: u16 = u16::MAX - 1;
/// From this number on a waiter is several streams, and a program has fewer streams.
pub const LISTS: u16 = 1 << 15;

/// One of several ops that an op waits for.
#[derive(Clone, Copy, Debug)]
pub struct CodeWait {
    /// Its place in the code.
    pub place: u32,
    /// The stream of the rank on which it is.
    pub stream: u16,
    /// No other one follows.
    pub last: bool,
}

/// All programs of a world in the loop's form.
#[derive(Debug, Default)]
pub struct WorldCode<'w> {
    /// The programs.
    pub programs: Vec<ProgramCode<'w>>,
    /// The ops of all of them: of all streams in order, stream after stream, an end behind each.
    pub code: Vec<Code>,
    /// The waits of all ops that wait for several, op after op.
    pub waits: Vec<CodeWait>,
}

/// A program in the loop's form; its ops are a stretch of the code of all programs.
#[derive(Debug)]
pub struct ProgramCode<'w> {
    /// The program itself, for what is rarely needed.
    pub program: &'w Program,
    /// Where each stream begins in the code; one entry more than streams.
    pub first: Vec<u32>,
    /// By stream: how many streams before it have kernels.
    pub kernels: Vec<u16>,
    /// Number of streams that have kernels.
    pub streams_with_kernels: u16,
    /// Number of slots.
    pub slots: u16,
    /// Streams that wait for one op together, each set once.
    waiting: Vec<Vec<u16>>,
    /// Streams with kernels that mind units taken beside them.
    pub slowed: Vec<u16>,
    /// By stream, whether it runs ahead; empty where none does.
    pub ahead: Vec<bool>,
    /// True if kernels of the stream come first when memory is given back.
    pub urgent: Vec<bool>,
}

/// All programs of a world, and their code; streams that can run ahead are marked where no order of completion is
/// kept.
///
/// # Errors
/// `Invalid` if a wait points nowhere, an op sits on two streams, on none or not in its turn, or one communicator
/// slot is used on two streams (its ops would have no order). `Limit` if places or streams have no numbers left.
pub fn compile(programs: &[Arc<Program>], in_order: bool) -> Result<WorldCode<'_>, EngineError> {
    let places: usize = programs.iter().map(|p| p.ops.len() + p.streams.len()).sum();
    if places >= MOST {
        return Err(EngineError::Limit { what: "ops of programs", need: places as u64, limit: MOST as u64 });
    }
    let mut all = WorldCode { code: Vec::with_capacity(places), ..WorldCode::default() };
    for program in programs {
        let mut compiled = ProgramCode::of(program, &mut all.code, &mut all.waits)?;
        if !in_order {
            compiled.mark_ahead(&mut all.code);
        }
        all.programs.push(compiled);
    }
    Ok(all)
}

/// The code of a program that stands first, and what is known of its streams, for others of its shape.
#[derive(Debug)]
struct ShapeCode {
    code: Vec<Code>,
    waits: Vec<CodeWait>,
    first: Vec<u32>,
    kernels: Vec<u16>,
    streams_with_kernels: u16,
    slots: u16,
    waiting: Vec<Vec<u16>>,
}

impl ShapeCode {
    fn of(program: &Program) -> Result<ShapeCode, EngineError> {
        let (mut code, mut waits) =
            (Vec::with_capacity(program.ops.len() + program.streams.len()), Vec::new());
        let ProgramCode { first, kernels, streams_with_kernels, slots, waiting, .. } =
            ProgramCode::new(program, &mut code, &mut waits)?;
        Ok(ShapeCode { code, waits, first, kernels, streams_with_kernels, slots, waiting })
    }

    /// The code of a program of this shape, with its own times.
    fn compiled<'w>(
        &self,
        program: &'w Program,
        code: &mut Vec<Code>,
        waits: &mut Vec<CodeWait>,
    ) -> ProgramCode<'w> {
        let (base, of_waits) = (code.len() as u32, waits.len() as u32);
        code.extend(self.code.iter().map(|of_op| of_op.moved(base, of_waits).priced(program)));
        waits.extend(self.waits.iter().map(|wait| CodeWait { place: base + wait.place, ..*wait }));
        let minds = |of_op: &Code| of_op.is_kernel() && of_op.slowdown > 0;
        let stretch =
            |stream: usize| (base + self.first[stream]) as usize..(base + self.first[stream + 1]) as usize;
        let slowed = (0..program.streams.len()).filter(|stream| code[stretch(*stream)].iter().any(minds));
        ProgramCode {
            program,
            first: self.first.iter().map(|place| base + place).collect(),
            kernels: self.kernels.clone(),
            streams_with_kernels: self.streams_with_kernels,
            slots: self.slots,
            waiting: self.waiting.clone(),
            slowed: slowed.map(|stream| stream as u16).collect(),
            ahead: Vec::new(),
            urgent: program.streams.iter().map(|stream| stream.traits.urgent).collect(),
        }
    }
}

impl<'w> ProgramCode<'w> {
    /// The code of a program, by the code of another of its shape where there may be one.
    fn of(
        program: &'w Program,
        code: &mut Vec<Code>,
        waits: &mut Vec<CodeWait>,
    ) -> Result<Self, EngineError> {
        if !program.facts.are_shared() {
            return ProgramCode::new(program, code, waits);
        }
        let text = program.facts.try_of(|| ShapeCode::of(program))?;
        Ok(text.compiled(program, code, waits))
    }

    fn new(
        program: &'w Program,
        code: &mut Vec<Code>,
        waits: &mut Vec<CodeWait>,
    ) -> Result<Self, EngineError> {
        let (need, limit) = (program.streams.len() as u64, u64::from(LISTS));
        if need > limit {
            return Err(EngineError::Limit { what: "streams of a program", need, limit });
        }
        let mut compiled = ProgramCode {
            program,
            first: vec![code.len() as u32],
            kernels: Vec::new(),
            streams_with_kernels: 0,
            slots: 0,
            waiting: Vec::new(),
            slowed: Vec::new(),
            ahead: Vec::new(),
            urgent: program.streams.iter().map(|stream| stream.traits.urgent).collect(),
        };
        for stream in &program.streams {
            let places = code.len()..code.len() + stream.ops.len() + 1;
            code.resize(places.end, Code::END);
            compiled.first.push(places.end as u32);
        }
        let places = compiled.add_ops(code).ok_or_else(|| fault_of(program))?;
        for (s, stretch) in (0..).zip(compiled.first.windows(2)) {
            let of_stream = &code[stretch[0] as usize..stretch[1] as usize];
            compiled.kernels.push(compiled.streams_with_kernels);
            compiled.streams_with_kernels += u16::from(of_stream.iter().any(Code::is_kernel));
            if of_stream.iter().any(|of_op| of_op.is_kernel() && of_op.slowdown > 0) {
                compiled.slowed.push(s);
            }
        }
        compiled.link_waits(&places, code, waits)?;
        Ok(compiled)
    }

    /// Writes all ops as if none waited, in one pass over the program; their places in the code. Nothing where an op
    /// does not stand where it belongs.
    fn add_ops(&mut self, code: &mut [Code]) -> Option<Vec<u32>> {
        let program = self.program;
        let mut stream_of_slot = Vec::new();
        let mut next = self.first.clone();
        let mut places = Vec::with_capacity(program.ops.len());
        for (id, op) in (0..).zip(&program.ops) {
            let (s, stream) = (usize::from(op.stream), program.streams.get(usize::from(op.stream))?);
            let place = next[s];
            if *stream.ops.get((place - self.first[s]) as usize)? != OpId(id) {
                return None;
            }
            let of_op = Code::of(program, id, op, stream);
            if !of_op.is_kernel() {
                check_slot(&mut stream_of_slot, of_op.slot, op.stream).ok()?;
            }
            if place > self.first[s] {
                let before = &mut code[place as usize - 1];
                before.runs_on = before.is_kernel() && !before.frees && of_op.is_kernel() && !of_op.allocates;
            }
            code[place as usize] = of_op;
            places.push(place);
            next[s] += 1;
        }
        self.slots = stream_of_slot.len() as u16;
        let is_full = next.iter().zip(&self.first[1..]).all(|(next, end)| next + 1 == *end);
        is_full.then_some(places)
    }

    /// Tells each op that waits for what, and each op that is waited for by whom.
    fn link_waits(
        &mut self,
        places: &[u32],
        code: &mut [Code],
        waits: &mut Vec<CodeWait>,
    ) -> Result<(), EngineError> {
        let program = self.program;
        let (mut joined, mut open) = (FxHashMap::default(), Vec::new());
        for (number, op) in (0..).zip(&program.ops).filter(|(_, op)| !op.waits.is_empty()) {
            for &OpId(wait) in &program.waits[op.waits.range()] {
                let Some(awaited) = program.ops.get(wait as usize) else {
                    return invalid(format!("op {number} waits for op {wait}, which does not exist"));
                };
                if is_open(program, number, wait) {
                    let place = places[wait as usize];
                    let of_op = &mut code[place as usize];
                    // Its end is no longer its own stream's alone.
                    (of_op.waiter, of_op.runs_on) = match (of_op.waiter, op.stream) {
                        (waiter, stream) if waiter == NOBODY || waiter == stream => (stream, false),
                        both => (*joined.entry(both).or_insert_with(|| self.join(both)), false),
                    };
                    open.push(CodeWait { place, stream: awaited.stream, last: false });
                }
            }
            code[places[number as usize] as usize].wait_for(&open, waits);
            open.clear();
        }
        match self.waiting.len() {
            need if need >= usize::from(NOBODY - LISTS) => {
                let (need, limit) = (need as u64, u64::from(NOBODY - LISTS));
                Err(EngineError::Limit { what: "sets of streams that wait for one op", need, limit })
            }
            _ => Ok(()),
        }
    }

    /// The number of the streams that waited for an op with another one beside them.
    fn join(&mut self, (waiter, stream): (u16, u16)) -> u16 {
        let mut all = self.waiting(&waiter).to_vec();
        all.push(stream);
        all.sort_unstable();
        all.dedup();
        let known = self.waiting.iter().position(|known| *known == all);
        LISTS.saturating_add(known.unwrap_or_else(|| {
            self.waiting.push(all);
            self.waiting.len() - 1
        }) as u16)
    }

    /// The streams that wait for an op, in order.
    #[inline]
    pub fn waiting<'a>(&'a self, waiter: &'a u16) -> &'a [u16] {
        match *waiter {
            NOBODY => &[],
            LISTS.. => &self.waiting[usize::from(waiter - LISTS)],
            _ => std::slice::from_ref(waiter),
        }
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
    /// The mark behind the last op of a stream.
    const END: Code = Code {
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
        ahead: false,
        takes_units: false,
        runs_on: false,
    };

    /// An op without predecessors or successors.
    #[inline]
    fn of(program: &Program, number: u32, op: &Op, stream: &Stream) -> Code {
        let effects = &program.memory[op.memory.range()];
        let (value, slot) = match op.work {
            Work::Compute { time } => (time.0, NO_SLOT),
            Work::Comm { slot, transfer } => (u64::from(transfer.0), slot),
        };
        Code {
            value,
            op: number,
            slot,
            slowdown: op.slowdown,
            allocates: effects.iter().any(|e| e.when != MemoryWhen::FreeAtEnd),
            frees: effects.iter().any(|e| e.when == MemoryWhen::FreeAtEnd),
            late: stream.latency > Time::ZERO,
            takes_units: stream.traits.takes_units,
            ..Code::END
        }
    }

    /// The same `by` places further on, with lists of waits `of_waits` further on.
    fn moved(self, by: u32, of_waits: u32) -> Code {
        let wait = match self.wait {
            NONE => NONE,
            list if self.more_waits => list + of_waits,
            place => place + by,
        };
        Code { wait, ..self }
    }

    /// The same at the price that a program has for its op.
    fn priced(self, program: &Program) -> Code {
        match program.ops.get(self.op as usize) {
            Some(Op { work: Work::Compute { time }, slowdown, .. }) => {
                Code { value: time.0, slowdown: *slowdown, ..self }
            }
            _ => self,
        }
    }

    pub fn is_kernel(&self) -> bool {
        self.slot == NO_SLOT
    }

    /// Notes what it waits for: several in the list of all waits.
    fn wait_for(&mut self, open: &[CodeWait], waits: &mut Vec<CodeWait>) {
        match open {
            [] => {}
            [only] => (self.wait, self.wait_stream) = (only.place, only.stream),
            [first @ .., last] => {
                (self.wait, self.more_waits) = (waits.len() as u32, true);
                waits.extend_from_slice(first);
                waits.push(CodeWait { last: true, ..*last });
            }
        }
    }
}

/// True if `op` has to wait for the op `wait`: one before it on its own stream has ended anyway.
#[inline]
pub fn is_open(program: &Program, op: u32, wait: u32) -> bool {
    wait >= op || program.ops[wait as usize].stream != program.ops[op as usize].stream
}

/// Why the streams of a program cannot be played in order: the first fault, stream by stream.
fn fault_of(program: &Program) -> EngineError {
    let (mut stream_of_slot, mut queued) = (Vec::new(), 0);
    for (s, stream) in (0..).zip(&program.streams) {
        let mut next = 0;
        for &OpId(id) in &stream.ops {
            let Some(op) = program.ops.get(id as usize).filter(|op| id >= next && op.stream == s) else {
                let why = format!("op {id} stands on stream {s} where it does not belong");
                return EngineError::Invalid(why);
            };
            let checked = match op.work {
                Work::Comm { slot, .. } => check_slot(&mut stream_of_slot, slot, s),
                Work::Compute { .. } => Ok(()),
            };
            if let Err(fault) = checked {
                return fault;
            }
            next = id + 1;
        }
        queued += stream.ops.len();
    }
    let (missing, all) = (program.ops.len() - queued, program.ops.len());
    EngineError::Invalid(format!("{missing} of {all} ops are queued on no stream"))
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
