//! A sink that writes rows of its own among a timeline's.

use std::io;

use stepsim_read::trace::writer::{
    ArgumentName, Counter, CounterUnit, Sink, Slice, SliceKind, Thread, Value,
};

/// Rows that a file shows beside a timeline's.
pub trait OwnRows {
    /// Writes the rows that stand above all.
    ///
    /// # Errors
    /// The sink cannot write.
    fn above(&self, sink: &mut dyn Sink) -> io::Result<()>;
    /// How much later than it began the timeline is shown, in nanoseconds.
    fn later_ns(&self) -> u64 {
        0
    }
}

/// The sink.
pub struct Among<'a, R> {
    sink: &'a mut dyn Sink,
    rows: R,
}

impl<'a, R: OwnRows> Among<'a, R> {
    /// Writes to `sink` what it is handed, and `rows` among it.
    pub fn new(sink: &'a mut dyn Sink, rows: R) -> Among<'a, R> {
        Among { sink, rows }
    }
}

impl<R: OwnRows> Sink for Among<'_, R> {
    fn begin(&mut self, metadata: &[(&str, Value)]) -> io::Result<()> {
        self.sink.begin(metadata)?;
        self.rows.above(self.sink)
    }
    fn process(&mut self, pid: u64, name: &str) -> io::Result<()> {
        self.sink.process(pid, name)
    }
    fn thread(&mut self, pid: u64, name: &str) -> io::Result<Thread> {
        self.sink.thread(pid, name)
    }
    fn last_thread(&mut self, pid: u64, name: &str) -> io::Result<Thread> {
        self.sink.last_thread(pid, name)
    }
    fn summary(&mut self, pid: u64) -> Option<Thread> {
        self.sink.summary(pid)
    }
    fn is_one_process(&self) -> bool {
        self.sink.is_one_process()
    }
    fn counter_track(
        &mut self,
        pid: u64,
        name: &str,
        series: &str,
        unit: CounterUnit,
    ) -> io::Result<Counter> {
        self.sink.counter_track(pid, name, series, unit)
    }
    fn key(&mut self, name: &str) -> io::Result<ArgumentName> {
        self.sink.key(name)
    }
    fn kind(&mut self, name: &str, category: &str, args: &[(&str, Value)]) -> io::Result<SliceKind> {
        self.sink.kind(name, category, args)
    }
    fn slice(&mut self, thread: Thread, kind: SliceKind, slice: &Slice) -> io::Result<()> {
        let [start, end] = [slice.start, slice.end].map(|ns| ns + self.rows.later_ns());
        self.sink.slice(thread, kind, &Slice { start, end, ..*slice })
    }
    fn counter(&mut self, counter: Counter, ns: u64, value: Value) -> io::Result<()> {
        self.sink.counter(counter, ns + self.rows.later_ns(), value)
    }
    fn finish(&mut self) -> io::Result<()> {
        self.sink.finish()
    }
}
