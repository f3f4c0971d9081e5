//! One simulated step, and its tables.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use stepsim::core::engine::describe;
use stepsim::core::ids::{OpId, RankId, ResourceId, TierId};
use stepsim::core::program::{MemoryClass, NO_MICRO_BATCH, Op, Program};
use stepsim::core::units::{PS_PER_S, Time};
use stepsim::lab::simulate::{Fault, Inputs, Options, Simulation};
use stepsim::read::analysis::cause::Causes;
use stepsim::read::analysis::idle::IdleTimes;
use stepsim::read::analysis::memory::{Ledger, users};
use stepsim::read::analysis::{links, stalls};
use stepsim::step::topology::Axis;

use crate::error::{json, raised};
use crate::table::{Columns, Table};

/// A simulated step. Its tables have a row for each simulated rank; `count` says how many ranks that one stands for.
#[pyclass(frozen, module = "stepsim._native")]
pub struct Run(Simulation);

/// Simulates a step.
#[pyfunction]
pub fn run(
    py: Python<'_>,
    workload: &str,
    topology: Option<&str>,
    sets: Vec<String>,
    seed: u64,
    steps: u32,
    fold: bool,
) -> PyResult<Run> {
    let simulated = py.detach(|| -> Result<Simulation, Fault> {
        let inputs = Inputs::load(workload, topology, &sets).map_err(|e| Fault::from(&e))?;
        Simulation::run(&inputs, &Options { fold, seed, steps, ..Options::default() })
            .map_err(|e| Fault::from(&e))
    });
    simulated.map(Run).map_err(raised)
}

/// An op of a simulated rank, as tables see it.
struct Seen<'a> {
    rank: RankId,
    program: &'a Program,
    op: &'a Op,
    span: (Time, Time),
}

impl Seen<'_> {
    fn stream(&self) -> &'static str {
        self.program.streams[usize::from(self.op.stream)].kind.name()
    }
    fn info(&self) -> &stepsim::core::program::OpInfo {
        &self.program.infos[self.op.info as usize]
    }
    fn time(&self) -> Time {
        self.span.1 - self.span.0
    }
}

impl Run {
    /// Simulated ranks, or those that stand for `asked`.
    fn shown(&self, asked: Option<Vec<u32>>) -> PyResult<Vec<RankId>> {
        let run = &self.0;
        let Some(asked) = asked else {
            return Ok((0..run.folded.world.ranks().len() as u32).map(RankId).collect());
        };
        let count = run.plan.layout.ranks();
        if let Some(wrong) = asked.iter().find(|rank| **rank >= count) {
            let problem = stepsim::step::spec::SpecError::file("ranks", format!("{wrong} is not in the run"))
                .value(wrong.to_string())
                .allowed(format!("0 to {}", count - 1));
            return Err(raised((&problem).into()));
        }
        let mut ranks: Vec<RankId> = asked.into_iter().map(|rank| run.folded.source(RankId(rank))).collect();
        ranks.sort_unstable();
        ranks.dedup();
        Ok(ranks)
    }
    fn ops(&self, rank: RankId) -> impl Iterator<Item = Seen<'_>> {
        let program = self.0.folded.world.program_of(rank);
        let seen = move |(i, op)| Seen { rank, program, op, span: self.0.record.span(rank, OpId(i as u32)) };
        program.ops.iter().enumerate().map(seen)
    }
    /// The rank of the job that a simulated one is shown as.
    fn number(&self, rank: RankId) -> u64 {
        u64::from(self.0.folded.representative(rank).0)
    }
}

fn seconds(time: Time) -> f64 {
    time.0 as f64 / PS_PER_S
}

#[pymethods]
impl Run {
    /// The report as JSON.
    fn report(&self, py: Python<'_>, wall: bool) -> String {
        py.detach(|| json(&self.0.report(wall)))
    }
    /// A page about the run: HTML that needs no network.
    fn html(&self, py: Python<'_>) -> String {
        py.detach(|| {
            let run = &self.0;
            let first = |rank: &RankId| {
                [Axis::Tp, Axis::Cp, Axis::Dp]
                    .iter()
                    .all(|axis| run.plan.layout.coordinate(*rank, *axis) == 0)
            };
            let ranks: Vec<RankId> = (0..run.plan.layout.ranks()).map(RankId).filter(first).collect();
            stepsim::lab::page::page(run, &ranks, &run.report(false)).unwrap_or_default()
        })
    }
    /// Seconds of the step.
    #[getter]
    fn step_time_s(&self) -> f64 {
        self.0.record.step_end.s()
    }
    /// Ranks: where their time went.
    fn ranks(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| {
            let run = &self.0;
            let world = &run.folded.world;
            let mut causes = Causes::new(world, &run.record);
            let mut idle = IdleTimes::unfolded(&run.plan.world, &run.folded.comms.representative);
            let ranks: Vec<RankId> = (0..world.ranks().len() as u32).map(RankId).collect();
            let mut pieces = Vec::new();
            let times: Vec<_> = ranks
                .iter()
                .map(|rank| {
                    pieces.clear();
                    stalls::stalls_of(&mut causes, &mut idle, *rank, &mut pieces)
                })
                .collect();
            let shown = |rank: &RankId| run.folded.representative(*rank);
            Columns::default()
                .whole("rank", ranks.iter().map(|rank| self.number(*rank)))
                .text("name", ranks.iter().map(|rank| run.plan.rank_name(shown(rank))))
                .whole("stage", ranks.iter().map(|rank| u64::from(run.plan.stage(shown(rank)))))
                .whole("count", ranks.iter().map(|rank| u64::from(run.folded.size(*rank))))
                .number("busy_s", times.iter().map(|time| seconds(time.busy)))
                .number("stalled_s", times.iter().map(|time| seconds(time.total() - time.busy)))
                .table()
        })
    }
    /// Every moment in which a compute stream stood still.
    fn stalls(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| {
            let run = &self.0;
            let world = &run.folded.world;
            let mut causes = Causes::new(world, &run.record);
            let mut idle = IdleTimes::unfolded(&run.plan.world, &run.folded.comms.representative);
            let all = stalls::stalls(&mut causes, &mut idle).0;
            let words = |(rank, op): (RankId, OpId)| describe(world.program_of(rank), op);
            Columns::default()
                .whole("rank", all.iter().map(|stall| self.number(stall.rank)))
                .number("start_s", all.iter().map(|stall| seconds(stall.start)))
                .number("time_s", all.iter().map(|stall| seconds(stall.time())))
                .text("cause", all.iter().map(|stall| stall.cause.name()))
                .text("waited_for", all.iter().map(|stall| stall.waited_for.map(words).unwrap_or_default()))
                .table()
        })
    }
    /// Ops summed by name, phase and stream.
    fn kernels(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| {
            /// Count, time, FLOPs, bytes.
            type Sum = (u64, Time, f64, f64);
            let mut sums: BTreeMap<(RankId, &str, &str, &str), Sum> = BTreeMap::new();
            for rank in self.shown(None)? {
                for seen in self.ops(rank) {
                    let info = seen.info();
                    let stream = seen.program.streams[usize::from(seen.op.stream)].kind.name();
                    let named = &seen.program.infos[seen.op.info as usize].name;
                    let sum = sums.entry((rank, stream, info.phase.name(), named)).or_default();
                    *sum = (sum.0 + 1, sum.1 + seen.time(), sum.2 + info.flops, sum.3 + info.bytes);
                }
            }
            Columns::default()
                .whole("rank", sums.keys().map(|key| self.number(key.0)))
                .text("stream", sums.keys().map(|key| key.1))
                .text("phase", sums.keys().map(|key| key.2))
                .text("name", sums.keys().map(|key| key.3))
                .whole("count", sums.values().map(|sum| sum.0))
                .number("time_s", sums.values().map(|sum| seconds(sum.1)))
                .number("flops", sums.values().map(|sum| sum.2))
                .number("bytes", sums.values().map(|sum| sum.3))
                .table()
        })
    }
    /// Every op of some ranks: when it ran.
    fn slices(&self, py: Python<'_>, ranks: Option<Vec<u32>>) -> PyResult<Table> {
        let ranks = self.shown(ranks)?;
        py.detach(|| {
            let all: Vec<Seen> = ranks.iter().flat_map(|rank| self.ops(*rank)).collect();
            let micro_batch = |seen: &Seen| Some(seen.op.micro_batch).filter(|m| *m != NO_MICRO_BATCH);
            Columns::default()
                .whole("rank", all.iter().map(|seen| self.number(seen.rank)))
                .text("stream", all.iter().map(Seen::stream))
                .text("name", all.iter().map(|seen| &seen.info().name))
                .text("phase", all.iter().map(|seen| seen.info().phase.name()))
                .small("layer", all.iter().map(|seen| seen.info().layer))
                .small("micro_batch", all.iter().map(micro_batch))
                .whole("start_ps", all.iter().map(|seen| seen.span.0.0))
                .whole("end_ps", all.iter().map(|seen| seen.span.1.0))
                .number("flops", all.iter().map(|seen| seen.info().flops))
                .number("bytes", all.iter().map(|seen| seen.info().bytes))
                .table()
        })
    }
    /// How full the tiers were over time.
    fn memory(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| {
            let world = &self.0.folded.world;
            let causes = Causes::new(world, &self.0.record);
            let mut points = Vec::new();
            for (number, users) in users(world).into_iter().enumerate() {
                let curve = Ledger::replay(&causes, TierId(number as u32), &users).curve();
                let of = users.first().map_or(0, |user| self.number(user.rank));
                points.extend(curve.points.into_iter().map(|point| (number, of, point)));
            }
            let mut columns = Columns::default()
                .text("tier", points.iter().map(|point| &world.tiers()[point.0].name))
                .whole("rank", points.iter().map(|point| point.1))
                .number("time_s", points.iter().map(|point| seconds(point.2.0)));
            for class in MemoryClass::ALL {
                let name = match class {
                    MemoryClass::Weights => "weights_bytes",
                    MemoryClass::Gradients => "gradients_bytes",
                    MemoryClass::Optimizer => "optimizer_bytes",
                    MemoryClass::Activations => "activations_bytes",
                    MemoryClass::Workspace => "workspace_bytes",
                };
                columns = columns.whole(name, points.iter().map(|point| point.2.1[class as usize]));
            }
            columns.table()
        })
    }
    /// What went through links, ports and tier bandwidths, busiest first.
    fn links(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| {
            let run = &self.0;
            let (world, classes) = (&run.folded.world, &run.folded.resources);
            let used = links::alike(world, &run.record, |r: ResourceId| {
                (ResourceId(classes.representative[r.index()]), u64::from(classes.size[r.index()]))
            });
            let capacity =
                |link: &links::Alike| world.resources()[link.used.resource.index()].capacity.gbps();
            Columns::default()
                .text("name", used.iter().map(|link| run.inputs.machine.resource_name(link.first)))
                .whole("count", used.iter().map(|link| link.count))
                .number("bytes", used.iter().map(|link| link.used.bytes))
                .number("capacity_GBps", used.iter().map(capacity))
                .number("utilisation", used.iter().map(|link| link.used.utilisation))
                .table()
        })
    }
}
