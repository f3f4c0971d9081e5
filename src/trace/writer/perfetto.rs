//! Perfetto's own format: a stream of protobuf packets with TrackEvents.
//!
//! A file is a `Trace`: packets (field 1), one after another. Tracks are plain named tracks under one root with an
//! explicit order, which viewers obey (they re-order processes). Names, categories and argument names are interned:
//! sent once, then meant by a number. A slice is two packets, begin and end; a process's own track has slices too, which
//! show while the rows below are folded away. Field numbers: google/perfetto,
//! `protos/perfetto/trace/trace_packet.proto`, `track_event/{track_event,track_descriptor,debug_annotation}.proto`,
//! `interned_data/interned_data.proto`.
//!
//! Hazard: the reader nests what overlaps without a word, and of two packets of one time the first in the file counts
//! first. So the slices of a track that have ended are closed, inner ones first, before its next begin, and an arrow arrives
//! at the end of its destination: a receive begins with its send, but ends later than that.

use std::io::{self, Write};

use rustc_hash::FxHashMap;

use super::{Arena, BUFFER, Counter, Key, Kind, Sink, Slice, Text, Thread, Unit, Value};

/// All events belong to one sequence; interned numbers hold within it.
const SEQUENCE: u64 = 1;
/// Rows of tables come on another: a reader gives every later slice of a sequence the thread that it described last.
const TABLES: u64 = 2;
/// The track that all others hang on.
const ROOT: u64 = 1;
/// `TracePacket::sequence_flags`: forget what was interned before; this packet needs what was interned.
const CLEARED: u64 = 1;
const NEEDS_INTERNED: u64 = 2;
/// `TrackEvent::type`.
const BEGIN: u64 = 1;
const END: u64 = 2;
const COUNTER: u64 = 4;
/// Fields of `TrackDescriptor`.
const PROCESS: u32 = 3;
const THREAD: u32 = 4;
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
    kinds: Vec<Text>,
    /// By track, its slices that are open, outer ones first.
    open: Vec<Vec<Open>>,
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
struct Open {
    end: u64,
    into: Vec<u64>,
}

/// Fields of `InternedData`.
const CATEGORIES: u32 = 1;
const EVENT_NAMES: u32 = 2;
const ARGUMENT_NAMES: u32 = 3;

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
        if self.buffer.len() >= BUFFER {
            self.out.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Writes `self.event` at a time and empties it.
    fn send_event(&mut self, ns: u64) -> io::Result<()> {
        push_uint(&mut self.packet, 8, ns);
        push_uint(&mut self.packet, 10, SEQUENCE);
        push_uint(&mut self.packet, 13, NEEDS_INTERNED);
        push_bytes(&mut self.packet, 11, &self.event);
        self.event.clear();
        self.send()
    }

    /// Declares a track and returns its number.
    fn track(
        &mut self,
        number: u64,
        parent: Option<(u64, u64)>,
        name: &str,
        unit: Option<Unit>,
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
            Some(Unit::Bytes) => {
                push_bytes(&mut text, 8, &[3 << 3, 3]); // CounterDescriptor: unit = bytes
            }
            Some(Unit::Number) => push_bytes(&mut text, 8, &[3 << 3, 2]), // unit = count
            Some(Unit::Percent) => push_bytes(&mut text, 8, b"\x32\x01%"), // unit_name = "%"
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
    fn child(&mut self, pid: u64, name: &str, unit: Option<Unit>) -> io::Result<u32> {
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
fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 127 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
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

/// `TrackEvent::debug_annotations`. A message's length stands before it, so it is moved there at the end.
fn push_argument(out: &mut Vec<u8>, name: u64, value: Value) {
    if matches!(value, Value::Float(x) if !x.is_finite()) {
        return;
    }
    push_varint(out, 4 << 3 | 2);
    let start = out.len();
    push_uint(out, 1, name);
    match value {
        Value::Uint(n) => push_uint(out, 3, n),
        Value::Milli(n) => push_fixed(out, 5, (n as f64 / 1e3).to_le_bytes()),
        Value::Float(x) if x.fract() == 0.0 && (0.0..9e18).contains(&x) => push_uint(out, 3, x as u64),
        Value::Float(x) => push_fixed(out, 5, x.to_le_bytes()),
        Value::Text(t) => push_bytes(out, 6, t.as_bytes()),
    }
    let end = out.len();
    push_varint(out, (end - start) as u64);
    let length = out.len() - end;
    out[start..].rotate_right(length);
}

impl<W: Write> Sink for Perfetto<W> {
    fn begin(&mut self, _: &[(&str, Value)]) -> io::Result<()> {
        push_uint(&mut self.packet, 10, SEQUENCE);
        push_uint(&mut self.packet, 13, CLEARED);
        self.send()?;
        self.track(ROOT, None, "training step", None)
    }

    fn process(&mut self, pid: u64, name: &str, order: u64) -> io::Result<()> {
        self.tracks += 1;
        self.processes.insert(pid, self.tracks);
        self.track(self.tracks, Some((ROOT, order)), name, None)?;
        let mut process = Vec::new();
        push_uint(&mut process, 1, pid);
        push_bytes(&mut process, 6, name.as_bytes());
        self.table_row(PROCESS, &process)
    }

    fn thread(&mut self, pid: u64, tid: u64, name: &str) -> io::Result<Thread> {
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

    fn counts_all_slices(&self) -> bool {
        false
    }

    fn counter_track(&mut self, pid: u64, name: &str, series: &str, unit: Unit) -> io::Result<Counter> {
        Ok(Counter(self.child(pid, &format!("{name} {series}"), Some(unit))?))
    }

    fn key(&mut self, name: &str) -> io::Result<Key> {
        Ok(Key(self.intern(ARGUMENT_NAMES, name)? as u32))
    }

    fn kind(&mut self, name: &str, category: &str, args: &[(&str, Value)]) -> io::Result<Kind> {
        let mut text = Vec::new();
        push_uint(&mut text, 3, self.intern(CATEGORIES, category)?);
        push_uint(&mut text, 10, self.intern(EVENT_NAMES, name)?);
        for (key, value) in args {
            push_argument(&mut text, self.intern(ARGUMENT_NAMES, key)?, *value);
        }
        self.kinds.push(self.arena.keep(&text));
        Ok(Kind(self.kinds.len() as u32 - 1))
    }

    fn slice(&mut self, thread: Thread, kind: Kind, slice: &Slice) -> io::Result<()> {
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
        self.send_event(slice.start)?;
        self.open[track as usize].push(Open { end: slice.end, into: slice.into.to_vec() });
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
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Fields of a message: number and value, bytes or a number in bytes.
    fn fields(mut message: &[u8]) -> Vec<(u64, Field<'_>)> {
        let mut found = Vec::new();
        while !message.is_empty() {
            let tag = varint(&mut message);
            let field = match tag & 7 {
                0 => Field::Number(varint(&mut message)),
                1 => Field::Number(u64::from_le_bytes(take(&mut message, 8).try_into().unwrap())),
                2 => {
                    let length = varint(&mut message) as usize;
                    Field::Bytes(take(&mut message, length))
                }
                other => panic!("wire type {other}"),
            };
            found.push((tag >> 3, field));
        }
        found
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Field<'a> {
        Number(u64),
        Bytes(&'a [u8]),
    }

    impl<'a> Field<'a> {
        fn number(self) -> u64 {
            let Field::Number(n) = self else { panic!("a number is expected, not {self:?}") };
            n
        }
        fn fields(self) -> Vec<(u64, Field<'a>)> {
            let Field::Bytes(bytes) = self else { panic!("a message is expected, not {self:?}") };
            fields(bytes)
        }
    }

    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = take(bytes, 1)[0];
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                break;
            }
        }
        value
    }

    fn take<'a>(bytes: &mut &'a [u8], n: usize) -> &'a [u8] {
        let (head, rest) = bytes.split_at(n);
        *bytes = rest;
        head
    }

    fn find<'a>(message: &[(u64, Field<'a>)], number: u64) -> Option<Field<'a>> {
        message.iter().find(|(n, _)| *n == number).map(|(_, field)| *field)
    }

    #[test]
    fn a_reader_of_the_format_finds_what_was_written() {
        let mut bytes = Vec::new();
        let mut sink = Perfetto::new(&mut bytes);
        sink.begin(&[]).unwrap();
        sink.process(7, "rank 6", 3).unwrap();
        let row = sink.thread(7, 1001, "compute").unwrap();
        let counter = sink.counter_track(7, "hbm bytes", "total", Unit::Bytes).unwrap();
        let long = "x".repeat(300);
        let kind = sink
            .kind("F3 m0 qkv", "compute", &[("op", Value::Text(&long)), ("layer", Value::Uint(3))])
            .unwrap();
        let key = sink.key("rate").unwrap();
        let args = [(key, Value::Milli(1500)), (key, Value::Float(f64::NAN))];
        let slice = Slice { start: 1000, end: 2000, args: &args, out: &[5], into: &[4] };
        sink.slice(row, kind, &slice).unwrap();
        sink.counter(counter, 300, Value::Uint(1 << 40)).unwrap();
        sink.finish().unwrap();
        drop(sink);

        let mut interned = BTreeMap::new();
        let mut tracks = BTreeMap::new();
        let mut rows = Vec::new();
        let mut events = Vec::new();
        for (number, packet) in fields(&bytes) {
            assert_eq!(number, 1);
            let packet = packet.fields();
            for (field, entry) in find(&packet, 12).map_or(Vec::new(), Field::fields) {
                let entry = entry.fields();
                interned.insert((field, find(&entry, 1).unwrap().number()), find(&entry, 2).unwrap());
            }
            if let Some(track) = find(&packet, 60) {
                let track = track.fields();
                let row = find(&track, u64::from(PROCESS)).or(find(&track, u64::from(THREAD)));
                let sequence = if row.is_some() { TABLES } else { SEQUENCE };
                assert_eq!(find(&packet, 10), Some(Field::Number(sequence)));
                if let Some(row) = row {
                    rows.push(row.fields());
                    continue;
                }
                tracks.insert(find(&track, 1).unwrap().number(), track);
            }
            if let Some(event) = find(&packet, 11) {
                assert_eq!(find(&packet, 10), Some(Field::Number(SEQUENCE)));
                events.push((find(&packet, 8).unwrap().number(), event.fields()));
            }
        }
        let [(1000, begin), (300, value), (2000, end)] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!(rows[0], [(1, Field::Number(7)), (6, Field::Bytes(b"rank 6"))]);
        assert_eq!(rows[1], [(1, Field::Number(7)), (2, Field::Number(1001)), (5, Field::Bytes(b"compute"))]);
        let track = &tracks[&find(begin, 11).unwrap().number()];
        assert_eq!(find(track, 2), Some(Field::Bytes(b"compute")));
        let process = &tracks[&find(track, 5).unwrap().number()];
        assert_eq!(
            (find(process, 2), find(process, 12)),
            (Some(Field::Bytes(b"rank 6")), Some(Field::Number(3)))
        );
        let name = interned[&(u64::from(EVENT_NAMES), find(begin, 10).unwrap().number())];
        assert_eq!(name, Field::Bytes(b"F3 m0 qkv"));
        let args: Vec<_> = begin.iter().filter(|(n, _)| *n == 4).map(|(_, arg)| arg.fields()).collect();
        assert_eq!(args.len(), 3, "the rate that is no number is left out");
        assert_eq!(find(&args[0], 6), Some(Field::Bytes(long.as_bytes())));
        assert_eq!(find(&args[1], 3), Some(Field::Number(3)));
        assert_eq!(find(&args[2], 5), Some(Field::Number(1.5f64.to_bits())));
        assert_eq!(
            interned[&(u64::from(ARGUMENT_NAMES), find(&args[2], 1).unwrap().number())],
            Field::Bytes(b"rate")
        );
        assert_eq!((find(begin, 47), find(end, 48)), (Some(Field::Number(5)), Some(Field::Number(4))));
        assert_eq!((find(begin, 9), find(end, 9)), (Some(Field::Number(BEGIN)), Some(Field::Number(END))));
        assert_eq!(
            (find(value, 9), find(value, 30)),
            (Some(Field::Number(COUNTER)), Some(Field::Number(1 << 40)))
        );
    }
}
