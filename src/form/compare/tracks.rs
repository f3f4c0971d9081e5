//! The closed form as rows of a timeline, under the rank that it is compared with: its terms one after another, and below
//! them the same terms as they were simulated.

use std::io;

use super::Term;
use super::among::OwnRows;
use stepsim_core::units::Time;
use stepsim_read::trace::writer::{Sink, Slice, Thread, Value};

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

/// One side of a term.
type Seconds = fn(&Term) -> f64;

impl Rows<'_> {
    /// The process: terms above zero become slices, one after another.
    fn write(&self, place: u64, sink: &mut dyn Sink) -> io::Result<()> {
        sink.process(PROCESS, "closed form", place)?;
        let sides: [(&str, Seconds); 2] = [
            ("closed form, term by term", |t| t.closed_form_s),
            ("as simulated, term by term", |t| t.simulated_s),
        ];
        for (number, (name, seconds)) in (1..).zip(sides) {
            if self.terms.iter().any(|term| seconds(term) > 0.0) {
                let thread = sink.thread(PROCESS, PROCESS + number, name)?;
                self.side(thread, seconds, sink)?;
            }
        }
        Ok(())
    }

    fn side(&self, thread: Thread, seconds: Seconds, sink: &mut dyn Sink) -> io::Result<()> {
        let total: f64 = self.terms.iter().map(seconds).sum();
        let mut before = 0.0;
        for term in self.terms {
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
                let kind = sink.kind(term.name, "closed form", &args)?;
                sink.slice(thread, kind, &Slice { start, end, ..Slice::default() })?;
            }
        }
        Ok(())
    }
}

impl OwnRows for Rows<'_> {
    /// Between any two there is room for one more.
    fn place(&self, order: u64) -> u64 {
        2 * order + 1
    }
    fn above(&self, sink: &mut dyn Sink) -> io::Result<()> {
        if self.rank.is_empty() { self.write(0, sink) } else { Ok(()) }
    }
    fn under(&self, name: &str, place: u64, sink: &mut dyn Sink) -> io::Result<()> {
        if name == self.rank { self.write(place + 1, sink) } else { Ok(()) }
    }
}
