//! The page about a run.

use crate::core::program::MemoryClass;
use crate::core::units::grouped;
use crate::lab::simulate::Simulation;
use crate::lab::simulate::behaviour::Drawn;
use crate::read::analysis::blame::Blame;
use crate::read::analysis::report::Report;
use crate::read::palette;

use super::draw;
use super::gather::{self, Line, Shown};
use super::sheet::{Sheet, key, places, table};

/// A reading of a caller's own: what it says of a run stands on the run's page.
pub trait Reading {
    /// Writes its sections.
    fn show(&self, run: &Simulation, report: &Report, sheet: &mut Sheet);
}

/// The page about a run. `ranks` are those that may be drawn, `report` is that of the run, `accuracy` how far measured steps
/// like it lie from simulated ones, `own` are readings of the caller's own.
///
/// # Errors
/// If the report cannot be written as JSON.
pub fn page(
    run: &Simulation,
    ranks: &[Drawn],
    report: &Report,
    accuracy: &str,
    own: &[&dyn Reading],
) -> serde_json::Result<String> {
    let mut shown = gather::gather(run, ranks);
    let title = format!("{} on {}", report.workload, report.topology);
    let memory =
        MemoryClass::ALL.iter().map(|class| (format!("m{}", *class as usize), palette::memory(*class)));
    let colours: Vec<_> = memory.chain([("busy".to_owned(), palette::COMPUTE)]).collect();
    let mut sheet = Sheet::new(&title, gather::looks(), &colours);
    facts(&mut sheet, report);
    sheet.lead(&report.hangs_on);
    sheet.remark(&format!("Accuracy: {accuracy}"));
    let note = passes_note(&shown);
    sheet.timeline("Passes over the step", &note, shown.step_ns, std::mem::take(&mut shown.rows));
    if let Some(waterfall) = &report.waterfall {
        let note = "What of the devices' peak is left as MFU, and what took the rest (with its largest parts), mean of all \
                    ranks.";
        sheet.section("From the peak to MFU", note, |out| out.push_str(&draw::waterfall(&waterfall.mean)));
    }
    blame(&mut sheet, report);
    sheet.section("Where the time went", "Kernels, then why the compute stream stood still.", |out| {
        let entries = draw::breakdown_key(report);
        key(out, entries.iter().map(|(class, name)| (class.clone(), name.as_str())));
        out.push_str(&draw::breakdown(report));
    });
    lists(&mut sheet, &shown, report);
    if !report.communication.is_empty() {
        let note = "Green under kernels (only this is overlap), grey while the rank stood still for something else, red \
                    exposed: the rank stood still for it.";
        sheet.section("Communication", note, |out| out.push_str(&draw::communication(report)));
    }
    sheet.section("Memory", "The level of each tier by class; the dashed line is its capacity.", |out| {
        let classes = MemoryClass::ALL.iter().map(|class| (format!("m{}", *class as usize), class.name()));
        key(out, classes);
        out.push_str(&draw::memory(&shown.memory, shown.step_ns));
    });
    if !report.links.is_empty() {
        let note =
            "Bytes over what a link could have carried in the step; links that carried alike share a line.";
        sheet.section("Busiest links", note, |out| out.push_str(&draw::links(report)));
    }
    if let Some(drawing) = draw::roofline(&shown) {
        let note = "Classes of kernels by FLOPs per byte of device memory and by rate; the area of a circle is its time.";
        sheet.section("Kernels under the roof", note, |out| out.push_str(&drawing));
    }
    own.iter().for_each(|reading| reading.show(run, report, &mut sheet));
    sheet.command(&report.run.command, &report.run, &report.conventions);
    sheet.finish(serde_json::to_value(&shown)?, report)
}

fn facts(sheet: &mut Sheet, report: &Report) {
    let peak = report.memory.get("hbm").map(|hbm| {
        let share = 100.0 * hbm.peak_bytes as f64 / hbm.capacity_bytes.max(1) as f64;
        (format!("{share:.1} %"), "of device memory at the peak")
    });
    let facts = [
        Some((draw::seconds(report.step_time_s), "a step")),
        Some((format!("{:.1} %", report.mfu * 100.0), "MFU")),
        Some((grouped(report.tokens_per_s.round() as u64), "tokens per second")),
        Some((grouped(report.devices), "devices")),
        peak,
    ];
    sheet.facts(facts.into_iter().flatten().map(|(value, what)| (value, what.to_owned())));
}

fn passes_note(shown: &Shown) -> String {
    format!(
        "{} of {} ranks, one line each: passes, below them why the compute stream stood still, and communication. Drag, or + \
         and −, to look closer, arrow keys to move, double-click or Home for the whole step; every kernel stands in the \
         timeline (-o step.pftrace).",
        shown.rows.len(),
        grouped(shown.of_ranks as u64)
    )
}

/// What causes cost, by the step played without each.
fn blame(sheet: &mut Sheet, report: &Report) {
    if report.blame.is_empty() {
        return;
    }
    let share = |seconds: f64| format!("{:.1} %", 100.0 * seconds / report.run_time_s);
    let row = |b: &Blame| {
        let [cost, itself, others] = [b.cost_s, b.itself_s, b.others_s].map(share);
        vec![b.cause.clone(), draw::seconds(b.without_s), cost, itself, others]
    };
    let note = "The step played again without each cause: what it costs, the part that is its own, and what it makes ranks wait for \
                one another.";
    let heads = ["cause", "step without it", "cost", "itself", "others wait"];
    sheet.section("Blame", note, |out| table(out, &heads, 1, report.blame.iter().map(row)));
}

/// The critical path and the stalls, longest first.
fn lists(sheet: &mut Sheet, shown: &Shown, report: &Report) {
    let list = |out: &mut String, heads: [&str; 2], lines: &[Line]| {
        let rows = lines.iter().map(|line| {
            let share = format!("{:.1} %", 100.0 * line.seconds / report.run_time_s);
            let kind = line.kind.to_owned();
            let cells = [kind, grouped(line.count), draw::seconds(line.seconds), share];
            (line.what.clone(), line.place, cells)
        });
        let heads = [heads[0], heads[1], "times", "time", "of the step"];
        places(
            out,
            &heads,
            2,
            rows.map(|(what, place, cells)| (place, [vec![what], cells.to_vec()].concat())),
        );
    };
    let path = &report.critical_path;
    let note = format!(
        "The chain of ops that the step's length hangs on: {} ops, {} changes of rank, {} of contention, {} of waiting for \
         room in memory.",
        grouped(path.ops),
        grouped(path.rank_changes),
        draw::seconds(path.contention_s),
        draw::seconds(path.memory_s)
    );
    sheet.section("Critical path", &note, |out| list(out, ["what", "kind"], &shown.critical));
    let note = "By what was waited for; mean of the ranks drawn, times are of all of them. A press shows the longest of its \
                kind in the drawing above.";
    sheet.section("Longest stalls", note, |out| list(out, ["waited for", "cause"], &shown.stalls));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::ids::RankId;
    use crate::lab::simulate::{Inputs, Options};

    fn of(workload: &str) -> (String, Report) {
        let inputs = Inputs::load(workload, None, &[]).unwrap();
        let run = Simulation::run(&inputs, &Options::default()).unwrap();
        let mut report = run.report(false);
        report.run.command = vec!["stepsim".into(), "run".into(), "</script><b>".into()];
        let ranks = Drawn::asked((0..run.plan.world.ranks.len() as u32).map(RankId));
        (page(&run, &ranks, &report, "1 to 2 s", &[]).unwrap(), report)
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
