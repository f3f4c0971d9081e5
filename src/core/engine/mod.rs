//! The event loop: rank programs in, spans of ops out.
//!
//! One turn: take the earliest completion → finish its op (free bytes, record) → wake what waited for it (heads of
//! the rank's streams, members of a communicator, streams that wait for room) → start what can start → once the
//! instant is over, share the resources that changed anew and move the ends of the flows whose rate changed.
//!
//! Promises:
//! * Time is integer picoseconds; events are ordered by (time, sequence number). Same world, same record, bit by bit.
//! * Kernels, one or several in a row (`kernels`), and fixed times go through the agenda, unless their streams run
//!   ahead (`ahead`). A flow that meets nobody does too; one whose finish moves sits in a heap that knows where each
//!   flow stands. A communicator whose resources nobody else uses never touches either: its time is known beforehand
//!   (`uncontended`).
//! * A run ends with a record, or with an error that says who waits for whom ([`EngineError`]).
//!
//! Hazards:
//! * An allocation is checked when the op comes to the head of its stream with all waits over; one that does not fit
//!   waits. Only when nothing moves any more is that an out-of-memory error.
//! * Bytes of a communication op are taken when its rank arrives, which is before its recorded start (the arrival of
//!   the last member).

pub mod agenda;
mod ahead;
mod causes;
mod code;
mod comms;
mod device_memory;
mod error;
mod event_loop;
mod factors;
mod filling;
mod interference;
mod kernels;
mod memory;
pub mod moving;
mod part;
mod ranks;
mod record;
pub mod sharing;
mod stalled;
mod state;
pub mod uncontended;

pub use causes::{Cause, CauseRecord};
pub use error::{EngineError, Holdings, WaitingOp};
pub use factors::kernel_time;
pub use record::Record;
pub use stalled::describe;
pub use state::State;

use crate::ids::{OpId, RankId};
use crate::program::{Work, World};
use crate::units::{Bytes, Time};

/// Told of every op that ends, in order of completion.
pub trait Observer {
    /// True if that order matters. Where it does not, ops that nobody waits for may be told before they end; one that
    /// ends at another time after all is told once more.
    fn in_order(&self) -> bool {
        false
    }
    /// Op number `op` of rank number `rank` ran from `start` to `end`.
    fn finished(&mut self, rank: u32, op: u32, start: Time, end: Time);
    /// At the end: kernels of a rank took so much longer because device memory gave them less than they use.
    fn slowed_by_memory(&mut self, _rank: u32, _by: Time) {}
    /// At the end: the highest level of each tier, all effects of one instant counted together.
    fn peaks(&mut self, _peaks: &[Bytes]) {}
    /// True if the observer wants the state of the run at the end of this instant.
    fn wants_state(&self) -> bool {
        false
    }
    /// The state, if it was wanted.
    fn state(&mut self, _state: State) {}
}

/// Told what held each op back, too, if `CAUSES`. The loop is compiled for each listener, and for all observers at once.
trait Listener: Observer {
    const CAUSES: bool = false;
    /// An op waited last for number `wait` of the ops that it waits for; an op without this call waited for the op
    /// before it on its stream.
    fn waited(&mut self, _rank: u32, _op: u32, _wait: u32) {}
    /// An op of a communicator was ready no sooner than the action of all members began.
    fn came_last(&mut self, _rank: u32, _op: u32) {}
    /// The action of a communicator begins; of its members this one was ready last, the first of several.
    fn joined(&mut self, _comm: u32, _rank: u32, _op: u32) {}
    /// The action of a communicator ends.
    fn parted(&mut self, _comm: u32, _end: Time) {}
    /// At the end: the op that ended last, the first of the lowest rank of several.
    fn ended_last(&mut self, _rank: u32, _op: u32) {}
}

impl Listener for dyn Observer + '_ {}

/// Totals of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// When the last op ended.
    pub step_end: Time,
    /// Completions handled.
    pub events: u64,
    /// How often rates were computed anew: once for all changes of an instant.
    pub reshares: u64,
}

/// The time of a kernel on the device of its rank when nothing disturbs it: slowness and jitter are in it, what runs
/// beside it is not. Zero for communication.
pub fn undisturbed_time(world: &World, rank: RankId, op: OpId) -> Time {
    match world.program_of(rank).ops[op.index()].work {
        Work::Compute { time } => Time(kernel_time(world, rank, op, time.0)),
        Work::Comm { .. } => Time::ZERO,
    }
}

/// Most bytes that a record may take unless more are allowed: 16 GiB.
pub const RECORD_LIMIT: u64 = 16 << 30;

/// Plays a world and records every op.
///
/// # Errors
/// See [`EngineError`]. A record of more than 16 GiB is refused before the run.
pub fn run(world: &World) -> Result<Record, EngineError> {
    check(world)?;
    check_record_size(world, RECORD_LIMIT)?;
    let mut record = Record::for_world(world);
    let stats = play(&world.flat(), &mut record)?;
    record.complete(stats);
    Ok(record)
}

/// Refuses a world whose record would take more than `limit` bytes.
///
/// # Errors
/// [`EngineError::Limit`] with the bytes needed.
pub fn check_record_size(world: &World, limit: u64) -> Result<(), EngineError> {
    let need = world.op_instances().saturating_mul(16);
    if need > limit {
        return Err(EngineError::Limit { what: "bytes of record", need, limit });
    }
    Ok(())
}

/// Plays a world and tells `observer` of every op, keeping nothing: memory does not grow with the run.
///
/// # Errors
/// See [`EngineError`].
pub fn run_observed(world: &World, observer: &mut dyn Observer) -> Result<Stats, EngineError> {
    check(world)?;
    play(&world.flat(), observer)
}

fn play(world: &World, observer: &mut dyn Observer) -> Result<Stats, EngineError> {
    let compiled = code::compile(&world.programs, observer.in_order())?;
    event_loop::Play::new(world, &compiled, observer)?.run()
}

/// The programs of a world, ready to be played in worlds that differ from it in draws alone.
#[derive(Debug)]
pub struct CompiledPrograms<'w>(code::WorldCode<'w>);

impl<'w> CompiledPrograms<'w> {
    /// Checks a world whose actions are [flat](World::flatten) and compiles its programs.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub fn of(world: &'w World) -> Result<Self, EngineError> {
        check(world)?;
        Ok(CompiledPrograms(code::compile(&world.programs, false)?))
    }

    /// Plays the world with other draws and notes what each op waited for; returns when the last op ended.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub fn play(&self, world: &World, causes: &mut CauseRecord) -> Result<Time, EngineError> {
        causes.clear();
        Ok(event_loop::Play::new(world, &self.0, causes)?.run()?.step_end)
    }
}

fn check(world: &World) -> Result<(), EngineError> {
    world.validate().map_err(|e| EngineError::Invalid(e.to_string()))
}
