//! The kept part of a profile: device events, their launches, and the marks of the steps.

use std::collections::BTreeMap;

use serde::Serialize;

use super::classes::{EventClass, Family};

/// The profile of one rank.
#[derive(Clone, Debug, Default)]
pub struct RankEvents {
    /// The file, as the person named it.
    pub file: String,
    /// Number of the rank in its job, if the file says so.
    pub rank: Option<u64>,
    /// Ranks of the job.
    pub world_size: Option<u64>,
    /// Name of the device.
    pub device: Option<String>,
    /// The zero of all time stamps, in nanoseconds since 1970 (0 where the file does not say).
    pub base_ns: i64,
    /// True for a timeline of this program, which is no real profile.
    pub simulated: bool,
    /// Device events by start, then end.
    pub events: Vec<DeviceEvent>,
    /// Names that events, calls and arguments refer to.
    pub names: Vec<String>,
    /// Class of each name.
    pub classes: Vec<EventClass>,
    /// Kinds of communication that events refer to.
    pub kinds: Vec<String>,
    /// Streams: device and number as the file writes them.
    pub streams: Vec<(String, String)>,
    /// The host's calls: launches, synchronisations, waits; by thread, then start.
    pub calls: Vec<Call>,
    /// Waits of streams for events, where the file names them (`cuda_sync`): by the call that launched what had to
    /// wait, the calls that launched what it waited for.
    pub waits: BTreeMap<u32, Vec<u32>>,
    /// Arguments of collectives.
    pub collectives: Vec<CollectiveArgs>,
    /// `ProfilerStep#N` on the host (a simulated step: its one slice), in order of time.
    pub steps: Vec<Mark>,
    /// Why the compute stream of a simulated rank stood still, as the timeline says, where it exposed no communication.
    pub stalls: Vec<Mark>,
    /// Nanoseconds for which it stood still for communication that ran, by kind.
    pub exposed: BTreeMap<String, i64>,
    /// The kinds of events passed over, and their numbers.
    pub skipped: BTreeMap<String, u64>,
    /// `cpu_op` events with a stream argument, which are no device events (torch.compile writes them).
    pub cpu_ops_with_stream: u64,
}

/// Something that ran on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceEvent {
    /// Nanoseconds.
    pub start: i64,
    /// Nanoseconds.
    pub end: i64,
    /// Index into [`RankEvents::names`].
    pub name: u32,
    /// The resource that it takes.
    pub family: Family,
    /// Index into [`RankEvents::streams`].
    pub stream: u32,
    /// Index into [`RankEvents::calls`] of the call that launched it, if that is in the file.
    pub launch: Option<u32>,
    /// Index into [`RankEvents::kinds`], for communication.
    pub kind: Option<u32>,
    /// Index into [`RankEvents::collectives`], if the file gives its arguments.
    pub collective: Option<u32>,
}

/// A call of the host into the runtime or the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Nanoseconds.
    pub start: i64,
    /// Nanoseconds.
    pub end: i64,
    /// The thread: a number given in order of appearance.
    pub thread: u32,
    /// The kind of the call.
    pub does: Does,
}

/// The kinds of calls that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Queues work on a stream.
    Launch,
    /// Makes a stream wait for an event.
    StreamWait,
    /// Makes the host wait for the device.
    Synchronize,
    /// Anything else with a correlation.
    Other,
}

/// The file's facts of a collective.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct CollectiveArgs {
    /// As the file names it: `_allgather_base`.
    pub name: String,
    /// Element type.
    pub dtype: String,
    /// Elements that go in.
    pub elements_in: i64,
    /// Elements that come out.
    pub elements_out: i64,
    /// The process group: its name, else its ranks.
    pub group: String,
    /// Ranks in it.
    pub group_size: i64,
}

impl CollectiveArgs {
    /// Bytes of the whole buffer of a rank: the larger of input and output.
    pub fn bytes(&self) -> Option<u64> {
        let size = match self.dtype.to_ascii_lowercase().as_str() {
            "float" | "int" | "float32" | "int32" | "uint32" => 4,
            "bfloat16" | "half" | "float16" | "short" | "int16" | "uint16" => 2,
            "double" | "long" | "float64" | "int64" | "uint64" => 8,
            "byte" | "char" | "bool" | "uint8" | "int8" => 1,
            other if other.starts_with("float8") => 1,
            _ => return None,
        };
        u64::try_from(self.elements_in.max(self.elements_out)).ok()?.checked_mul(size)
    }
}

/// A named piece of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its name.
    pub name: String,
    /// Nanoseconds.
    pub start: i64,
    /// Nanoseconds.
    pub end: i64,
}

impl RankEvents {
    /// The name of an event.
    pub fn name_of(&self, event: &DeviceEvent) -> &str {
        &self.names[event.name as usize]
    }
    /// The class of an event.
    pub fn class_of(&self, event: &DeviceEvent) -> &EventClass {
        &self.classes[event.name as usize]
    }
    /// The kind of communication that an event is; empty for others.
    pub fn kind_of(&self, event: &DeviceEvent) -> &str {
        event.kind.map_or("", |kind| &self.kinds[kind as usize])
    }
    /// The call that launched an event.
    pub fn launch_of(&self, event: &DeviceEvent) -> Option<&Call> {
        event.launch.map(|call| &self.calls[call as usize])
    }
}
