//! The page about a run.

use crate::Simulation;
use crate::behaviour::DrawnRank;
use stepsim_core::program::MemoryClass;
use stepsim_core::units::grouped;
use stepsim_read::analysis::cost::joules_in_words;
use stepsim_read::analysis::registry::{View, in_view};
use stepsim_read::analysis::report::Report;
use stepsim_read::analysis::shown::PageContents;
use stepsim_read::page::sheet::{Sheet, seconds};
use stepsim_read::palette;

use super::gather;
use crate::map;

/// Most rows of a map that stand in a page.
const MAPPED: usize = 1024;

/// The page about a run. `ranks` may be drawn, `report` is the run's. Each reading has its section, the caller's own
/// the last.
///
/// # Errors
/// If the report cannot be written as JSON.
pub fn page(run: &Simulation, ranks: &[DrawnRank], report: &Report) -> serde_json::Result<String> {
    let mut shown = gather::gather(run, ranks);
    let title = format!("{} on {}", report.workload, report.topology);
    let memory =
        MemoryClass::ALL.iter().map(|class| (format!("m{}", *class as usize), palette::memory(*class)));
    let colours: Vec<_> = memory.chain([("busy".to_owned(), palette::COMPUTE)]).collect();
    let mut sheet = Sheet::new(&title, gather::looks(), &colours);
    facts(&mut sheet, report);
    sheet.lead(&report.hangs_on);
    if !report.answer.range.is_empty() {
        sheet.remark(&format!("Range: {}", report.answer.range));
    }
    let note = passes_note(&shown);
    let drawn = shown.rows.len();
    sheet.timeline("Passes over the step", &note, shown.step_ns, std::mem::take(&mut shown.rows));
    if drawn > 1
        && let Some(map) = map::section(run, MAPPED)
    {
        let note = "Each behaviour is a row: by pass what its ranks do, by cause what they wait for; -o step.svg \
                    draws it alone.";
        sheet.section("All ranks over the step", note, |out| out.push_str(&map));
    }
    let readings = in_view(View::Page, &run.inputs.readings);
    readings.for_each(|reading| reading.page(report, &shown, &mut sheet));
    sheet.command(&report.run.command, &report.run, &report.conventions);
    sheet.finish(stepsim_located::to_value(&shown)?, report)
}

fn facts(sheet: &mut Sheet, report: &Report) {
    let peak = report.memory.get("hbm").map(|hbm| {
        let share = 100.0 * hbm.peak_bytes as f64 / hbm.capacity_bytes.max(1) as f64;
        (format!("{share:.1} %"), "of device memory at the peak")
    });
    let joules = report.cost.as_ref().and_then(|cost| cost.joules_per_token);
    let facts = [
        Some((seconds(report.step_time_s), "a step")),
        Some((format!("{:.1} %", report.mfu * 100.0), "MFU")),
        Some((grouped(report.tokens_per_s.round() as u64), "tokens per second")),
        Some((grouped(report.devices), "devices")),
        peak,
        joules.map(|joules| (joules_in_words(1e6 * joules), "a million tokens")),
    ];
    sheet.facts(facts.into_iter().flatten().map(|(value, what)| (value, what.to_owned())));
}

fn passes_note(shown: &PageContents) -> String {
    format!(
        "{} of {} ranks, one line each: passes, below them why the compute stream stood still, and \
         communication. Drag, or + and −, to look closer, arrow keys to move, double-click or Home for the \
         whole step; every kernel stands in the timeline (-o step.pftrace).",
        shown.rows.len(),
        grouped(shown.of_ranks as u64)
    )
}
