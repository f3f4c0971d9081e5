//! The contents of a page, read from a run.

use std::collections::BTreeMap;

use crate::Simulation;
use crate::behaviour::DrawnRank;
use stepsim_core::ids::{DeviceId, RankId, TierId};
use stepsim_core::program::{NO_MICRO_BATCH, Phase, StreamKind};
use stepsim_core::units::Time;
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::critical;
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_read::analysis::kind::OpKind;
use stepsim_read::analysis::memory::{self, TierLedger};
use stepsim_read::analysis::shown::{KernelTotals, OpTotals, PageContents, TierCurve};
use stepsim_read::analysis::stalls::{StallCause, stalls_of};
use stepsim_read::page::lane::{ItemStyle, LaneItem, Looks, TimeRow, few, tag};
use stepsim_read::page::sheet::SheetPlace;
use stepsim_read::palette;
pub use stepsim_read::trace::{op_name, passes};

/// Points of a curve.
const POINTS: usize = 80;
/// Lines of the lists.
const LISTED: usize = 15;

/// Phases in the order of their numbers on a page; the number after them is two passes taken in turn.
pub const PHASES: [Phase; 6] = [
    Phase::Forward,
    Phase::Backward,
    Phase::InputGrad,
    Phase::WeightGrad,
    Phase::Recompute,
    Phase::Optimizer,
];

/// Number of two passes that are taken in turn.
pub const PAIR: u32 = PHASES.len() as u32;

/// Number of a pass among [`looks`].
pub fn pass_number(phase: Phase) -> u32 {
    PHASES.iter().position(|known| *known == phase).unwrap_or_default() as u32
}

/// Names and colours of what is drawn over time: passes by `PHASES`, [`StallCause`], [`OpKind`].
pub fn looks() -> Looks {
    let look = |name: &str, colour| ItemStyle { name: name.to_owned(), colour };
    let passes = PHASES.iter().map(|phase| look(phase.name(), palette::pass(*phase)));
    Looks {
        passes: passes.chain([look("two passes in turn", palette::PAIR)]).collect(),
        stalls: StallCause::ALL.iter().map(|cause| look(cause.name(), palette::stall(*cause))).collect(),
        communication: OpKind::ALL
            .iter()
            .map(|kind| look(kind.words(), palette::communication(*kind)))
            .collect(),
    }
}

/// Reads a run for a page; of `ranks` a few are drawn, evenly picked.
pub fn gather(run: &Simulation, ranks: &[DrawnRank]) -> PageContents {
    let drawn: Vec<DrawnRank> = few(ranks).copied().collect();
    let picked: Vec<RankId> = drawn.iter().map(|drawn| drawn.rank).collect();
    let count = picked.len();
    let world = &run.plan.world;
    let mut causes = Causes::unfolded(world, &run.record, &run.folded.ranks.of);
    let mut idle = IdleTimes::new(world);
    let step = run.record.step_end;
    let mut kernels = BTreeMap::new();
    let mut waits = TotalsByName::default();
    let rows = (0..)
        .zip(&picked)
        .map(|(row, rank)| {
            let mut pieces = Vec::new();
            stalls_of(&mut causes, &mut idle, *rank, &mut pieces);
            for piece in &pieces {
                let what = piece.waited_for.map_or_else(String::new, |(rank, op)| {
                    let program = world.program_of(rank);
                    program.infos[program.ops[op.index()].info as usize].name.to_string()
                });
                let span_ns = [piece.start, piece.end].map(Time::round_ns);
                let time = Time(piece.time().0 / count as u64);
                waits.add(what, piece.cause.name(), time, Some(SheetPlace { row, span_ns }));
            }
            let stalls = pieces.iter().map(|piece| LaneItem {
                start: piece.start.round_ns(),
                end: piece.end.round_ns(),
                kind: piece.cause as u32,
                tag: 0,
            });
            let [passes, communication] = lanes(run, *rank, &mut kernels);
            let lanes = [passes, stalls.collect(), communication];
            TimeRow::new(drawn[row].name(run), step.round_ns(), count, lanes, Some(PAIR))
        })
        .collect();
    let device = run.inputs.machine.device(DeviceId(0));
    let bandwidth = device.memory_bandwidth().0;
    PageContents {
        step_ns: step.round_ns(),
        of_ranks: world.ranks.len(),
        rows,
        memory: tiers(run, &picked),
        kernels,
        peak_flops: run.inputs.peak().0,
        memory_bandwidth: bandwidth.is_finite().then_some(bandwidth),
        critical: critical_lines(run),
        stalls: waits.longest(),
    }
}

/// Passes of a rank, and its communication; adds its kernels to the kernels of their classes.
fn lanes(
    run: &Simulation,
    rank: RankId,
    kernels: &mut BTreeMap<&'static str, KernelTotals>,
) -> [Vec<LaneItem>; 2] {
    let program = run.plan.world.program_of(rank);
    let span = |op| run.record.span(run.folded.source(rank), op);
    let (mut passed, mut communication) = (Vec::new(), Vec::new());
    for stream in &program.streams {
        if stream.kind != StreamKind::Compute {
            communication.extend(stream.ops.iter().map(|op| {
                let (start, end) = span(*op);
                let kind = OpKind::of(program, *op) as u32;
                LaneItem { start: start.round_ns(), end: end.round_ns(), kind, tag: 0 }
            }));
            continue;
        }
        for pass in passes::cut(program, &stream.ops) {
            let parts = passes::parts(program, pass);
            let kind = if parts.len() > 1 { PAIR } else { pass_number(parts[0].0) };
            let batch = |i: usize| parts.get(i).map(|part| part.1).filter(|m| *m != NO_MICRO_BATCH);
            let tag = tag(batch(0), batch(1));
            let (start, end) = (span(pass[0]).0, span(pass[pass.len() - 1]).1);
            passed.push(LaneItem { start: start.round_ns(), end: end.round_ns(), kind, tag });
        }
        for op in &stream.ops {
            let info = &program.infos[program.ops[op.index()].info as usize];
            if let Some(class) = info.class {
                let (start, end) = span(*op);
                let of_class: &mut KernelTotals = kernels.entry(class.name()).or_default();
                of_class.count += 1;
                of_class.seconds += (end - start).s();
                of_class.flops += info.flops;
                of_class.bytes += info.bytes;
            }
        }
    }
    [passed, communication]
}

/// The curves of the tiers that ranks use, each tier once.
fn tiers(run: &Simulation, picked: &[RankId]) -> Vec<TierCurve> {
    let world = &run.folded.world;
    let causes = Causes::new(world, &run.record);
    let users = memory::users(world);
    let mut shown: Vec<TierCurve> = Vec::new();
    let mut seen: Vec<TierId> = Vec::new();
    for rank in picked {
        for used in world.tiers_of(run.folded.source(*rank)) {
            if seen.contains(&used.tier) {
                continue;
            }
            seen.push(used.tier);
            let tier = &world.tiers[used.tier.index()];
            let mine = &users[used.tier.index()];
            let curve = TierLedger::replay(&causes, used.tier, mine).curve();
            if curve.peak().bytes.0 == 0 {
                continue;
            }
            let holders: u32 = mine.iter().map(|user| user.count).sum();
            let of = match holders {
                0 | 1 => run.plan.rank_name(*rank),
                n => format!("{n} ranks together, with {}", run.plan.rank_name(*rank)),
            };
            shown.push(TierCurve {
                name: format!("{} of {of}", tier.name),
                capacity_bytes: tier.capacity.0,
                points: highest(&curve.points, run.record.step_end),
            });
        }
    }
    shown
}

/// Of many points, the highest and the last of each stretch of time.
fn highest(points: &[(Time, memory::BytesByClass)], end: Time) -> Vec<(u64, memory::BytesByClass)> {
    let short = |point: &(Time, memory::BytesByClass)| (point.0.round_ns(), point.1);
    if points.len() <= 2 * POINTS {
        return points.iter().map(short).collect();
    }
    let bin = |point: &(Time, memory::BytesByClass)| {
        u128::from(point.0.0) * POINTS as u128 / u128::from(end.0.max(1))
    };
    let mut few = Vec::with_capacity(2 * POINTS);
    for of_bin in points.chunk_by(|a, b| bin(a) == bin(b)) {
        let level = |i: &usize| of_bin[*i].1.iter().sum::<u64>();
        let last = of_bin.len() - 1;
        let top = (0..=last).max_by_key(level).unwrap_or(last);
        few.push(short(&of_bin[top]));
        few.extend((top != last).then(|| short(&of_bin[last])));
    }
    few
}

/// Sums by what and kind.
#[derive(Default)]
struct TotalsByName(BTreeMap<(String, &'static str), (u64, Time, Option<SheetPlace>)>);

impl TotalsByName {
    fn add(&mut self, what: String, kind: &'static str, time: Time, place: Option<SheetPlace>) {
        let line = self.0.entry((what, kind)).or_default();
        line.0 += 1;
        line.1 += time;
        // Of several that are equally long the first.
        if place.map(SheetPlace::length) > line.2.map(SheetPlace::length) {
            line.2 = place;
        }
    }
    fn longest(self) -> Vec<OpTotals> {
        let mut lines: Vec<OpTotals> = self
            .0
            .into_iter()
            .map(|((what, kind), (count, time, place))| OpTotals {
                what,
                kind,
                count,
                seconds: time.s(),
                place,
            })
            .collect();
        lines.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        lines.truncate(LISTED);
        lines
    }
}

/// The critical path, summed by kernel or transfer.
fn critical_lines(run: &Simulation) -> Vec<OpTotals> {
    let world = &run.folded.world;
    let mut idle = IdleTimes::unfolded(&run.plan.world, &run.folded.comms.representative);
    let path = critical::critical_path(&mut Causes::new(world, &run.record), &mut idle);
    let mut lines = TotalsByName::default();
    for link in &path.links {
        let program = world.program_of(link.rank);
        let info = &program.infos[program.ops[link.op.index()].info as usize];
        let row = program.streams[usize::from(program.ops[link.op.index()].stream)].kind;
        let what = op_name(row, info);
        lines.add(what, OpKind::of(program, link.op).words(), link.end - link.start, None);
    }
    lines.longest()
}
