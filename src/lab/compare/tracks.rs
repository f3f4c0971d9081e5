//! The closed form as rows of a timeline, under the rank that it is compared with: its terms one after another, and below
//! them the same terms as they were simulated.

use std::io;

use super::Term;
use crate::core::units::Time;
use crate::read::trace::writer::{Counter, CounterUnit, Key, Kind, Sink, Slice, Thread, Value};

/// Number of the closed form's process and of its first thread: above all of the timeline's own.
const PROCESS: u64 = 900_000_000;

/// What the rows show.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rows<'a> {
    /// Both sides, term by term; none: there are no rows.
    pub terms: &'a [Term],
    /// The name of the rank that they stand under; empty: they stand above all.
    pub rank: &'a str,
}

/// A sink that writes the closed form's process among those of a timeline.
pub struct Beside<'a> {
    sink: &'a mut dyn Sink,
    rows: Rows<'a>,
}

/// One side of a term.
type Seconds = fn(&Term) -> f64;

impl<'a> Beside<'a> {
    /// Terms above zero become slices, one after another.
    pub fn new(sink: &'a mut dyn Sink, rows: Rows<'a>) -> Beside<'a> {
        Beside { sink, rows }
    }

    fn tracks(&mut self, order: u64) -> io::Result<()> {
        self.sink.process(PROCESS, "closed form", order)?;
        let sides: [(&str, Seconds); 2] = [
            ("closed form, term by term", |t| t.closed_form_s),
            ("as simulated, term by term", |t| t.simulated_s),
        ];
        for (number, (name, seconds)) in (1..).zip(sides) {
            if self.rows.terms.iter().any(|term| seconds(term) > 0.0) {
                let thread = self.sink.thread(PROCESS, PROCESS + number, name)?;
                self.side(thread, seconds)?;
            }
        }
        Ok(())
    }

    fn side(&mut self, thread: Thread, seconds: Seconds) -> io::Result<()> {
        let total: f64 = self.rows.terms.iter().map(seconds).sum();
        let mut before = 0.0;
        for term in self.rows.terms {
            let own = seconds(term);
            let (start, end) =
                (Time::from_s(before).round_ns(), Time::from_s(before + own.max(0.0)).round_ns());
            before += own.max(0.0);
            if end > start {
                let args = [
                    ("closed form, seconds", Value::Float(term.closed_form_s)),
                    ("simulated, seconds", Value::Float(term.simulated_s)),
                    ("percent of the step", Value::Float(100.0 * own / total)),
                ];
                let kind = self.sink.kind(term.name, "closed form", &args)?;
                self.sink.slice(thread, kind, &Slice { start, end, ..Slice::default() })?;
            }
        }
        Ok(())
    }
}

impl Sink for Beside<'_> {
    fn begin(&mut self, metadata: &[(&str, Value)]) -> io::Result<()> {
        self.sink.begin(metadata)?;
        if self.rows.rank.is_empty() { self.tracks(0) } else { Ok(()) }
    }
    fn process(&mut self, pid: u64, name: &str, order: u64) -> io::Result<()> {
        // Between any two there is room for one more.
        self.sink.process(pid, name, 2 * order + 1)?;
        if name == self.rows.rank { self.tracks(2 * order + 2) } else { Ok(()) }
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
