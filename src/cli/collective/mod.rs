//! `stepsim collective`: a collective by size on any machine, as nccl-tests prints it.
//!
//! Each size is a run of its own on an otherwise idle machine. On machines without a tuning table (simple ones like
//! `switch:8,100,2`, torus, mesh) times follow theory; where the devices are known to NCCL's tuning table, protocol
//! and kernel costs are added.

mod args;
mod asked;
mod drawn;
mod page;
mod row;
mod transfers;

pub use args::{Args, DetailLevel};
pub(super) use asked::parse_op;

use std::time::Duration;

use comfy_table::{Table, presets};

use super::tables::right;
use super::write::{write_file, write_json};
use super::{Failure, say};
use asked::{devices, sizes};
use row::SizeRow;
use stepsim_fabric::collective::{Chooser, Op};
use stepsim_fabric::topology::Machine;
use stepsim_spec::{LoadedSpec, SpecError, Topology, blame_setting};

/// Who picks the algorithm: the arguments, or the machine.
fn chooser(args: &Args, topology: &LoadedSpec<Topology>, device: &str) -> Result<Chooser, SpecError> {
    let own = topology.value.collectives.as_ref();
    let mut chooser =
        Chooser::of_machine(device, own).map_err(|e| blame_setting(e, &args.set).in_file(&topology.file))?;
    chooser.always = args.algorithm.map(|algorithm| (algorithm, args.chunks));
    Ok(chooser)
}

/// Most ranks of an all-to-all: half a minute.
const MOST_IN_ALL_TO_ALL: usize = 1 << 14;

/// Runs the subcommand.
///
/// # Errors
/// The machine or an argument is at fault, or the group cannot do it (status 2); it does not run, or a file cannot be
/// written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let (topology, machine) = Machine::load(&args.topology, &args.set)?;
    let devices = devices(args.ranks.as_deref(), args.op, &machine)?;
    if args.op == Op::AllToAll && devices.len() > MOST_IN_ALL_TO_ALL {
        let problem = format!("an all-to-all of {} ranks has a message for each pair of them", devices.len());
        let hint = "give a part of the machine with --ranks";
        return Err(SpecError::at("--ranks", problem)
            .allowed(format!("at most {MOST_IN_ALL_TO_ALL} ranks"))
            .hint(hint)
            .into());
    }
    let chooser = chooser(args, &topology, &machine.device(devices[0]).name)?;
    let sizes = sizes(&args.bytes)?;
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header([
        "bytes",
        "algorithm",
        "protocol",
        "chosen by",
        "time us",
        "algbw GB/s",
        "busbw GB/s",
        "busiest link",
    ]);
    let (mut rows, mut transfers, mut reshares, mut wall) = (Vec::new(), 0, 0, Duration::ZERO);
    let mut last = None;
    for bytes in sizes {
        let row = SizeRow::play(args, &machine, &chooser, &devices, bytes)?;
        table.add_row([
            bytes.to_string(),
            row.choice.algorithm.name().into(),
            row.choice.protocol.clone(),
            row.choice.reason(),
            format!("{:.3}", row.time.us()),
            format!("{:.3}", row.algbw()),
            format!("{:.3}", row.busbw()),
            row.slowest_link(&machine),
        ]);
        rows.push(row.json());
        transfers += row.transfers;
        reshares += row.record.reshares;
        wall += row.wall;
        last = Some(row);
    }
    right(&mut table, [0, 4, 5, 6]);
    let Some(last) = last else { return Ok(()) };
    say(&format!("{} on {}: {}\n{table}\n", args.op.name(), args.topology, last.geometry.describe()))?;
    if let Some(text) = last.in_chunks() {
        say(&text)?;
    }
    if args.fidelity == DetailLevel::Steps {
        let per_s = |n: u64| n as f64 / wall.as_secs_f64().max(1e-9);
        eprintln!(
            "{transfers} transfers, {reshares} re-shares in {:.3} s: {:.0} transfers/s, {:.0} re-shares/s",
            wall.as_secs_f64(),
            per_s(transfers),
            per_s(reshares)
        );
    }
    if let Some(file) = &args.report {
        let report = serde_json::json!({
            "topology": args.topology, "op": args.op.name(), "ranks": devices.len(), "rows": rows,
        });
        write_json(file, &report)?;
    }
    if let Some(file) = &args.html {
        let played = transfers::played(&last)?;
        write_file(file, page::page(args, &last, played.as_deref(), &rows).as_bytes())?;
    }
    Ok(())
}
