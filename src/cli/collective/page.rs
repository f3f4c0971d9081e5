//! The page about a collective.

use serde_json::{Value, json};

use super::transfers::TransferRun;
use super::{Args, SizeRow, drawn};
use crate::command_line::command;
use stepsim_core::units::Bytes;
use stepsim_simulate::page::sheet::{Sheet, table};

/// The page: every size in a table, and the transfers of the largest over time.
pub(super) fn page(args: &Args, row: &SizeRow, played: Option<&[TransferRun]>, rows: &[Value]) -> String {
    let (looks, lanes) = played.map_or_else(Default::default, |all| drawn::rows(all, row.time));
    let title = format!("{} on {}", args.op.name(), args.topology);
    let mut sheet = Sheet::new(&title, looks, &[]);
    let facts = [
        (Bytes(row.transfer.bytes).to_string(), "the largest size"),
        (row.choice.algorithm.name().to_owned(), "algorithm"),
        (row.time.to_string(), "time"),
        (format!("{:.1} GB/s", row.busbw()), "bus bandwidth"),
    ];
    sheet.facts(facts.map(|(value, what)| (value, what.to_owned())));
    let group = row.geometry.describe();
    if lanes.is_empty() {
        let note = "With --fidelity steps each of them stands here, up to 50,000.";
        sheet.section("Transfers", note, |_| {});
    } else {
        let note = format!("{group}: above what a device sends, below what it gets. Drag to look closer.");
        sheet.timeline("Transfers of the largest size", &note, row.time.round_ns(), lanes);
    }
    let heads =
        ["algorithm", "protocol", "chosen_by", "bytes", "time_s", "algbw_GBps", "busbw_GBps", "transfers"];
    let cells = rows.iter().map(|row| heads.iter().map(|key| cell(&row[*key])).collect());
    sheet.section("All sizes", &group, |out| table(out, &heads, 3, cells));
    sheet.command(&command(), &Value::Null, &[]);
    sheet.finish(json!({}), &rows).expect("numbers and texts are JSON")
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(n) if n.is_f64() => format!("{:.4e}", n.as_f64().unwrap_or(0.0)),
        other => other.to_string(),
    }
}
