//! `stepsim collective`: a collective by size on any machine, as nccl-tests prints it.
//!
//! Each size is a run of its own on an otherwise idle machine. On machines without a tuning table (simple ones like
//! `switch:8,100,2`, torus, mesh) times are those of theory; where the devices are known to NCCL's tuning table, protocol
//! and kernel costs are added.

mod asked;
mod drawn;
mod page;
pub(super) mod timeline;
mod transfers;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table, presets};

use super::outputs::WRITTEN;
use super::run::{write_file, write_json};
use super::{Failure, say};
use crate::analysis::links;
use crate::collective::{
    Algorithm, Choice, Chooser, CollectiveError, Fidelity, Geometry, Lowering, Op, Sent, Transfer,
};
use crate::engine::{self, EngineError, Record};
use crate::ids::{DeviceId, ProgramId, RankId, ResourceId, TransferId};
use crate::program::{OpInfo, Phase, ProgramBuilder, StreamKind, Work, World};
use crate::spec::{Loaded, SpecError, Topology, blame_setting};
use crate::topology::Machine;
use crate::trace::{RunMeta, write_with};
use crate::units::{Bytes, Time};
pub(super) use asked::parse_op;
use asked::{devices, parse_algorithm, sizes};

/// Times a collective by size on a machine: algorithm, protocol, algorithm and bus bandwidth, slowest link.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The machine: a name, a file, or a simple one: switch:N,GBps,us ring:… line:… mesh:… torus:AxBxC,GBps,us
    /// nodes:K*G,GBps_in,us_in,GBps_out,us_out
    #[arg(long, short = 't', value_name = "TOPOLOGY")]
    pub topology: String,
    /// Changes a value of the machine file: path=value; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// all-reduce, all-gather, reduce-scatter, all-to-all, broadcast, reduce, send-recv or ring-shift
    #[arg(long, value_parser = parse_op)]
    pub op: Op,
    /// Sizes: 8:16Gi:x2 (from, to, factor), 1Mi:8Mi:+1Mi, or a list; the buffer of one rank, for all-gather and
    /// reduce-scatter the full one
    #[arg(long, default_value = "8:16Gi:x2", value_name = "SIZES")]
    pub bytes: String,
    /// The algorithm instead of the machine's choice
    #[arg(long, value_parser = parse_algorithm)]
    pub algorithm: Option<&'static dyn Algorithm>,
    /// Pipeline chunks of that algorithm instead of the best number
    #[arg(long, requires = "algorithm", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub chunks: Option<u32>,
    /// The devices, in order: 0-63 or 0,2,4-7 [default: all; of send-recv the first two]
    #[arg(long, value_name = "LIST")]
    pub ranks: Option<String>,
    /// How finely it is played out
    #[arg(long, value_enum, default_value_t = Level::Fluid)]
    pub fidelity: Level,
    /// Costs as theory has them also where a tuning table knows more
    #[arg(long)]
    pub theory: bool,
    /// Writes the rows as JSON
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    pub report: Option<PathBuf>,
    /// Writes a timeline of the largest size (.json, .pftrace, each also with .gz): with --fidelity steps every transfer by
    /// device and by link, else the use of the busiest links
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    pub trace: Option<PathBuf>,
    /// Writes a page: all sizes, and with --fidelity steps the transfers of the largest over time (.html)
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    pub html: Option<PathBuf>,
}

/// How finely collectives are played out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Level {
    /// The closed form; no link is used.
    Formula,
    /// One activity for each phase over all its links.
    Fluid,
    /// Every transfer is a flow.
    Steps,
}

/// Most transfers of one run in steps: about 4 GB.
const MOST_TRANSFERS: u64 = 40_000_000;

/// Who picks the algorithm: the arguments, or the machine.
fn chooser(args: &Args, topology: &Loaded<Topology>, device: &str) -> Result<Chooser, SpecError> {
    let own = topology.value.collectives.as_ref();
    let mut chooser = if args.theory {
        Chooser::best()
    } else {
        Chooser::of_machine(device, own).map_err(|e| blame_setting(e, &args.set).in_file(&topology.file))?
    };
    chooser.always = args.algorithm.map(|algorithm| (algorithm, args.chunks));
    Ok(chooser)
}

/// One size, played out.
struct Row {
    transfer: Transfer,
    geometry: Geometry,
    choice: Choice,
    transfers: u64,
    time: Time,
    world: World,
    record: Record,
    /// Phases of the algorithm by number, with their transfers.
    phases: Vec<(u32, u64)>,
    /// What each path of the communicator is, in steps.
    sent: Vec<Option<Sent>>,
    wall: Duration,
}

impl Row {
    fn play(
        args: &Args,
        machine: &Machine,
        chooser: &Chooser,
        devices: &[DeviceId],
        bytes: u64,
    ) -> Result<Row, Failure> {
        let begin = Instant::now();
        let transfer = Transfer::new(args.op, bytes);
        let fidelity = match args.fidelity {
            Level::Formula => Fidelity::Formula,
            Level::Fluid => Fidelity::Fluid,
            Level::Steps => Fidelity::Steps,
        };
        let mut lowering = Lowering::new(machine, fidelity, chooser.clone());
        let (geometry, choice) = lowering.explain(&transfer, devices)?;
        let phases = choice.algorithm.phases(&transfer, &geometry, choice.chunks);
        let phases: Vec<(u32, u64)> = (1..).zip(phases.iter().map(|p| p.transfers(&geometry))).collect();
        let transfers = phases.iter().map(|p| p.1).sum();
        if fidelity == Fidelity::Steps && transfers > MOST_TRANSFERS {
            return Err(Failure::input(format!(
                "{} on {} ranks in steps is {transfers} transfers, more than {MOST_TRANSFERS}; use --fidelity fluid, or fewer \
                 --ranks or --chunks",
                choice.algorithm.name(),
                geometry.size
            )));
        }
        let world = world(machine, &mut lowering, devices, transfer)?;
        let record = engine::run(&world).map_err(stopped)?;
        let time = record.step_end;
        let wall = begin.elapsed();
        let sent = match fidelity {
            Fidelity::Steps => lowering.sent(world.comms[0].profile, TransferId(0), devices)?,
            _ => Vec::new(),
        };
        Ok(Row { transfer, geometry, choice, transfers, time, world, record, phases, sent, wall })
    }

    /// `S/t` in 10⁹ B/s.
    fn algbw(&self) -> f64 {
        if self.time == Time::ZERO { 0.0 } else { self.transfer.bytes as f64 / self.time.s() / 1e9 }
    }
    fn busbw(&self) -> f64 {
        self.algbw() * self.transfer.op.bus_factor(self.geometry.size)
    }
    /// The name of the busiest link and the share of the time that it works.
    fn slowest_link(&self, machine: &Machine) -> String {
        match links::busiest(&self.world, &self.record).first() {
            Some(link) => {
                format!("{} {:.0} %", machine.resource_name(link.resource), link.utilisation * 100.0)
            }
            None => "-".into(),
        }
    }
    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "bytes": self.transfer.bytes, "algorithm": self.choice.algorithm.name(),
            "protocol": self.choice.protocol, "chosen_by": self.choice.reason(), "chunks": self.choice.chunks, "sms": self.choice.sms,
            "time_s": self.time.s(), "algbw_GBps": self.algbw(), "busbw_GBps": self.busbw(),
            "transfers": self.transfers,
        })
    }
}

/// A world in which all ranks do one transfer.
fn world(
    machine: &Machine,
    lowering: &mut Lowering<'_>,
    devices: &[DeviceId],
    transfer: Transfer,
) -> Result<World, CollectiveError> {
    let mut world = World::default();
    for r in 0..machine.resources() {
        world.add_resource(machine.capacity(ResourceId(r)));
    }
    let id = lowering.transfer(transfer);
    let mut program = ProgramBuilder::new();
    let info = program.info(OpInfo {
        name: transfer.op.name().into(),
        phase: Phase::Forward,
        layer: None,
        class: None,
        flops: 0.0,
        bytes: transfer.bytes as f64,
    });
    let stream = program.stream(StreamKind::Data);
    program.op(stream, Work::Comm { slot: 0, transfer: id }, &[], info, crate::program::NO_MICRO_BATCH);
    world.programs.push(Arc::new(program.finish()));
    let ranks: Vec<RankId> = devices.iter().map(|_| world.add_rank(ProgramId(0), 1)).collect();
    let comm = lowering.comm(&mut world, &ranks, devices, &[id])?;
    ranks.iter().for_each(|&r| world.bind(r, 0, comm));
    Ok(world)
}

/// Runs the subcommand.
///
/// # Errors
/// The machine or an argument is at fault, or the group cannot do it (status 2); it does not run, or a file cannot be
/// written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let (topology, machine) = Machine::load(&args.topology, &args.set)?;
    let devices = devices(args, &machine)?;
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
        let row = Row::play(args, &machine, &chooser, &devices, bytes)?;
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
    for column in [0, 4, 5, 6] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let Some(last) = last else { return Ok(()) };
    say(&format!("{} on {}: {}\n{table}\n", args.op.name(), args.topology, last.geometry.describe()))?;
    if args.fidelity == Level::Steps {
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
    let drawn = args.trace.is_some() || args.html.is_some();
    let played = if drawn { transfers::played(&last)? } else { None };
    if let Some(file) = &args.trace {
        let meta = meta(args, &last);
        match &played {
            Some(all) => {
                write_with(file, &mut |sink| drawn::timeline(&machine, all, &meta, &last, sink))?;
            }
            None => timeline::write(&last.world, &last.record, &machine, &devices, &meta, file)?,
        }
    }
    if let Some(file) = &args.html {
        write_file(file, page::page(args, &last, played.as_deref(), &rows).as_bytes())?;
    }
    Ok(())
}

/// What the timeline says of the run.
fn meta(args: &Args, row: &Row) -> RunMeta {
    let mut meta = RunMeta::default();
    meta.text("topology", &*args.topology);
    meta.text("op", args.op.name());
    meta.text("algorithm", row.choice.algorithm.name());
    meta.text("size", Bytes(row.transfer.bytes).to_string());
    meta.number("busbw_GBps", row.busbw());
    meta
}

/// Why a collective came to no end.
fn stopped(error: EngineError) -> Failure {
    Failure::run(format!("the collective does not run: {error}"))
}
