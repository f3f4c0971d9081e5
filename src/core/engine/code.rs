//! Programs as the loop reads them: one small record an op, in the cache for all ranks of a role.

use super::EngineError;
use crate::ids::OpId;
use crate::program::{MemoryWhen, Op, Program, Stream, Work, World};
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

/// A program in the loop's form; its ops are a stretch of the code of all programs.
#[derive(Debug)]
pub struct ProgramCode<'w> {
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
    /// True if kernels of the stream come first when memory is given back.
    pub urgent: Vec<bool>,
}

/// All programs of a world, and their code: the ops of all streams in order, stream after stream, an end behind each.
///
/// # Errors
/// `Invalid` if a wait points nowhere, an op sits on two streams, on none or not in its turn, or one communicator
/// slot is used on two streams (its ops would have no order). `Limit` if places have no numbers left.
pub fn compile(world: &World) -> Result<(Vec<ProgramCode<'_>>, Vec<Code>), EngineError> {
    let places: usize = world.programs.iter().map(|p| p.ops.len() + p.streams.len()).sum();
    if places >= MOST {
        return Err(EngineError::Limit { what: "ops of programs", need: places as u64, limit: MOST as u64 });
    }
    let mut code = Vec::with_capacity(places);
    let compiled = world.programs.iter().map(|p| ProgramCode::of(p, &mut code)).collect::<Result<_, _>>()?;
    Ok((compiled, code))
}

/// The code of a program that stands first, and what is known of its streams, for others of its shape.
#[derive(Debug)]
struct ShapeCode {
    code: Vec<Code>,
    first: Vec<u32>,
    places: Vec<u32>,
    kernels: Vec<u16>,
    streams_with_kernels: u16,
    slots: u16,
}

impl ShapeCode {
    fn of(program: &Program) -> Result<ShapeCode, EngineError> {
        let mut code = Vec::with_capacity(program.ops.len() + program.streams.len());
        let ProgramCode { first, places, kernels, streams_with_kernels, slots, .. } =
            ProgramCode::new(program, &mut code)?;
        Ok(ShapeCode { code, first, places, kernels, streams_with_kernels, slots })
    }

    /// The code of a program of this shape, with its own times.
    fn compiled<'w>(&self, program: &'w Program, code: &mut Vec<Code>) -> ProgramCode<'w> {
        let base = code.len() as u32;
        code.extend(self.code.iter().map(|of_op| of_op.moved(base).priced(program)));
        let minds = |of_op: &Code| of_op.is_kernel() && of_op.slowdown > 0;
        let stretch =
            |stream: usize| (base + self.first[stream]) as usize..(base + self.first[stream + 1]) as usize;
        let slowed = (0..program.streams.len()).filter(|stream| code[stretch(*stream)].iter().any(minds));
        ProgramCode {
            program,
            first: self.first.iter().map(|place| base + place).collect(),
            places: self.places.iter().map(|place| base + place).collect(),
            kernels: self.kernels.clone(),
            streams_with_kernels: self.streams_with_kernels,
            slots: self.slots,
            slowed: slowed.map(|stream| stream as u16).collect(),
            urgent: program.streams.iter().map(|stream| stream.traits.urgent).collect(),
        }
    }
}

impl<'w> ProgramCode<'w> {
    /// The code of a program, by the code of another of its shape where there may be one.
    fn of(program: &'w Program, code: &mut Vec<Code>) -> Result<Self, EngineError> {
        if !program.facts.are_shared() {
            return ProgramCode::new(program, code);
        }
        let text = program.facts.try_of(|| ShapeCode::of(program))?;
        Ok(text.compiled(program, code))
    }

    fn new(program: &'w Program, code: &mut Vec<Code>) -> Result<Self, EngineError> {
        let mut compiled = ProgramCode {
            program,
            first: vec![code.len() as u32],
            places: vec![NONE; program.ops.len()],
            kernels: Vec::new(),
            streams_with_kernels: 0,
            slots: 0,
            slowed: Vec::new(),
            urgent: program.streams.iter().map(|stream| stream.traits.urgent).collect(),
        };
        let mut stream_of_slot = Vec::new();
        for stream in &program.streams {
            compiled.add_stream(stream, &mut stream_of_slot, code)?;
        }
        compiled.slots = stream_of_slot.len() as u16;
        let queued: usize = program.streams.iter().map(|stream| stream.ops.len()).sum();
        if queued != program.ops.len() {
            return invalid(format!(
                "{} of {} ops are queued on no stream",
                program.ops.len() - queued,
                program.ops.len()
            ));
        }
        compiled.link_waits(code)?;
        Ok(compiled)
    }

    /// Writes the ops of the next stream as if none waited, and the end behind them.
    fn add_stream(
        &mut self,
        stream: &Stream,
        stream_of_slot: &mut Vec<u32>,
        code: &mut Vec<Code>,
    ) -> Result<(), EngineError> {
        let s = self.kernels.len() as u16;
        let (mut next, mut has_kernels, mut is_slowed) = (0, false, false);
        for &OpId(id) in &stream.ops {
            let Some(op) = self.program.ops.get(id as usize).filter(|op| id >= next && op.stream == s) else {
                return invalid(format!("op {id} stands on stream {s} where it does not belong"));
            };
            let of_op = Code::of(self.program, id, op, stream);
            if of_op.is_kernel() {
                (has_kernels, is_slowed) = (true, is_slowed || op.slowdown > 0);
            } else {
                check_slot(stream_of_slot, of_op.slot, s)?;
            }
            if let Some(before) = code.last_mut() {
                before.runs_on = before.is_kernel() && !before.frees && of_op.is_kernel() && !of_op.allocates;
            }
            self.places[id as usize] = code.len() as u32;
            code.push(of_op);
            next = id + 1;
        }
        self.kernels.push(self.streams_with_kernels);
        self.streams_with_kernels += u16::from(has_kernels);
        if is_slowed {
            self.slowed.push(s);
        }
        code.push(Code::END);
        self.first.push(code.len() as u32);
        Ok(())
    }

    /// Tells each op that waits for what, and each op that is waited for by whom.
    fn link_waits(&self, code: &mut [Code]) -> Result<(), EngineError> {
        let program = self.program;
        for (number, op) in (0..).zip(&program.ops).filter(|(_, op)| !op.waits.is_empty()) {
            for &OpId(wait) in &program.waits[op.waits.range()] {
                let Some(awaited) = program.ops.get(wait as usize) else {
                    return invalid(format!("op {number} waits for op {wait}, which does not exist"));
                };
                if is_open(program, number, wait) {
                    let place = self.places[wait as usize];
                    code[place as usize].add_waiter(op.stream);
                    code[self.places[number as usize] as usize].add_wait(place, awaited.stream);
                }
            }
        }
        Ok(())
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

    /// The same, `by` places further on.
    fn moved(self, by: u32) -> Code {
        let wait = if self.wait == NONE { NONE } else { self.wait + by };
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

    /// Notes a stream that waits for it: its end is no longer its own stream's alone.
    fn add_waiter(&mut self, stream: u16) {
        self.waiter = if self.waiter == NOBODY || self.waiter == stream { stream } else { SEVERAL };
        self.runs_on = false;
    }

    /// Notes a wait for the op at `place` of the code.
    fn add_wait(&mut self, place: u32, stream: u16) {
        if self.wait == NONE {
            (self.wait, self.wait_stream) = (place, stream);
        } else {
            self.more_waits = true;
        }
    }
}

/// True if `op` has to wait for the op `wait`: one before it on its own stream has ended anyway.
#[inline]
pub fn is_open(program: &Program, op: u32, wait: u32) -> bool {
    wait >= op || program.ops[wait as usize].stream != program.ops[op as usize].stream
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
