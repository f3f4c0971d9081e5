//! The page about jobs on one machine.

use serde_json::Value;

use super::job::{TimedJob, slowed};
use crate::command_line::command;
use stepsim_core::units::grouped;
use stepsim_simulate::page::lane::Looks;
use stepsim_simulate::page::sheet::{Sheet, bars, pairs, seconds, table};

/// Each job alone and together, and the links that they share.
///
/// # Errors
/// If the result cannot be written as JSON.
pub(super) fn page(
    machine: &str,
    jobs: &[TimedJob<'_>],
    links: &[(String, f64)],
    report: &Value,
) -> serde_json::Result<String> {
    let colours = [("a".to_owned(), "#8f8f8f"), ("b".to_owned(), "#0072b2")];
    let mut sheet = Sheet::new(&format!("{} jobs on {machine}", jobs.len()), Looks::default(), &colours);
    let facts = jobs
        .iter()
        .map(|(name, job)| (format!("{:+.2} %", 100.0 * slowed(job)), format!("a step of {name}")));
    sheet.facts(facts);
    let worst = jobs.iter().max_by(|a, b| slowed(a.1).total_cmp(&slowed(b.1)));
    if let Some((name, job)) = worst {
        sheet.lead(&format!("{name} loses most: {:.2} % a step", 100.0 * slowed(job)));
    }
    let lines = jobs.iter().map(|(name, job)| {
        let both = [job.alone.s(), job.together.s()];
        (*name, both, both.map(seconds))
    });
    let lines: Vec<_> = lines.collect();
    sheet.section("Alone and together", "Grey a step alone, blue beside the other jobs.", |out| {
        out.push_str(&pairs(&lines));
        let rows = jobs.iter().map(|(name, job)| {
            let counts = [grouped(job.ranks.len() as u64), grouped(job.steps.into())];
            let times =
                [seconds(job.alone.s()), seconds(job.together.s()), format!("{:.2} %", 100.0 * slowed(job))];
            [name.to_string()].into_iter().chain(counts).chain(times).collect()
        });
        table(out, &["job", "devices", "steps", "alone", "together", "slower by"], 1, rows);
    });
    shared_links(&mut sheet, links);
    sheet.command(
        &command(),
        &Value::Null,
        &["All jobs begin at the same moment; nothing is drawn.".to_owned()],
    );
    sheet.finish(serde_json::json!({}), report)
}

fn shared_links(sheet: &mut Sheet, links: &[(String, f64)]) {
    let note = match links {
        [] => "The jobs share no link.",
        _ => {
            "The busiest that flows of more than one job cross, and the part of the time that they are used."
        }
    };
    let lines: Vec<_> = links
        .iter()
        .map(|(name, used)| {
            let text = format!("{:.1} %", 100.0 * used);
            (name.clone(), vec![("b".to_owned(), *used, text.clone())], text)
        })
        .collect();
    sheet.section("Shared links", note, |out| {
        if !lines.is_empty() {
            out.push_str(&bars("links", "shared links", 1.0, &lines));
        }
    });
}
