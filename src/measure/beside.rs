//! Measured steps as rows of a timeline, above the simulated step: a process a profile, a row a stream.
//!
//! Measured and simulated steps begin at other times: a profile holds events before the step, a simulated step begins
//! with its first fetch. So the earlier one is moved: the first matrix product of the first forward pass stands at one
//! time on both sides.

use std::io;
use std::path::Path;

use rustc_hash::FxHashMap;

use crate::profile::RankEvents;
use crate::profile::classes::Family;
use crate::profile::model::DeviceEvent;
use stepsim_core::units::Time;
use stepsim_form::compare::among::OwnRows;
use stepsim_read::trace::writer::{Sink, Slice, SliceKind, Thread, Value};

/// Number of the first profile's process: above all of a timeline's own.
const PROCESS: u64 = 910_000_000;

/// When the first matrix product of a profile begins, else its first kernel, else its first event.
pub fn first_product(profile: &RankEvents) -> i64 {
    let is = |work: Option<&str>| {
        let mut kernels = profile.events.iter().filter(|event| event.family == Family::Compute);
        kernels.find(|event| work.is_none_or(|work| profile.class_of(event).work == work)).map(|e| e.start)
    };
    let any = profile.events.first().map_or(0, |event| event.start);
    is(Some("gemm")).or_else(|| is(None)).unwrap_or(any)
}

/// Profiles above the processes of a timeline.
pub struct Above<'a> {
    profiles: &'a [RankEvents],
    /// When the first product begins on all sides, in nanoseconds.
    first_ns: u64,
    /// How much later the timeline is shown.
    later_ns: u64,
}

impl<'a> Above<'a> {
    /// Profiles above a timeline whose first product begins at `simulated`.
    pub fn new(profiles: &'a [RankEvents], simulated: Time) -> Above<'a> {
        let before = |profile: &RankEvents| {
            first_product(profile) - profile.events.iter().map(|e| e.start).min().unwrap_or(0)
        };
        let most = profiles.iter().map(before).max().unwrap_or(0).max(0) as u64;
        let first_ns = most.max(simulated.round_ns());
        Above { profiles, first_ns, later_ns: first_ns - simulated.round_ns() }
    }

    /// Writes the profiles; returns how many slices that took.
    ///
    /// # Errors
    /// The sink cannot write.
    pub fn write(&self, sink: &mut dyn Sink) -> io::Result<u64> {
        let mut slices = 0;
        for (place, profile) in (0..).zip(self.profiles) {
            slices += self.profile(place, profile, sink)?;
        }
        Ok(slices)
    }

    fn profile(&self, place: u64, profile: &RankEvents, sink: &mut dyn Sink) -> io::Result<u64> {
        let pid = PROCESS + place;
        let side = if profile.simulated { "simulated" } else { "measured" };
        let rank = profile.rank.map_or_else(String::new, |rank| format!(" rank {rank}"));
        let file = Path::new(&profile.file).file_name().unwrap_or_default().to_string_lossy();
        sink.process(pid, &format!("{side}{rank} · {file}"))?;
        let mut slices = 0;
        for (stream, (_, name)) in (0..).zip(&profile.streams) {
            let thread = sink.thread(pid, &format!("{side}{rank} stream {name}"))?;
            slices += self.stream(thread, profile, stream, sink)?;
        }
        Ok(slices)
    }

    /// The events of a stream under the names of their classes, which sum by name; what an earlier one covers is cut
    /// off.
    fn stream(
        &self,
        thread: Thread,
        profile: &RankEvents,
        stream: u32,
        sink: &mut dyn Sink,
    ) -> io::Result<u64> {
        let later = self.first_ns as i64 - first_product(profile);
        let (mut ended, mut slices) = (0, 0);
        let mut kinds: FxHashMap<u32, SliceKind> = FxHashMap::default();
        for event in profile.events.iter().filter(|event| event.stream == stream) {
            let [start, end] = [event.start, event.end].map(|at| at.saturating_add(later).max(0) as u64);
            let start = start.max(ended);
            if start >= end {
                continue;
            }
            ended = end;
            slices += 1;
            let kind = match kinds.get(&event.name) {
                Some(kind) => *kind,
                None => kernel(profile, event, sink)?,
            };
            kinds.insert(event.name, kind);
            sink.slice(thread, kind, &Slice { start, end, ..Slice::default() })?;
        }
        Ok(slices)
    }
}

/// The kind of slice that the events of a kernel are.
fn kernel(profile: &RankEvents, event: &DeviceEvent, sink: &mut dyn Sink) -> io::Result<SliceKind> {
    let class = profile.class_of(event);
    let kernel = profile.name_of(event);
    let args = [("kernel", Value::Text(kernel)), ("work", Value::Text(&class.work))];
    let name = if class.class.starts_with("other") { kernel } else { &class.class };
    sink.kind(name, "measured", &args)
}

impl OwnRows for Above<'_> {
    fn above(&self, sink: &mut dyn Sink) -> io::Result<()> {
        self.write(sink).map(|_| ())
    }
    fn later_ns(&self) -> u64 {
        self.later_ns
    }
}
