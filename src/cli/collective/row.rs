//! One size, played out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::Failure;
use super::super::screen::note_cost;
use super::args::{Args, DetailLevel};
use stepsim_core::engine;
use stepsim_core::engine::{EngineError, Record};
use stepsim_core::fold::fold;
use stepsim_core::ids::{DeviceId, OpId, ProgramId, RankId, TransferId};
use stepsim_core::program::{OpInfo, Phase, ProgramBuilder, StreamKind, Work, World};
use stepsim_core::units::{Bytes, Time};
use stepsim_fabric::collective::{
    AlgorithmChoice, Chooser, CollectiveError, Fidelity, Geometry, Lowering, RouteEnds, Transfer, in_chunks,
};
use stepsim_fabric::topology::Machine;
use stepsim_read::analysis::links;

/// Most transfers of one run in steps: about 4 GB.
pub(super) const MOST_TRANSFERS: u64 = 40_000_000;
/// What a transfer that shares links costs on a core of 2024, measured: 6,144 take 0.26 s and 40 MB.
const TRANSFER_S: f64 = 40e-6;
const TRANSFER_BYTES: f64 = 6500.0;

/// More transfers than this are not drawn one by one: streams have 16-bit numbers, and no screen shows them.
pub(super) const MOST_DRAWN: usize = 30_000;

/// One size, played out.
pub(super) struct SizeRow {
    pub(super) transfer: Transfer,
    pub(super) geometry: Geometry,
    pub(super) choice: AlgorithmChoice,
    pub(super) transfers: u64,
    pub(super) time: Time,
    pub(super) world: World,
    pub(super) record: Record,
    /// The transfer of each path of the communicator, in steps that can be drawn one by one.
    pub(super) sent: Vec<Option<RouteEnds>>,
    pub(super) wall: Duration,
}

impl SizeRow {
    pub(super) fn play(
        args: &Args,
        machine: &Machine,
        chooser: &Chooser,
        devices: &[DeviceId],
        bytes: u64,
    ) -> Result<SizeRow, Failure> {
        let begin = Instant::now();
        let transfer = Transfer::new(args.op, bytes);
        let fidelity = match args.fidelity {
            DetailLevel::Formula => Fidelity::Formula,
            DetailLevel::Fluid => Fidelity::Fluid,
            DetailLevel::Steps => Fidelity::Steps,
        };
        let mut lowering = Lowering::new(machine, fidelity, chooser.clone());
        let (geometry, choice) = lowering.explain(&transfer, devices)?;
        let phases = choice.algorithm.phases(&transfer, &geometry, choice.chunks);
        let transfers = phases.iter().map(|p| p.transfers(&geometry)).sum();
        if fidelity == Fidelity::Steps && transfers > MOST_TRANSFERS {
            return Err(Failure::input(format!(
                "{} on {} ranks in steps is {transfers} transfers, more than {MOST_TRANSFERS}; use --fidelity \
                 fluid, or fewer --ranks or --chunks",
                choice.algorithm.name(),
                geometry.size
            )));
        }
        if fidelity == Fidelity::Steps {
            let transfers = transfers as f64;
            note_cost(&format!("{transfers} transfers"), transfers * TRANSFER_S, transfers * TRANSFER_BYTES);
        }
        let world = world(machine, &mut lowering, devices, transfer)?;
        let record = played(&world)?;
        let time = record.step_end;
        let wall = begin.elapsed();
        let sent = match fidelity {
            Fidelity::Steps if transfers <= MOST_DRAWN as u64 => {
                lowering.sent(world.comms[0].profile, TransferId(0), devices)?
            }
            _ => Vec::new(),
        };
        Ok(SizeRow { transfer, geometry, choice, transfers, time, world, record, sent, wall })
    }

    /// `S/t` in 10⁹ B/s.
    pub(super) fn algbw(&self) -> f64 {
        if self.time == Time::ZERO { 0.0 } else { self.transfer.bytes as f64 / self.time.s() / 1e9 }
    }
    pub(super) fn busbw(&self) -> f64 {
        self.algbw() * self.transfer.op.bus_factor(self.geometry.size)
    }
    /// The name of the busiest link and the share of the time that it works.
    pub(super) fn slowest_link(&self, machine: &Machine) -> String {
        match links::busiest(&self.world, &self.record).first() {
            Some(link) => {
                format!("{} {:.0} %", machine.resource_name(link.resource), link.utilisation * 100.0)
            }
            None => "-".into(),
        }
    }
    /// The time of an all-reduce over sites in chunks whose stages overlap: the best of up to 64, by its law.
    fn best_chunks(&self) -> Option<(u32, f64)> {
        if self.choice.algorithm.name() != "three-level" {
            return None;
        }
        let times = (0..7).map(|i| 1 << i).map(|c| Some((c, in_chunks(&self.transfer, &self.geometry, c)?)));
        times.flatten().min_by(|a, b| a.1.total_cmp(&b.1)).filter(|(chunks, _)| *chunks > 1)
    }
    pub(super) fn in_chunks(&self) -> Option<String> {
        let (chunks, s) = self.best_chunks()?;
        let bytes = Bytes(self.transfer.bytes);
        Some(format!(
            "by law {} in {chunks} chunks whose stages overlap ({bytes}); not played\n",
            Time::from_s(s)
        ))
    }
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "bytes": self.transfer.bytes, "algorithm": self.choice.algorithm.name(),
            "protocol": self.choice.protocol, "chosen_by": self.choice.reason(),
            "chunks": self.choice.chunks, "sms": self.choice.sms,
            "time_s": self.time.s(), "algbw_GBps": self.algbw(), "busbw_GBps": self.busbw(),
            "transfers": self.transfers,
        })
    }
}

/// The spans on every rank. Ranks and transfers that behave alike are played once.
fn played(world: &World) -> Result<Record, Failure> {
    let folded = fold(world);
    let record = engine::run(&folded.world).map_err(stopped)?;
    let mut all = Record { step_end: record.step_end, reshares: record.reshares, ..Record::for_world(world) };
    for (rank, span) in (0..).map(RankId).zip(&mut all.spans) {
        *span = record.span(folded.source(rank), OpId(0));
    }
    Ok(all)
}

/// A world in which all ranks do one transfer.
pub(super) fn world(
    machine: &Machine,
    lowering: &mut Lowering<'_>,
    devices: &[DeviceId],
    transfer: Transfer,
) -> Result<World, CollectiveError> {
    let mut world = machine.world();
    let id = lowering.transfer(transfer);
    let mut program = ProgramBuilder::new();
    let info = program.info(OpInfo::of(transfer.op.name(), Phase::Forward, transfer.bytes as f64));
    let stream = program.stream(StreamKind::Data);
    program.op(
        stream,
        Work::Comm { slot: 0, transfer: id },
        &[],
        info,
        stepsim_core::program::NO_MICRO_BATCH,
    );
    world.programs.push(Arc::new(program.finish()));
    let ranks: Vec<RankId> = devices.iter().map(|_| world.add_rank(ProgramId(0), 1)).collect();
    let comm = lowering.comm(&mut world, &ranks, devices, &[id])?;
    ranks.iter().for_each(|&r| world.bind(r, 0, comm));
    Ok(world)
}

/// Why a collective came to no end.
pub(super) fn stopped(error: EngineError) -> Failure {
    Failure::run(format!("the collective does not run: {error}"))
}
