//! A schedule on measured times of its parts.

use std::io::Write;
use std::path::Path;

use super::Args;
use crate::write::write_report;
use crate::{Failure, inputs, tables};
use stepsim_measure::profile::pipeline_timeline;
use stepsim_plan::pipeline::durations::Durations;
use stepsim_schedule as schedule;
use stepsim_schedule::Shape;
use stepsim_simulate::durations::{Replays, replay};
use stepsim_spec::SpecError;

/// Replays the steps of a file and says what evening out each class of work, stage and replica brings.
pub(super) fn run(args: &Args, file: &Path, out: &mut Vec<u8>) -> Result<(), Failure> {
    let durations = read(file)?;
    let named = args.kind.as_deref().unwrap_or_default();
    let kind = schedule::find(named)?;
    let shape = Shape {
        ranks: durations.stages,
        micro_batches: durations.micro_batches,
        chunks: args.chunks,
        group: args.group,
    };
    let in_file = |e: SpecError| e.in_file(&file.display().to_string());
    let chunks = u32::from(shape.chunks_under(kind));
    durations.check(durations.stages.saturating_mul(chunks)).map_err(in_file)?;
    let order = kind.order(&shape)?;
    let replays = replay(&order, &durations, args.what_if)?;
    write_report(args.report.as_deref(), &replays)?;
    writeln!(
        out,
        "{named}: {} replicas of {} ranks, {} micro-batches; {} steps of {}",
        durations.replicas,
        durations.stages,
        durations.micro_batches,
        durations.steps.len(),
        file.display()
    )?;
    table(&replays, out)
}

/// A file of durations, or the timeline of a job.
fn read(path: &Path) -> Result<Durations, SpecError> {
    let file = path.display().to_string();
    let bytes = inputs::bytes(path)?;
    if bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[') {
        return pipeline_timeline(bytes.as_slice(), &file);
    }
    Durations::from_json(&String::from_utf8_lossy(&bytes), &file)
}

fn table(replays: &Replays, out: &mut Vec<u8>) -> Result<(), Failure> {
    let number = |x: f64| format!("{x:.4}");
    let off = |a: f64, b: f64| format!("{:+.2} %", 100.0 * (a / b.max(f64::MIN_POSITIVE) - 1.0));
    let mut rows = Vec::new();
    for step in &replays.steps {
        let measured = step.measured;
        rows.push(vec![
            step.name.clone(),
            measured.map_or(String::new(), number),
            number(step.replayed),
            measured.map_or(String::new(), |m| off(step.replayed, m)),
            number(step.without_delays),
        ]);
    }
    show(["step", "measured", "replayed", "off by", "without delays"].as_slice(), rows, out)?;
    writeln!(
        out,
        "even step (each part at its mean, communication at its median): {:.4}; slowdown {:.4}",
        replays.even, replays.slowdown
    )?;
    if !replays.what_ifs.is_empty() {
        writeln!(out)?;
        let mut what_ifs: Vec<_> = replays.what_ifs.iter().collect();
        what_ifs.sort_by(|a, b| b.slowdown.total_cmp(&a.slowdown));
        let rows =
            what_ifs.iter().map(|w| vec![w.what.clone(), number(w.slowdown), number(w.cost)]).collect();
        show(["what is uneven", "slowdown by it alone", "gain if it were even"].as_slice(), rows, out)?;
    }
    Ok(())
}

fn show(head: &[&str], rows: Vec<Vec<String>>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let mut table = tables::table(head);
    table.add_rows(rows);
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
