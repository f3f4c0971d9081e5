//! The page about a schedule.

use super::{ScheduleRun, outcome};
use crate::command_line::command;
use stepsim_core::ids::RankId;
use stepsim_core::units::Time;
use stepsim_plan::pipeline::phase;
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_read::analysis::stalls::stalls_of;
use stepsim_schedule::Slot;
use stepsim_simulate::page::lane::{LaneItem, TimeRow, few, tag};
use stepsim_simulate::page::sheet::{Sheet, table};
use stepsim_simulate::page::{PAIR, pass_number, step_looks};

/// The page: passes of each rank, why it stood still, and the bubbles in numbers.
pub(super) fn page(run: &ScheduleRun) -> String {
    let o = &run.outcome;
    let mut sheet = Sheet::new(&run.headline(), step_looks(), &[]);
    let share = |t: Time| {
        format!("{} ({:.1} %)", run.number(t), 100.0 * t.s() / o.makespan.s().max(f64::MIN_POSITIVE))
    };
    let facts = [
        (run.number(o.makespan).to_string(), "makespan"),
        (share(o.own_max()), "bubble between first start and last end, worst rank"),
        (share(o.idle_max()), "idle, worst rank"),
        (outcome::peak_range(&o.peak), "live micro-batch chunks at the peak"),
        (outcome::messages(&run.order).to_string(), "messages"),
    ];
    sheet.facts(facts.map(|(value, what)| (value, what.to_owned())));
    let ranks: Vec<usize> = (0..o.spans.len()).collect();
    let rows: Vec<TimeRow> = few(&ranks).map(|rank| row(run, *rank, ranks.len())).collect();
    let note = format!(
        "{} of {} ranks, one line each: passes with their micro-batch, below them why the rank stood still. A \
         second is a unit of time.",
        rows.len(),
        ranks.len()
    );
    sheet.timeline("Passes over the step", &note, o.makespan.round_ns(), rows);
    let report = run.report();
    let cells = report["ranks"].as_array().into_iter().flatten().map(|rank| {
        ["rank", "start", "end", "busy", "own", "idle", "peak"].map(|key| rank[key].to_string()).to_vec()
    });
    sheet.section("Ranks", "Own: idle between its first start and its last end.", |out| {
        table(out, &["rank", "start", "end", "busy", "own", "idle", "live at the peak"], 0, cells);
    });
    sheet.command(&command(), &serde_json::Value::Null, &[]);
    sheet.finish(serde_json::json!({}), &report).expect("numbers and texts are JSON")
}

fn row(run: &ScheduleRun, rank: usize, of: usize) -> TimeRow {
    let ns = |(start, end): (Time, Time), kind: u32, tag: u32| LaneItem {
        start: start.round_ns(),
        end: end.round_ns(),
        kind,
        tag,
    };
    let slots = run.order.ranks[rank].iter().zip(&run.outcome.spans[rank]);
    let passes = slots.map(|(slot, span)| match slot {
        Slot::Single(part) => ns(*span, pass_number(phase(part.pass)), tag(Some(part.micro_batch), None)),
        Slot::Overlapped { forward, backward } => {
            ns(*span, PAIR, tag(Some(forward.micro_batch), Some(backward.micro_batch)))
        }
    });
    let (mut causes, mut idle) = (Causes::new(&run.step.world, &run.record), IdleTimes::new(&run.step.world));
    let mut stalls = Vec::new();
    stalls_of(&mut causes, &mut idle, RankId(rank as u32), &mut stalls);
    let stalls = stalls.iter().map(|stall| ns((stall.start, stall.end), stall.cause as u32, 0)).collect();
    TimeRow::new(
        format!("rank {rank}"),
        run.outcome.makespan.round_ns(),
        of,
        [passes.collect(), stalls, Vec::new()],
        Some(PAIR),
    )
}
