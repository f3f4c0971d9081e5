//! Streaming trace writers: one event at a time, in constant memory, behind one trait.
//!
//! A [`Sink`] takes the parts of a timeline (processes, threads, slices, arrows, counters) and writes them at once.
//! Repeated parts are **interned** first: the name, category and fixed arguments of a kind of slice are rendered once
//! into the bytes of the format, and an event is then a few copies and two integers. That is what makes tens of
//! millions of events a second possible; nothing is allocated per event.
//!
//! Rules of use, the same for all formats:
//! * Times are whole nanoseconds, and each slice is at least 1 ns long. Of two slices of one thread one may lie
//!   inside the other; otherwise they must not overlap.
//! * The slices of one thread are handed over in order of their starts, outer ones before what lies in them; threads in
//!   any order.
//! * An arrow has a number of its own. Its source slice names it in [`Slice::out`], its destination in
//!   [`Slice::into`], and the source must start before [`arrow_head`] of the destination. Neither has slices inside.
//! * [`Sink::finish`] must be called; without it the file is incomplete.

mod chrome;
pub mod json;
pub mod perfetto;

pub use chrome::Chrome;
pub use perfetto::Perfetto;

use std::io;

/// A thread of a process: a row that slices stand on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread(pub(super) u32);

/// A counter track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter(pub(super) u32);

/// An interned kind of slice: name, category, fixed arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceKind(pub(super) u32);

/// The interned name of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgumentName(pub(super) u32);

/// The value of an argument or a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A whole number.
    Uint(u64),
    /// A number of thousandths, written with three decimals: `Milli(1500)` is 1.500.
    Milli(u64),
    /// Any number; an infinite one or NaN is left out, because viewers choke on it.
    Float(f64),
    /// A text.
    Text(&'a str),
}

/// One slice of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slice<'a> {
    /// Start in nanoseconds.
    pub start: u64,
    /// End in nanoseconds, later than the start.
    pub end: u64,
    /// Arguments beside the fixed ones of its kind.
    pub args: &'a [(ArgumentName, Value<'a>)],
    /// Arrows that leave it.
    pub out: &'a [u64],
    /// Arrows that arrive at it.
    pub into: &'a [u64],
    /// Slices of one number have one colour, whatever their names, in formats that can say so.
    pub alike: Option<u32>,
}

/// Where in a slice that ends at `end` the head of an arrow is put: in its last nanosecond, so that also what began
/// while the slice was under way (the kernel that a stall waited for) can point at it. Viewers draw it to the start.
/// An arrow points forward if its source starts before that.
pub fn arrow_head(end: u64) -> u64 {
    end.saturating_sub(1)
}

/// The unit of a counter, for formats that know units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterUnit {
    /// Bytes.
    Bytes,
    /// Percent of a capacity.
    Percent,
    /// How many.
    Number,
}

/// A writer of timelines.
pub trait Sink {
    /// Opens the file; `metadata` goes where the format has a place for it.
    fn begin(&mut self, metadata: &[(&str, Value)]) -> io::Result<()>;
    /// Declares a process; processes are shown in the order in which they are declared.
    fn process(&mut self, pid: u64, name: &str) -> io::Result<()>;
    /// Declares a thread of a declared process; threads are shown in the order in which they are declared.
    fn thread(&mut self, pid: u64, name: &str) -> io::Result<Thread>;
    /// Declares a thread that stands last: of its process, or of all where they stand together.
    fn last_thread(&mut self, pid: u64, name: &str) -> io::Result<Thread> {
        self.thread(pid, name)
    }
    /// The row of a declared process itself, which shows while its threads are folded away; `None` where the format has
    /// no such row.
    fn summary(&mut self, pid: u64) -> Option<Thread>;
    /// True if the threads of all processes stand together, as those of one: their names must then say whose they are
    /// in the little room that there is.
    fn is_one_process(&self) -> bool;
    /// Declares a counter track of a declared process; shown as `name series`.
    fn counter_track(&mut self, pid: u64, name: &str, series: &str, unit: CounterUnit)
    -> io::Result<Counter>;
    /// Interns the name of an argument.
    fn key(&mut self, name: &str) -> io::Result<ArgumentName>;
    /// Interns a kind of slice.
    fn kind(&mut self, name: &str, category: &str, args: &[(&str, Value)]) -> io::Result<SliceKind>;
    /// Writes a slice.
    fn slice(&mut self, thread: Thread, kind: SliceKind, slice: &Slice) -> io::Result<()>;
    /// Writes the value that a counter has from `ns` on, unless it is no finite number.
    fn counter(&mut self, counter: Counter, ns: u64, value: Value) -> io::Result<()>;
    /// Closes the file and flushes it.
    fn finish(&mut self) -> io::Result<()>;
}

/// Bytes gathered before they are handed on: large enough that the cost of a hand-over does not show.
const BUFFER: usize = 1 << 18;

/// A range of a table of rendered bytes.
#[derive(Clone, Copy, Debug)]
struct RenderedText {
    start: usize,
    end: usize,
}

/// Rendered bytes, one after another.
#[derive(Debug, Default)]
struct Arena(Vec<u8>);

impl Arena {
    /// Keeps `bytes`.
    fn keep(&mut self, bytes: &[u8]) -> RenderedText {
        let start = self.0.len();
        self.0.extend_from_slice(bytes);
        RenderedText { start, end: self.0.len() }
    }
    #[inline]
    fn get(&self, text: RenderedText) -> &[u8] {
        &self.0[text.start..text.end]
    }
}
