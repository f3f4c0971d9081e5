//! All schedules side by side.

use std::io::Write;

use comfy_table::Table;
use comfy_table::presets::NOTHING;

use super::args::unusable;
use super::{Args, ScheduleRun, outcome};
use crate::Failure;
use crate::tables::right;
use crate::write::write_report;
use stepsim_schedule as schedule;
use stepsim_schedule::{Order, PassTimes};

/// Forward passes of a schedule, where all are played.
const MOST_PASSES: u64 = 1 << 16;

/// The table of all schedules; an order of one's own stands before those for its numbers.
pub(super) fn all(
    args: &Args,
    times: &PassTimes,
    own: Option<Order>,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let args = &own.as_ref().map_or_else(|| args.clone(), |order| args.as_of(order));
    let passes = u64::from(args.stages.unwrap_or(0)) * u64::from(args.micro_batches.unwrap_or(0));
    if passes > MOST_PASSES {
        let allowed = format!("at most {MOST_PASSES} with --all; one schedule of that size: --kind NAME");
        return Err(unusable("--stages × --micro-batches =", passes as f64, &allowed));
    }
    let mut table = Table::new();
    table.load_preset(NOTHING);
    table.set_header([
        "schedule", "chunks", "makespan", "own", "idle", "idle %", "peak", "shares", "messages", "",
    ]);
    let mut reports = Vec::new();
    if let Some(order) = own {
        let run = ScheduleRun::new(args, times, None, order)?;
        table.add_row(row("yours", "the order of --order", &run));
        reports.push(run.report());
    }
    for &kind in schedule::ALL {
        let shape = args.shape(kind, false);
        let played = match kind.order_for(&shape, &args.profile(&shape, times)) {
            Ok(order) => {
                args.check_length(&order)?;
                ScheduleRun::new(args, times, Some((kind, shape)), order)
            }
            Err(error) => Err(error.into()),
        };
        let run = match played {
            Ok(run) => run,
            Err(failure) => {
                let text = failure.to_string();
                let why = text.lines().next().unwrap_or_default().trim_start_matches("schedule ");
                let why = why.trim_start_matches(kind.name()).trim_start_matches(": ");
                table.add_row([kind.name(), "", "", "", "", "", "", "", "", why]);
                reports.push(serde_json::json!({ "schedule": kind.name(), "error": text }));
                continue;
            }
        };
        table.add_row(row(kind.name(), kind.facts().about, &run));
        reports.push(run.report());
    }
    right(&mut table, 1..9);
    for line in table.lines() {
        writeln!(out, "{}", line.trim())?;
    }
    writeln!(
        out,
        "own, idle: bubble between a rank's first start and last end, and within the makespan; worst rank"
    )?;
    writeln!(out, "peak: live micro-batch chunks, least and most of any rank")?;
    writeln!(
        out,
        "shares: the most of them, in activations of a rank's whole share of layers for one micro-batch"
    )?;
    writeln!(out, "messages: between ranks in one step, all of the same size")?;
    write_report(args.report.as_deref(), &serde_json::Value::Array(reports))?;
    Ok(())
}

/// A schedule's line of the table.
fn row(name: &str, about: &str, run: &ScheduleRun) -> [String; 10] {
    let o = &run.outcome;
    let number = |t| run.number(t).to_string();
    [
        name.to_owned(),
        run.order.placement.chunks(0).to_string(),
        number(o.makespan),
        number(o.own_max()),
        number(o.idle_max()),
        format!("{:.1}", 100.0 * o.idle_max().s() / o.makespan.s()),
        outcome::peak_range(&o.peak),
        outcome::peak_shares(&o.peak, run.order.placement.parts()),
        outcome::messages(&run.order).to_string(),
        about.to_owned(),
    ]
}
