//! A page about a run: one file of HTML that needs no network.
//!
//! Drawings are SVG that stands in the page as it is, so that it reads without a script and prints. What is drawn stands
//! in it once more as JSON, from which a script draws what one looks closer at, and which can be saved. Numbers are those
//! of the report; what the report lacks (passes over time, levels of memory, classes of kernels) is read from the run.

mod draw;
mod gather;
mod lane;

use std::fmt::Write;

use serde_json::json;

use crate::analysis::kind::OpKind;
use crate::analysis::report::Report;
use crate::analysis::stalls::StallCause;
use crate::ids::RankId;
use crate::palette;
use crate::program::MemoryClass;
use crate::simulate::Simulation;
use draw::escaped;
use gather::{Line, PHASES, Shown};

/// The page about a run. `ranks` are those that may be drawn, `report` is that of the run.
///
/// # Errors
/// If the report cannot be written as JSON.
pub fn page(run: &Simulation, ranks: &[RankId], report: &Report) -> serde_json::Result<String> {
    let shown = gather::gather(run, ranks);
    let mut out = String::with_capacity(1 << 20);
    head(&mut out, report);
    facts(&mut out, report);
    section(&mut out, "Passes over the step", &passes_note(&shown), |out| {
        out.push_str(
            "<div class=\"screen\"><button id=\"all\">whole step</button> <button id=\"in\">closer</button> \
             <button id=\"out\">wider</button> <button id=\"left\">earlier</button> <button id=\"right\">later</button> \
             <button id=\"csv\">save as CSV</button> <button id=\"json\">save the report as JSON</button></div>",
        );
        keys(out, &shown);
        out.push_str(&draw::timeline(&shown));
    });
    if let Some(drawing) = draw::waterfall(report) {
        let note = "What of the devices' peak is left as MFU, and what took the rest (with its largest parts), mean of all \
                    ranks.";
        section(&mut out, "From the peak to MFU", note, |out| out.push_str(&drawing));
    }
    section(&mut out, "Where the time went", "Kernels, then why the compute stream stood still.", |out| {
        out.push_str(&draw::breakdown(report));
    });
    lists(&mut out, &shown, report);
    if !report.communication.is_empty() {
        let note = "Green under kernels (only this is overlap), grey while the rank stood still for something else, red \
                    exposed: the rank stood still for it.";
        section(&mut out, "Communication", note, |out| out.push_str(&draw::communication(report)));
    }
    section(&mut out, "Memory", "The level of each tier by class; the dashed line is its capacity.", |out| {
        let classes = MemoryClass::ALL.iter().map(|class| (format!("m{}", *class as usize), class.name()));
        key(out, classes);
        out.push_str(&draw::memory(&shown.memory, shown.step_ns));
    });
    if !report.links.is_empty() {
        let note =
            "Bytes over what a link could have carried in the step; links that carried alike share a line.";
        section(&mut out, "Busiest links", note, |out| out.push_str(&draw::links(report)));
    }
    if let Some(drawing) = draw::roofline(&shown) {
        let note = "Classes of kernels by FLOPs per byte of device memory and by rate; the area of a circle is its time.";
        section(&mut out, "Kernels under the roof", note, |out| out.push_str(&drawing));
    }
    inputs(&mut out, report);
    foot(&mut out, &shown, report)?;
    Ok(out)
}

fn head(out: &mut String, report: &Report) {
    let title = escaped(&format!("{} on {}", report.workload, report.topology));
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"><link rel=\"icon\" href=\"data:,\"><title>{title}</title>\
         <style>\n{}",
        include_str!("style.css")
    );
    let mut colour = |class: String, rgb: &str| {
        let _ = writeln!(out, ".{class} {{ fill: {rgb} }}");
    };
    for (i, phase) in PHASES.into_iter().enumerate() {
        colour(format!("p{i}"), palette::pass(phase));
    }
    colour(format!("p{}", PHASES.len()), palette::PAIR);
    for cause in StallCause::ALL {
        colour(format!("s{}", cause as usize), palette::stall(cause));
    }
    for kind in OpKind::ALL {
        colour(format!("c{}", kind as usize), palette::communication(kind));
    }
    for class in MemoryClass::ALL {
        colour(format!("m{}", class as usize), palette::memory(class));
    }
    colour("busy".to_owned(), palette::COMPUTE);
    let _ = write!(out, "</style></head><body><h1>{title}</h1>");
}

fn facts(out: &mut String, report: &Report) {
    let peak = report.memory.get("hbm").map(|hbm| {
        let share = 100.0 * hbm.peak_bytes as f64 / hbm.capacity_bytes.max(1) as f64;
        (format!("{share:.1} %"), "of device memory at the peak")
    });
    let facts = [
        Some((draw::seconds(report.step_time_s), "a step")),
        Some((format!("{:.1} %", report.mfu * 100.0), "MFU")),
        Some((format!("{:.0}", report.tokens_per_s), "tokens per second")),
        Some((report.devices.to_string(), "devices")),
        peak,
    ];
    out.push_str("<div class=\"facts\">");
    for (value, what) in facts.into_iter().flatten() {
        let _ = write!(out, "<div><b>{}</b>{what}</div>", escaped(&value));
    }
    out.push_str("</div>");
}

fn section(out: &mut String, title: &str, note: &str, inside: impl FnOnce(&mut String)) {
    let _ = write!(out, "<section><h2>{}</h2><p>{}</p>", escaped(title), escaped(note));
    inside(out);
    out.push_str("</section>\n");
}

fn passes_note(shown: &Shown) -> String {
    format!(
        "{} of {} ranks, one line each: passes, below them why the compute stream stood still, and communication. Drag to \
         look closer, double-click for the whole step; every kernel stands in the timeline (-o step.pftrace).",
        shown.rows.len(),
        shown.of_ranks
    )
}

/// What colours of the drawing of passes mean, as far as they occur.
fn keys(out: &mut String, shown: &Shown) {
    let kinds = |lane: fn(&gather::Row) -> &Vec<u64>| {
        let mut kinds: Vec<u64> =
            shown.rows.iter().flat_map(|row| lane(row).chunks_exact(4).map(|item| item[2])).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds.into_iter().map(|kind| kind as usize)
    };
    key(out, kinds(|row| &row.passes).map(|i| (format!("p{i}"), pass_names()[i])));
    key(out, kinds(|row| &row.stalls).map(|i| (format!("s{i}"), StallCause::ALL[i].name())));
    key(out, kinds(|row| &row.communication).map(|i| (format!("c{i}"), OpKind::ALL[i].words())));
}

fn key<'n>(out: &mut String, entries: impl Iterator<Item = (String, &'n str)>) {
    out.push_str("<div class=\"key\">");
    for (class, name) in entries {
        let square = "<rect width=\"12\" height=\"12\"";
        let _ = write!(
            out,
            "<span><svg viewBox=\"0 0 12 12\">{square} class=\"{class}\"/></svg>{}</span>",
            escaped(name)
        );
    }
    out.push_str("</div>");
}

fn pass_names() -> Vec<&'static str> {
    PHASES.iter().map(|phase| phase.name()).chain(["two passes in turn"]).collect()
}

/// The critical path and the stalls, longest first.
fn lists(out: &mut String, shown: &Shown, report: &Report) {
    let table = |out: &mut String, heads: [&str; 2], lines: &[Line]| {
        let _ = write!(
            out,
            "<table><tr><th>{}</th><th>{}</th><th class=\"n\">times</th><th class=\"n\">time</th><th class=\"n\">of the \
             step</th></tr>",
            heads[0], heads[1]
        );
        for line in lines {
            let _ = write!(
                out,
                "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.1} %</td></tr>",
                escaped(&line.what),
                line.kind,
                line.count,
                draw::seconds(line.seconds),
                100.0 * line.seconds / report.run_time_s
            );
        }
        out.push_str("</table>");
    };
    let path = &report.critical_path;
    let note = format!(
        "The chain of ops that the step's length hangs on: {} ops, {} changes of rank, {} of contention, {} of waiting for \
         room in memory.",
        path.ops,
        path.rank_changes,
        draw::seconds(path.contention_s),
        draw::seconds(path.memory_s)
    );
    section(out, "Critical path", &note, |out| table(out, ["what", "kind"], &shown.critical));
    let note = "By what was waited for; mean of the ranks drawn, times are of all of them.";
    section(out, "Longest stalls", note, |out| table(out, ["waited for", "cause"], &shown.stalls));
}

/// The exact command and what went in.
fn inputs(out: &mut String, report: &Report) {
    section(out, "What was run", "The same command gives the same page.", |out| {
        let command: Vec<String> = report.run.command.iter().map(|word| quoted(word)).collect();
        let _ = write!(out, "<pre>{}</pre>", escaped(&command.join(" ")));
        let head = serde_json::to_string_pretty(&report.run).unwrap_or_default();
        let _ = write!(out, "<pre>{}</pre>", escaped(&head));
        for convention in &report.conventions {
            let _ = write!(out, "<p>{}</p>", escaped(convention));
        }
    });
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn foot(out: &mut String, shown: &Shown, report: &Report) -> serde_json::Result<()> {
    let communication: Vec<&str> = OpKind::ALL.iter().map(|kind| kind.words()).collect();
    let names = json!({
        "passes": pass_names(),
        "stalls": gather::stall_names(),
        "communication": communication,
    });
    let drawing = json!({
        "width": draw::WIDTH,
        "left": draw::LEFT,
        "row": draw::ROW,
        "lanes": draw::LANES,
        "classes": draw::CLASSES,
    });
    let data = json!({ "drawing": drawing, "names": names, "shown": shown, "report": report });
    // No text of the data may end the element that it stands in.
    let data = serde_json::to_string(&data)?.replace('<', "\\u003c");
    let _ = write!(
        out,
        "<div id=\"tip\"></div><script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{}</script></body></html>\n",
        include_str!("script.js")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{Inputs, Options};

    fn of(workload: &str) -> (String, Report) {
        let inputs = Inputs::load(workload, None, &[]).unwrap();
        let options = Options { fold: true, seed: 0, steps: 1 };
        let run = Simulation::run(&inputs, &options).unwrap();
        let mut report = run.report(false);
        report.run.command = vec!["stepsim".into(), "run".into(), "</script><b>".into()];
        let ranks: Vec<RankId> = (0..run.plan.world.ranks.len() as u32).map(RankId).collect();
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
