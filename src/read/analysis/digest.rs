//! The report on one screen: how fast, what the step hangs on, where the rest of the peak went, and what to try first.

use std::fmt::Write;

use super::cells::percent;
use super::critical::path_parts;
use super::reading::Reading;
pub use super::reading::ReadingContext;
use super::registry::{View, in_view};
use super::report::Report;
use super::table;

/// At most 25 lines, of `width` columns (80 are enough). Ends in a newline.
pub fn digest(r: &Report, own: &[&'static dyn Reading], asked: ReadingContext<'_>, width: u16) -> String {
    let mut out = String::new();
    table::headline(&mut out, r, width);
    hangs_on(&mut out, r, width);
    in_view(View::Table, own).for_each(|reading| reading.glance(r, asked, &mut out, width));
    out
}

/// The limits of the step, and the course of its critical path by kind of op, in one line.
fn hangs_on(out: &mut String, r: &Report, width: u16) {
    table::hangs_on(out, &r.hangs_on, width);
    let step = r.run_time_s.max(f64::MIN_POSITIVE);
    let parts = path_parts(r);
    if parts.is_empty() {
        return;
    }
    let parts: Vec<_> =
        parts.iter().take(4).map(|(name, s)| format!("{name} {}", percent(s / step))).collect();
    let _ = writeln!(out, "  path: {}", parts.join(", "));
}
