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
    if !report.accuracy.is_empty() {
        sheet.remark(&format!("Accuracy: {}", report.accuracy));
    }
    let note = passes_note(&shown);
    sheet.timeline("Passes over the step", &note, shown.step_ns, std::mem::take(&mut shown.rows));
    let readings = in_view(View::Page, &run.inputs.readings);
    readings.for_each(|reading| reading.page(report, &shown, &mut sheet));
    sheet.command(&report.run.command, &report.run, &report.conventions);
    sheet.finish(serde_json::to_value(&shown)?, report)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Inputs, Options};
    use stepsim_core::ids::RankId;

    fn of(workload: &str) -> (String, Report) {
        let inputs = Inputs::load(workload, None, &[]).unwrap();
        let run = Simulation::run(&inputs, &Options::default()).unwrap();
        let mut report = run.report(false);
        report.run.command = vec!["stepsim".into(), "run".into(), "</script><b>".into()];
        let ranks = DrawnRank::asked((0..run.plan.world.ranks.len() as u32).map(RankId));
        (page(&run, &ranks, &report).unwrap(), report)
    }

    #[test]
    fn a_page_stands_alone_and_says_what_the_report_says() {
        let (page, report) = of("tiny-4");
        for outside in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert_eq!(page.matches("</script>").count(), 2, "nothing ends a script early");
        assert!(page.contains(&format!("{:.1} %</b>MFU", report.mfu * 100.0)));
        let busy = 100.0 * report.mean.busy_s / report.run_time_s;
        assert!(page.contains(&format!("kernels {busy:.1} %")), "colours have names");
        let data = page.split("id=\"data\">").nth(1).and_then(|rest| rest.split("</script>").next()).unwrap();
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["report"]["step_time_s"], json!(report.step_time_s));
        let rows = data["shown"]["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 4);
        // Six micro-batches, forward and backward.
        assert_eq!(rows[0]["passes"].as_array().unwrap().len(), 12 * 4);
        let stalled: u64 =
            rows[3]["stalls"].as_array().unwrap().chunks(4).map(|s| s[1].as_u64().unwrap()).sum();
        let said: f64 = report.ranks[3].time.stalls_s.values().sum();
        assert!((stalled as f64 * 1e-9 - said).abs() < 1e-7, "{stalled} ns, {said} s");
    }
}
