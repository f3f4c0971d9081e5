//! Perfetto's own format: a stream of protobuf packets with TrackEvents.
//!
//! A file is a `Trace`: packets (field 1), one after another. Tracks are plain named tracks under one root with an
//! explicit order, which viewers obey (they re-order processes). Names, categories, names and texts of arguments are
//! interned: sent once, then meant by a number. A slice is two packets, begin and end; a process's own track has
//! slices too, which show while the rows below are folded away. Field numbers: google/perfetto,
//! `protos/perfetto/trace/trace_packet.proto`, `track_event/{track_event,track_descriptor,debug_annotation}.proto`,
//! `interned_data/interned_data.proto`.
//!
//! Hazard: the reader nests what overlaps without a word, and of two packets of one time the first in the file counts
//! first. So the slices of a track that have ended are closed, inner ones first, before its next begin, and an arrow
//! arrives at the end of its destination: a receive begins with its send, but ends later than that.

use std::io::{self, Write};

use rustc_hash::FxHashMap;

use super::{
    Arena, ArgumentName, BUFFER, Counter, CounterUnit, RenderedText, Sink, Slice, SliceKind, Thread, Value,
};

/// All events belong to one sequence; interned numbers hold within it.
pub const SEQUENCE: u64 = 1;
/// Rows of tables come on another: a reader gives every later slice of a sequence the thread that it described last.
pub const TABLES: u64 = 2;
/// The track that all others hang on.
const ROOT: u64 = 1;
/// `TracePacket::sequence_flags`: forget what was interned before; this packet needs what was interned.
const CLEARED: u64 = 1;
const NEEDS_INTERNED: u64 = 2;
/// `TrackEvent::type`: a slice begins.
pub const BEGIN: u64 = 1;
/// A slice ends.
pub const END: u64 = 2;
/// A counter has a value.
pub const COUNTER: u64 = 4;
/// `TrackEvent::correlation_id_str`: the viewer colours by it. It does not take numbers there.
const CORRELATION: u32 = 53;
/// Field of `TrackDescriptor`: a process.
pub const PROCESS: u32 = 3;
/// A thread.
pub const THREAD: u32 = 4;
/// Numbers of threads begin above those of all processes.
pub const FIRST_THREAD: u64 = 1_000_000_000;
/// `TrackDescriptor::child_ordering`: by `sibling_order_rank`.
const EXPLICIT: u64 = 3;

/// Writes Perfetto protobuf to `out`.
#[derive(Debug)]
pub struct Perfetto<W: Write> {
    out: W,
    buffer: Vec<u8>,
    /// The message being built, and the one that it will be part of.
    event: Vec<u8>,
    packet: Vec<u8>,
    arena: Arena,
    kinds: Vec<RenderedText>,
    /// By track, its slices that are open, outer ones first.
    open: Vec<Vec<OpenSlice>>,
    /// Tracks of processes by their number.
    processes: FxHashMap<u64, u64>,
    /// Interned texts by field of `InternedData`.
    interned: FxHashMap<(u32, String), u64>,
    /// Tracks declared below each process so far, for their order.
    children: FxHashMap<u64, u64>,
    tracks: u64,
}

/// A slice whose end is not written yet.
#[derive(Debug)]
struct OpenSlice {
    end: u64,
    into: Vec<u64>,
}

/// Field of `InternedData`: categories.
const CATEGORIES: u32 = 1;
/// Names of slices.
pub const EVENT_NAMES: u32 = 2;
/// Names of arguments.
pub const ARGUMENT_NAMES: u32 = 3;
/// Texts of arguments.
pub const ARGUMENT_TEXTS: u32 = 29;

impl<W: Write> Perfetto<W> {
    /// A writer with nothing written yet.
    pub fn new(out: W) -> Perfetto<W> {
        Perfetto {
            out,
            buffer: Vec::with_capacity(BUFFER),
            event: Vec::new(),
            packet: Vec::new(),
            arena: Arena::default(),
            kinds: Vec::new(),
            open: Vec::new(),
            processes: FxHashMap::default(),
            interned: FxHashMap::default(),
            children: FxHashMap::default(),
            tracks: ROOT,
        }
    }

    /// Writes `self.packet` as the next packet of the trace and empties it.
    fn send(&mut self) -> io::Result<()> {
        push_bytes(&mut self.buffer, 1, &self.packet);
        self.packet.clear();
        self.room()
    }

    /// Writes `self.event` at a time and empties it. Most packets are these, so one is put together where it goes.
    #[inline]
    fn send_event(&mut self, ns: u64) -> io::Result<()> {
        let event = self.event.len() as u64;
        let head = [10 << 3, SEQUENCE as u8, 13 << 3, NEEDS_INTERNED as u8];
        let length = 1 + varint_length(ns) + head.len() as u64 + 1 + varint_length(event) + event;
        let out = &mut self.buffer;
        push_varint(out, 1 << 3 | 2);
        push_varint(out, length);
        push_uint(out, 8, ns);
        out.extend_from_slice(&head);
        push_bytes(out, 11, &self.event);
        self.event.clear();
        self.room()
    }

    /// Hands the buffer on if it is full.
    #[inline]
    fn room(&mut self) -> io::Result<()> {
        if self.buffer.len() >= BUFFER { self.hand_on() } else { Ok(()) }
    }

    #[cold]
    fn hand_on(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Declares a track and returns its number.
    fn track(
        &mut self,
        number: u64,
        parent: Option<(u64, u64)>,
        name: &str,
        unit: Option<CounterUnit>,
    ) -> io::Result<()> {
        self.open.resize_with(self.open.len().max(number as usize + 1), Vec::new);
        let mut text = Vec::new();
        push_uint(&mut text, 1, number);
        push_bytes(&mut text, 2, name.as_bytes());
        if let Some((parent, order)) = parent {
            push_uint(&mut text, 5, parent);
            push_uint(&mut text, 12, order);
        }
        push_uint(&mut text, 11, EXPLICIT);
        match unit {
            Some(CounterUnit::Bytes) => {
                push_bytes(&mut text, 8, &[3 << 3, 3]); // CounterDescriptor: unit = bytes
            }
            Some(CounterUnit::Number) => push_bytes(&mut text, 8, &[3 << 3, 2]), // unit = count
            // unit_name, y_axis_share_key
            Some(CounterUnit::Percent) => push_bytes(&mut text, 8, b"\x32\x01%\x3a\x01%"),
            None => {}
        }
        push_uint(&mut self.packet, 10, SEQUENCE);
        push_bytes(&mut self.packet, 60, &text);
        self.send()
    }

    /// Fills a row of the reader's table of processes, or of threads. Slices stand on plain tracks, whose order viewers
    /// obey; what asks for a process or thread finds it by the name of the track.
    fn table_row(&mut self, field: u32, descriptor: &[u8]) -> io::Result<()> {
        self.tracks += 1;
        self.open.resize_with(self.tracks as usize + 1, Vec::new);
        let mut text = Vec::new();
        push_uint(&mut text, 1, self.tracks);
        push_bytes(&mut text, field, descriptor);
        push_uint(&mut self.packet, 10, TABLES);
        push_bytes(&mut self.packet, 60, &text);
        self.send()
    }

    /// Declares a track at the end of those below a process.
    fn child(&mut self, pid: u64, name: &str, unit: Option<CounterUnit>) -> io::Result<u32> {
        self.tracks += 1;
        let order = self.children.entry(pid).or_default();
        *order += 1;
        let place = (self.processes.get(&pid).copied().unwrap_or(ROOT), *order);
        let number = self.tracks;
        self.track(number, Some(place), name, unit)?;
        Ok(u32::try_from(number).expect("fewer than 2^32 tracks"))
    }

    /// Ends the slices of a track that are over at `ns`.
    fn close(&mut self, track: u64, ns: u64) -> io::Result<()> {
        while let Some(slice) = self.open[track as usize].pop_if(|slice| slice.end <= ns) {
            let event = &mut self.event;
            push_uint(event, 9, END);
            push_uint(event, 11, track);
            for id in &slice.into {
                push_fixed(event, 48, id.to_le_bytes());
            }
            self.send_event(slice.end)?;
        }
        Ok(())
    }

    /// The number that means `text` in this file; sent when the text is new.
    fn intern(&mut self, field: u32, text: &str) -> io::Result<u64> {
        let next = self.interned.len() as u64 + 1;
        let number = *self.interned.entry((field, text.to_owned())).or_insert(next);
        if number == next {
            let mut entry = Vec::new();
            push_uint(&mut entry, 1, number);
            push_bytes(&mut entry, 2, text.as_bytes());
            let mut data = Vec::new();
            push_bytes(&mut data, field, &entry);
            push_uint(&mut self.packet, 10, SEQUENCE);
            push_uint(&mut self.packet, 13, NEEDS_INTERNED);
            push_bytes(&mut self.packet, 12, &data);
            self.send()?;
        }
        Ok(number)
    }
}

/// A base-128 number.
#[inline]
pub fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 127 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that a base-128 number takes.
#[inline]
pub fn varint_length(value: u64) -> u64 {
    u64::from((64 - (value | 1).leading_zeros()).div_ceil(7))
}

/// A field with a number.
#[inline]
fn push_uint(out: &mut Vec<u8>, field: u32, value: u64) {
    push_varint(out, u64::from(field << 3));
    push_varint(out, value);
}

/// A field with eight bytes.
fn push_fixed(out: &mut Vec<u8>, field: u32, bytes: [u8; 8]) {
    push_varint(out, u64::from(field << 3 | 1));
    out.extend_from_slice(&bytes);
}

/// A field with a text or a message.
#[inline]
fn push_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    push_varint(out, u64::from(field << 3 | 2));
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// `TrackEvent::debug_annotations`. A message's length stands before it, and follows from what is in it.
#[inline]
fn push_argument(out: &mut Vec<u8>, name: u64, value: Value) {
    let length = |of_value: u64| 1 + varint_length(name) + 1 + of_value;
    let mut head = |of_value| {
        push_varint(out, 4 << 3 | 2);
        push_varint(out, length(of_value));
        push_uint(out, 1, name);
    };
    match value {
        Value::Float(x) if !x.is_finite() => {}
        Value::Float(x) if x.fract() == 0.0 && (0.0..9e18).contains(&x) => {
            push_argument(out, name, Value::Uint(x as u64));
        }
        Value::Uint(n) => {
            head(varint_length(n));
            push_uint(out, 3, n);
        }
        Value::Milli(n) => {
            head(8);
            push_fixed(out, 5, (n as f64 / 1e3).to_le_bytes());
        }
        Value::Float(x) => {
            head(8);
            push_fixed(out, 5, x.to_le_bytes());
        }
        Value::Text(t) => {
            head(varint_length(t.len() as u64) + t.len() as u64);
            push_bytes(out, 6, t.as_bytes());
        }
    }
}

/// `TrackEvent::debug_annotations` with a text that was sent before. Every slice of a kind repeats its arguments.
fn push_interned(out: &mut Vec<u8>, name: u64, text: u64) {
    push_varint(out, 4 << 3 | 2);
    push_varint(out, 1 + varint_length(name) + 2 + varint_length(text));
    push_uint(out, 1, name);
    push_uint(out, 17, text);
}

impl<W: Write> Sink for Perfetto<W> {
    fn begin(&mut self, _: &[(&str, Value)]) -> io::Result<()> {
        push_uint(&mut self.packet, 10, SEQUENCE);
        push_uint(&mut self.packet, 13, CLEARED);
        self.send()?;
        self.track(ROOT, None, "training step", None)
    }

    fn process(&mut self, pid: u64, name: &str) -> io::Result<()> {
        self.tracks += 1;
        let order = self.processes.len() as u64;
        self.processes.insert(pid, self.tracks);
        self.track(self.tracks, Some((ROOT, order)), name, None)?;
        let mut process = Vec::new();
        push_uint(&mut process, 1, pid);
        push_bytes(&mut process, 6, name.as_bytes());
        self.table_row(PROCESS, &process)
    }

    fn thread(&mut self, pid: u64, name: &str) -> io::Result<Thread> {
        let tid = FIRST_THREAD + self.tracks;
        let mut thread = Vec::new();
        push_uint(&mut thread, 1, pid);
        push_uint(&mut thread, 2, tid);
        push_bytes(&mut thread, 5, name.as_bytes());
        self.table_row(THREAD, &thread)?;
        Ok(Thread(self.child(pid, name, None)?))
    }

    fn summary(&mut self, pid: u64) -> Option<Thread> {
        self.processes.get(&pid).map(|track| Thread(*track as u32))
    }

    fn is_one_process(&self) -> bool {
        false
    }

    fn counter_track(
        &mut self,
        pid: u64,
        name: &str,
        series: &str,
        unit: CounterUnit,
    ) -> io::Result<Counter> {
        Ok(Counter(self.child(pid, &format!("{name} {series}"), Some(unit))?))
    }

    fn key(&mut self, name: &str) -> io::Result<ArgumentName> {
        Ok(ArgumentName(self.intern(ARGUMENT_NAMES, name)? as u32))
    }

    fn kind(&mut self, name: &str, category: &str, args: &[(&str, Value)]) -> io::Result<SliceKind> {
        let mut text = Vec::new();
        push_uint(&mut text, 3, self.intern(CATEGORIES, category)?);
        push_uint(&mut text, 10, self.intern(EVENT_NAMES, name)?);
        for (key, value) in args {
            let key = self.intern(ARGUMENT_NAMES, key)?;
            match value {
                Value::Text(value) => push_interned(&mut text, key, self.intern(ARGUMENT_TEXTS, value)?),
                value => push_argument(&mut text, key, *value),
            }
        }
        self.kinds.push(self.arena.keep(&text));
        Ok(SliceKind(self.kinds.len() as u32 - 1))
    }

    fn slice(&mut self, thread: Thread, kind: SliceKind, slice: &Slice) -> io::Result<()> {
        let track = u64::from(thread.0);
        self.close(track, slice.start)?;
        let event = &mut self.event;
        push_uint(event, 9, BEGIN);
        push_uint(event, 11, track);
        event.extend_from_slice(self.arena.get(self.kinds[kind.0 as usize]));
        for (key, value) in slice.args {
            push_argument(event, u64::from(key.0), *value);
        }
        for id in slice.out {
            push_fixed(event, 47, id.to_le_bytes());
        }
        if let Some(number) = slice.alike {
            push_bytes(event, CORRELATION, itoa::Buffer::new().format(number).as_bytes());
        }
        self.send_event(slice.start)?;
        self.open[track as usize].push(OpenSlice { end: slice.end, into: slice.into.to_vec() });
        Ok(())
    }

    fn counter(&mut self, counter: Counter, ns: u64, value: Value) -> io::Result<()> {
        let event = &mut self.event;
        push_uint(event, 9, COUNTER);
        push_uint(event, 11, u64::from(counter.0));
        match value {
            Value::Uint(n) => push_uint(event, 30, n),
            Value::Milli(n) => push_fixed(event, 44, (n as f64 / 1e3).to_le_bytes()),
            Value::Float(x) if x.is_finite() => push_fixed(event, 44, x.to_le_bytes()),
            Value::Float(_) | Value::Text(_) => {
                event.clear();
                return Ok(());
            }
        }
        self.send_event(ns)
    }

    fn finish(&mut self) -> io::Result<()> {
        for track in 0..self.open.len() as u64 {
            self.close(track, u64::MAX)?;
        }
        self.hand_on()?;
        self.out.flush()
    }
}
