//! The closed form's phases as tracks above the simulated ones in one timeline.

use std::io;

use crate::core::units::Time;
use crate::read::trace::writer::{Counter, CounterUnit, Key, Kind, Sink, Slice, Thread, Value};

/// Number of the closed form's process and of its first thread: above all of the timeline's own.
const PROCESS: u64 = 900_000_000;

/// A sink that writes the closed form's process before whatever a timeline writes.
pub struct Above<'a> {
    sink: &'a mut dyn Sink,
    terms: &'a [(&'static str, f64)],
}

impl<'a> Above<'a> {
    /// `terms` in seconds; those above zero become slices, one after another.
    pub fn new(sink: &'a mut dyn Sink, terms: &'a [(&'static str, f64)]) -> Above<'a> {
        Above { sink, terms }
    }

    fn tracks(&mut self) -> io::Result<()> {
        self.sink.process(PROCESS, "closed form", 0)?;
        let thread = self.sink.thread(PROCESS, PROCESS + 1, "closed form: step")?;
        let total: f64 = self.terms.iter().map(|t| t.1).sum();
        let end = Time::from_s(total).round_ns().max(1);
        let kind = self.sink.kind("closed form", "closed form", &[("seconds", Value::Float(total))])?;
        self.sink.slice(thread, kind, &Slice { start: 0, end, ..Slice::default() })?;
        let thread = self.sink.thread(PROCESS, PROCESS + 2, "closed form: terms, one after another")?;
        let mut before = 0.0;
        for &(name, seconds) in self.terms {
            let (start, end) = (Time::from_s(before).round_ns(), Time::from_s(before + seconds).round_ns());
            before += seconds;
            if end > start {
                let args = [
                    ("seconds", Value::Float(seconds)),
                    ("percent of the step", Value::Float(100.0 * seconds / total)),
                ];
                let kind = self.sink.kind(name, "closed form", &args)?;
                self.sink.slice(thread, kind, &Slice { start, end, ..Slice::default() })?;
            }
        }
        Ok(())
    }
}

impl Sink for Above<'_> {
    fn begin(&mut self, metadata: &[(&str, Value)]) -> io::Result<()> {
        self.sink.begin(metadata)?;
        self.tracks()
    }
    fn process(&mut self, pid: u64, name: &str, order: u64) -> io::Result<()> {
        self.sink.process(pid, name, order + 1)
    }
    fn thread(&mut self, pid: u64, tid: u64, name: &str) -> io::Result<Thread> {
        self.sink.thread(pid, tid, name)
    }
    fn summary(&mut self, pid: u64) -> Option<Thread> {
        self.sink.summary(pid)
    }
    fn counts_all_slices(&self) -> bool {
        self.sink.counts_all_slices()
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
    fn key(&mut self, name: &str) -> io::Result<Key> {
        self.sink.key(name)
    }
    fn kind(&mut self, name: &str, category: &str, args: &[(&str, Value)]) -> io::Result<Kind> {
        self.sink.kind(name, category, args)
    }
    fn slice(&mut self, thread: Thread, kind: Kind, slice: &Slice) -> io::Result<()> {
        self.sink.slice(thread, kind, slice)
    }
    fn counter(&mut self, counter: Counter, ns: u64, value: Value) -> io::Result<()> {
        self.sink.counter(counter, ns, value)
    }
    fn finish(&mut self) -> io::Result<()> {
        self.sink.finish()
    }
}
