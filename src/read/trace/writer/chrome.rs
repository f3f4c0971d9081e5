//! Chrome trace JSON (Trace Event Format), which Perfetto and `chrome://tracing` read.
//!
//! One event a line. `ts` and `dur` are microseconds with exactly three decimals, printed from integer nanoseconds.
//! An arrow is an `s` event at the start of its source slice and an `f` event with `bp:"e"` in the last nanosecond of
//! its destination. Both follow their slice in the file, so they bind to it and not to what it lies in.
//!
//! All rows are threads of one process: Perfetto opens a trace of one process expanded, and one of several closed. It
//! orders threads by their numbers, other viewers and later ones by their sort index; the process's number would make
//! a thread its main one. Counters follow behind all threads, by name.

use std::io::{self, Write};

use super::json::{
    MOST_MILLI, before, milli_before, push_head, push_members, push_milli, push_string, push_uint, push_value,
};
use super::{
    Arena, ArgumentName, BUFFER, Counter, CounterUnit, RenderedText, Sink, Slice, SliceKind, Thread, Value,
    arrow_head,
};

/// Room that an event without texts of its own surely fits in; longer ones make the buffer grow.
const EVENT: usize = 1024;

/// The process of all rows.
const PROCESS: u64 = 1;
/// The first number of threads, and of those that stand last.
const FIRST_THREAD: u64 = 2;
const LAST_THREADS: u64 = 1_000_000;

/// Between the start and the length of a slice.
const DURATION: &[u8; 7] = b",\"dur\":";

/// The end of an event with arguments.
const CLOSE: &[u8] = b"}}";

/// Writes Chrome trace JSON to `out`.
#[derive(Debug)]
pub struct Chrome<W: Write> {
    out: W,
    buffer: Vec<u8>,
    arena: Arena,
    threads: Vec<ThreadText>,
    counters: Vec<(RenderedText, RenderedText)>,
    keys: Vec<RenderedText>,
    kinds: Vec<KindText>,
    /// Where the texts of kinds are put together.
    text: Vec<u8>,
}

/// The beginning of each event of a thread: slices up to `"ts":`, arrows from `"pid"` to `"ts":`.
#[derive(Clone, Copy, Debug)]
struct ThreadText {
    slice: RenderedText,
    arrow: RenderedText,
}

/// The end of each slice of a kind; arguments of its own come before `}}`.
#[derive(Clone, Copy, Debug)]
struct KindText {
    tail: RenderedText,
    has_args: bool,
}

impl<W: Write> Chrome<W> {
    /// A writer with nothing written yet.
    pub fn new(out: W) -> Chrome<W> {
        Chrome {
            out,
            buffer: Vec::with_capacity(BUFFER + EVENT),
            arena: Arena::default(),
            threads: Vec::new(),
            counters: Vec::new(),
            keys: Vec::new(),
            kinds: Vec::new(),
            text: Vec::new(),
        }
    }

    /// Hands the buffer on if another event might not fit.
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

    /// A metadata event: the name of the process or the name or place of a thread. The process's comes before the
    /// events that need a comma.
    fn describe(&mut self, what: &str, tid: Option<u64>, arg: (&str, Value)) -> io::Result<()> {
        self.room()?;
        let b = &mut self.buffer;
        b.extend_from_slice(if tid.is_none() { b"\n" } else { b",\n" });
        push_head(b, b"{\"ph\":\"M\"", PROCESS, tid);
        b.extend_from_slice(b",\"name\":");
        push_string(b, what);
        b.extend_from_slice(b",\"args\":{");
        push_members(b, &[arg]);
        b.extend_from_slice(b"}}");
        Ok(())
    }

    /// A thread of this number.
    fn numbered(&mut self, tid: u64, name: &str) -> io::Result<Thread> {
        self.describe("thread_name", Some(tid), ("name", Value::Text(name)))?;
        self.describe("thread_sort_index", Some(tid), ("sort_index", Value::Uint(tid)))?;
        let mut text = Vec::new();
        push_head(&mut text, b",\n{\"ph\":\"X\"", PROCESS, Some(tid));
        text.extend_from_slice(b",\"ts\":");
        let slice = self.arena.keep(&text);
        text.clear();
        push_head(&mut text, b"", PROCESS, Some(tid));
        text.extend_from_slice(b",\"ts\":");
        let arrow = self.arena.keep(&text);
        self.threads.push(ThreadText { slice, arrow });
        Ok(Thread(self.threads.len() as u32 - 1))
    }
}

/// One end of an arrow.
fn push_arrow(out: &mut Vec<u8>, start: &[u8], id: u64, thread: &[u8], ns: u64) {
    out.extend_from_slice(start);
    push_uint(out, id);
    out.extend_from_slice(thread);
    push_milli(out, ns);
    out.push(b'}');
}

impl<W: Write> Sink for Chrome<W> {
    fn begin(&mut self, metadata: &[(&str, Value)]) -> io::Result<()> {
        self.buffer.extend_from_slice(b"{\"displayTimeUnit\":\"ns\",\"metadata\":{");
        push_members(&mut self.buffer, metadata);
        self.buffer.extend_from_slice(b"},\"traceEvents\":[");
        self.describe("process_name", None, ("name", Value::Text("training step")))
    }

    fn process(&mut self, _: u64, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn thread(&mut self, _: u64, name: &str) -> io::Result<Thread> {
        self.numbered(FIRST_THREAD + self.threads.len() as u64, name)
    }

    fn last_thread(&mut self, _: u64, name: &str) -> io::Result<Thread> {
        self.numbered(LAST_THREADS + self.threads.len() as u64, name)
    }

    fn summary(&mut self, _: u64) -> Option<Thread> {
        None
    }

    fn is_one_process(&self) -> bool {
        true
    }

    fn counter_track(&mut self, _: u64, name: &str, series: &str, _: CounterUnit) -> io::Result<Counter> {
        let mut text = Vec::new();
        push_head(&mut text, b",\n{\"ph\":\"C\"", PROCESS, None);
        text.extend_from_slice(b",\"name\":");
        push_string(&mut text, name);
        text.extend_from_slice(b",\"ts\":");
        let head = self.arena.keep(&text);
        text.clear();
        text.extend_from_slice(b",\"args\":{");
        push_string(&mut text, series);
        text.push(b':');
        let tail = self.arena.keep(&text);
        self.counters.push((head, tail));
        Ok(Counter(self.counters.len() as u32 - 1))
    }

    fn key(&mut self, name: &str) -> io::Result<ArgumentName> {
        let mut text = vec![b','];
        push_string(&mut text, name);
        text.push(b':');
        self.keys.push(self.arena.keep(&text));
        Ok(ArgumentName(self.keys.len() as u32 - 1))
    }

    fn kind(&mut self, name: &str, category: &str, args: &[(&str, Value)]) -> io::Result<SliceKind> {
        let text = &mut self.text;
        text.clear();
        text.extend_from_slice(b",\"name\":");
        push_string(text, name);
        text.extend_from_slice(b",\"cat\":");
        push_string(text, category);
        text.extend_from_slice(b",\"args\":{");
        push_members(text, args);
        text.extend_from_slice(CLOSE);
        self.kinds.push(KindText { tail: self.arena.keep(text), has_args: !args.is_empty() });
        Ok(SliceKind(self.kinds.len() as u32 - 1))
    }

    fn slice(&mut self, thread: Thread, kind: SliceKind, slice: &Slice) -> io::Result<()> {
        self.room()?;
        let thread = self.threads[thread.0 as usize];
        let kind = self.kinds[kind.0 as usize];
        let b = &mut self.buffer;
        let mut times = [0; 2 * MOST_MILLI + DURATION.len()];
        let left = before(milli_before(&mut times, slice.end - slice.start), *DURATION);
        let from = milli_before(left, slice.start).len();
        b.extend_from_slice(self.arena.get(thread.slice));
        b.extend_from_slice(&times[from..]);
        b.extend_from_slice(self.arena.get(kind.tail));
        if !slice.args.is_empty() {
            b.truncate(b.len() - CLOSE.len());
            let mut skip = usize::from(!kind.has_args);
            for (key, value) in slice.args {
                b.extend_from_slice(&self.arena.get(self.keys[key.0 as usize])[skip..]);
                push_value(b, *value);
                skip = 0;
            }
            b.extend_from_slice(CLOSE);
        }
        let thread = self.arena.get(thread.arrow);
        for id in slice.out {
            push_arrow(
                b,
                b",\n{\"ph\":\"s\",\"name\":\"arrow\",\"cat\":\"arrow\",\"id\":",
                *id,
                thread,
                slice.start,
            );
        }
        let inside = arrow_head(slice.end);
        for id in slice.into {
            let start = b",\n{\"ph\":\"f\",\"bp\":\"e\",\"name\":\"arrow\",\"cat\":\"arrow\",\"id\":";
            push_arrow(b, start, *id, thread, inside);
        }
        Ok(())
    }

    fn counter(&mut self, counter: Counter, ns: u64, value: Value) -> io::Result<()> {
        if matches!(value, Value::Text(_)) || matches!(value, Value::Float(x) if !x.is_finite()) {
            return Ok(()); // a counter without a number makes Perfetto v52 loop for ever
        }
        self.room()?;
        let (head, tail) = self.counters[counter.0 as usize];
        let b = &mut self.buffer;
        b.extend_from_slice(self.arena.get(head));
        push_milli(b, ns);
        b.extend_from_slice(self.arena.get(tail));
        push_value(b, value);
        b.extend_from_slice(b"}}");
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.buffer.extend_from_slice(b"\n]}\n");
        self.hand_on()?;
        self.out.flush()
    }
}
