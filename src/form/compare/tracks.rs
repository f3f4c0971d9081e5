//! The closed form as rows of a timeline, under the rank that it is compared with: its terms one after another, below
//! them the same terms as they were simulated, and below those what makes the difference: own errors, effects, rest.

use std::io;

use super::Comparison;
use super::among::OwnRows;
use stepsim_core::units::Time;
use stepsim_read::trace::writer::{Sink, Slice, Value};

/// Number of the closed form's process: above all of the timeline's own.
const PROCESS: u64 = 900_000_000;

/// The contents of the rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrackContents<'a> {
    /// The comparison; none: there are no rows.
    pub of: Option<&'a Comparison>,
    /// The name of the rank that they stand under; empty: they stand above all.
    pub rank: &'a str,
}

/// A slice of a row: its name, its length in seconds, and what is said about it.
type TrackSlice<'a> = (&'a str, f64, [(&'static str, Value<'a>); 3]);

impl TrackContents<'_> {
    /// The process: what takes any time becomes slices, one after another.
    fn write(&self, sink: &mut dyn Sink) -> io::Result<()> {
        sink.process(PROCESS, "closed form")?;
        let Some(c) = self.of else { return Ok(()) };
        let terms = |seconds: fn(&super::Term) -> f64| {
            let total: f64 = c.terms.iter().map(seconds).sum();
            let bar = move |term: &super::Term| -> TrackSlice<'static> {
                let args = [
                    ("closed form, seconds", Value::Float(term.closed_form_s)),
                    ("simulated, seconds", Value::Float(term.simulated_s)),
                    ("percent of the step", Value::Float(100.0 * seconds(term) / total)),
                ];
                (term.name, seconds(term), args)
            };
            c.terms.iter().map(bar).collect::<Vec<_>>()
        };
        let differences = c.differences().map(|(class, name, _, seconds)| {
            let args = [
                ("class", Value::Text(class.name())),
                ("simulated less closed form, seconds", Value::Float(seconds)),
                ("percent of the closed form", Value::Float(100.0 * seconds / c.closed_form_s)),
            ];
            (name, seconds.abs(), args)
        });
        row("closed form, term by term", &terms(|t| t.closed_form_s), sink)?;
        row("as simulated, term by term", &terms(|t| t.simulated_s), sink)?;
        row("own error, effects, rest: sizes", &differences.collect::<Vec<_>>(), sink)
    }
}

/// A row of slices, if any is longer than nothing.
fn row(name: &str, bars: &[TrackSlice<'_>], sink: &mut dyn Sink) -> io::Result<()> {
    if !bars.iter().any(|bar| bar.1 > 0.0) {
        return Ok(());
    }
    let thread = sink.thread(PROCESS, name)?;
    let mut before = 0.0;
    for (name, seconds, args) in bars {
        let (start, end) =
            (Time::from_s(before).round_ns(), Time::from_s(before + seconds.max(0.0)).round_ns());
        before += seconds.max(0.0);
        if end > start {
            let kind = sink.kind(name, "closed form", args)?;
            sink.slice(thread, kind, &Slice { start, end, ..Slice::default() })?;
        }
    }
    Ok(())
}

impl OwnRows for TrackContents<'_> {
    fn above(&self, sink: &mut dyn Sink) -> io::Result<()> {
        if self.rank.is_empty() { self.write(sink) } else { Ok(()) }
    }
    fn under(&self, name: &str, sink: &mut dyn Sink) -> io::Result<()> {
        if name == self.rank { self.write(sink) } else { Ok(()) }
    }
}
