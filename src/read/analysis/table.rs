//! The report for people: how fast, where the time went, and what fills the memory.

use std::fmt::Write;

pub use super::cells::grouped;
use super::cells::{flop_rate, wrap};
#[cfg(feature = "tables")]
pub use super::cells::{new_table, percent, seconds};
use super::reading::Reading;
use super::registry::{View, in_view};
use super::report::Report;
use stepsim_core::units::Time;

/// The report as text of at most `width` columns (80 or more look best), with the tables of all readings and of the
/// caller's own. Ends in a newline.
pub fn table(report: &Report, own: &[&'static dyn Reading], width: u16) -> String {
    let mut out = String::new();
    headline(&mut out, report, width);
    hangs_on(&mut out, &report.hangs_on, width);
    in_view(View::Table, own).for_each(|reading| reading.table(report, &mut out, width));
    if !report.conventions.is_empty() {
        out.push('\n');
    }
    for convention in &report.conventions {
        let _ = writeln!(out, "note: {convention}");
    }
    out
}

/// The readings in full beside their tables: every bar from the peak to MFU, kernels by class, slack.
pub fn in_full(report: &Report, own: &[&'static dyn Reading], width: u16) -> String {
    let mut out = String::new();
    in_view(View::Table, own).for_each(|reading| reading.why(report, &mut out, width));
    out
}

pub(super) fn headline(out: &mut String, r: &Report, width: u16) {
    let (step, tokens) = (Time::from_s(r.step_time_s), grouped(r.tokens_per_s.round() as u64));
    let _ = writeln!(out, "{} on {} ({} devices)", r.workload, r.topology, grouped(r.devices));
    // Attention in full is a convention, by which a device can do more than it can.
    let how = match r.mfu.max(r.hfu) > 1.0 {
        true => {
            let [mfu, hfu] = [r.mfu_causal, r.hfu_causal].map(|share| 100.0 * share);
            format!(" (attention in full; causal: MFU {mfu:.1} %, HFU {hfu:.1} %)")
        }
        false => String::new(),
    };
    let (mfu, hfu) = (r.mfu * 100.0, r.hfu * 100.0);
    let _ = writeln!(out, "  step {step}   {tokens} tokens/s   MFU {mfu:.1} %   HFU {hfu:.1} %{how}");
    let (rate, unit) = flop_rate(r.model_tflops_per_device);
    let mut parts = vec![format!("{rate:.1} model {unit} per device"), format!("{} ops", grouped(r.ops))];
    if r.classes.simulated_ranks < r.classes.ranks {
        let (few, all) = (grouped(r.classes.simulated_ranks), grouped(r.classes.ranks));
        parts.push(format!("{few} ranks simulated for {all}"));
    }
    if let Some(jumped) = r.jumped {
        let (few, all) = (grouped(u64::from(jumped.micro_batches)), grouped(u64::from(jumped.of)));
        parts.push(format!("{few} of {all} micro-batches jumped"));
    }
    parts.extend(r.simulation_wall_s.map(|wall| format!("in {}", Time::from_s(wall))));
    wrap(out, parts.iter().map(String::as_str), "  ", "   ", width);
    if !r.answer.range.is_empty() {
        wrap(out, format!("range {}", r.answer.range).split(' '), "  ", " ", width);
    }
}

/// The sentence that says what the step hangs on, behind an empty line.
pub fn hangs_on(out: &mut String, sentence: &str, width: u16) {
    if sentence.is_empty() {
        return;
    }
    out.push('\n');
    wrap(out, sentence.split(' '), "", " ", width);
}
