//! Tables of a simulated step: a row for each simulated rank, op or moment.

use std::collections::{BTreeMap, HashMap};

use stepsim::cli::Failure;
use stepsim::core::engine::describe;
use stepsim::core::ids::{OpId, RankId, ResourceId, TierId};
use stepsim::core::program::{MemoryClass, NO_MICRO_BATCH, Op, OpInfo, Program, Work};
use stepsim::core::units::{PS_PER_S, Time};
use stepsim::read::analysis::cause::Causes;
use stepsim::read::analysis::idle::IdleTimes;
use stepsim::read::analysis::kind::OpKind;
use stepsim::read::analysis::memory::{TierLedger, users};
use stepsim::read::analysis::stalls::Stall;
use stepsim::read::analysis::{links as used, stalls as stood};
use stepsim::simulate::Simulation;
use stepsim::spec::SpecError;

use crate::table::Columns;

/// An op of a simulated rank.
struct Played<'a> {
    rank: RankId,
    id: OpId,
    program: &'a Program,
    op: &'a Op,
    span: (Time, Time),
}

impl Played<'_> {
    fn stream(&self) -> &'static str {
        self.program.streams[usize::from(self.op.stream)].kind.name()
    }
    fn info(&self) -> &OpInfo {
        &self.program.infos[self.op.info as usize]
    }
    fn time(&self) -> Time {
        self.span.1 - self.span.0
    }
}

fn seconds(time: Time) -> f64 {
    time.0 as f64 / PS_PER_S
}

/// The rank of the job that a simulated one is shown as.
fn number(run: &Simulation, rank: RankId) -> u64 {
    u64::from(run.folded.representative(rank).0)
}

fn all_ranks(run: &Simulation) -> Vec<RankId> {
    (0..run.folded.world.ranks().len() as u32).map(RankId).collect()
}

fn ops(run: &Simulation, rank: RankId) -> impl Iterator<Item = Played<'_>> {
    let program = run.folded.world.program_of(rank);
    let played = move |(i, op)| {
        let id = OpId(i as u32);
        Played { rank, id, program, op, span: run.record.span(rank, id) }
    };
    program.ops.iter().enumerate().map(played)
}

/// Simulated ranks, or those that stand for `asked`.
///
/// # Errors
/// A rank is not in the run.
pub fn shown(run: &Simulation, asked: Option<Vec<u32>>) -> Result<Vec<RankId>, Failure> {
    let Some(asked) = asked else { return Ok(all_ranks(run)) };
    let count = run.plan.layout.ranks();
    if let Some(wrong) = asked.iter().find(|rank| **rank >= count) {
        let problem = SpecError::file("ranks", format!("{wrong} is not in the run"));
        return Err(problem.value(wrong.to_string()).allowed(format!("0 to {}", count - 1)).into());
    }
    let mut ranks: Vec<RankId> = asked.into_iter().map(|rank| run.folded.source(RankId(rank))).collect();
    ranks.sort_unstable();
    ranks.dedup();
    Ok(ranks)
}

/// Simulated ranks: where their time went.
pub fn ranks(run: &Simulation) -> Columns {
    let mut causes = Causes::new(&run.folded.world, &run.record);
    let mut idle = IdleTimes::unfolded(&run.plan.world, &run.folded.comms.representative);
    let ranks = all_ranks(run);
    let mut pieces = Vec::new();
    let mut time_of = |rank: &RankId| {
        pieces.clear();
        stood::stalls_of(&mut causes, &mut idle, *rank, &mut pieces)
    };
    let times: Vec<_> = ranks.iter().map(&mut time_of).collect();
    let shown = |rank: &RankId| run.folded.representative(*rank);
    Columns::default()
        .whole("rank", ranks.iter().map(|rank| number(run, *rank)))
        .text("name", ranks.iter().map(|rank| run.plan.rank_name(shown(rank))))
        .whole("stage", ranks.iter().map(|rank| u64::from(run.plan.stage(shown(rank)))))
        .whole("count", ranks.iter().map(|rank| u64::from(run.folded.size(*rank))))
        .number("busy_s", times.iter().map(|time| seconds(time.busy)))
        .number("stalled_s", times.iter().map(|time| seconds(time.total() - time.busy)))
}

fn all_stalls(run: &Simulation) -> Vec<Stall> {
    let mut causes = Causes::new(&run.folded.world, &run.record);
    let mut idle = IdleTimes::unfolded(&run.plan.world, &run.folded.comms.representative);
    stood::stalls(&mut causes, &mut idle).0
}

/// Every moment in which a compute stream stood still.
pub fn stalls(run: &Simulation) -> Columns {
    let all = all_stalls(run);
    let words = |(rank, op): (RankId, OpId)| describe(run.folded.world.program_of(rank), op);
    Columns::default()
        .whole("rank", all.iter().map(|stall| number(run, stall.rank)))
        .number("start_s", all.iter().map(|stall| seconds(stall.start)))
        .number("time_s", all.iter().map(|stall| seconds(stall.time())))
        .text("cause", all.iter().map(|stall| stall.cause.name()))
        .text("waited_for", all.iter().map(|stall| stall.waited_for.map(words).unwrap_or_default()))
}

/// Ops summed by name, phase and stream.
pub fn kernels(run: &Simulation) -> Columns {
    /// Count, time, FLOPs, bytes.
    type Sum = (u64, Time, f64, f64);
    let mut sums: BTreeMap<(RankId, &str, &str, &str), Sum> = BTreeMap::new();
    for rank in all_ranks(run) {
        for op in ops(run, rank) {
            let info = &op.program.infos[op.op.info as usize];
            let sum = sums.entry((rank, op.stream(), info.phase.name(), &info.name)).or_default();
            *sum = (sum.0 + 1, sum.1 + op.time(), sum.2 + info.flops, sum.3 + info.bytes);
        }
    }
    Columns::default()
        .whole("rank", sums.keys().map(|key| number(run, key.0)))
        .text("stream", sums.keys().map(|key| key.1))
        .text("phase", sums.keys().map(|key| key.2))
        .text("name", sums.keys().map(|key| key.3))
        .whole("count", sums.values().map(|sum| sum.0))
        .number("time_s", sums.values().map(|sum| seconds(sum.1)))
        .number("flops", sums.values().map(|sum| sum.2))
        .number("bytes", sums.values().map(|sum| sum.3))
}

/// Among whom an op communicates, and over what.
#[derive(Clone, Default)]
struct Party {
    /// The ranks of its group: `0-7`, `0-56:8` for every eighth.
    group: String,
    /// The other rank of two.
    peer: Option<u32>,
    /// The link that bounds it.
    link: String,
}

/// What stood still before a kernel: the cause of the longest piece, and all of the time.
type Held = HashMap<(RankId, OpId), (Time, &'static str, Time)>;

fn held(run: &Simulation) -> Held {
    let mut held = Held::new();
    for stall in all_stalls(run) {
        let Some(op) = stall.waiting else { continue };
        let (longest, cause, whole) = held.entry((stall.rank, op)).or_default();
        if stall.time() > *longest {
            (*longest, *cause) = (stall.time(), stall.cause.name());
        }
        *whole += stall.time();
    }
    held
}

/// Every op of some ranks: when it ran, with whom, and what held it up.
pub fn slices(run: &Simulation, ranks: &[RankId]) -> Columns {
    let all: Vec<Played> = ranks.iter().flat_map(|rank| ops(run, *rank)).collect();
    let mut known: HashMap<(RankId, u16), Party> = HashMap::new();
    let mut party = |op: &Played| match op.op.work {
        Work::Compute { .. } => Party::default(),
        Work::Comm { slot, .. } => {
            known.entry((op.rank, slot)).or_insert_with(|| party_of(run, op.rank, slot)).clone()
        }
    };
    let parties: Vec<Party> = all.iter().map(&mut party).collect();
    let held = held(run);
    let stood = |op: &Played| held.get(&(op.rank, op.id)).copied().unwrap_or_default();
    let micro_batch = |op: &Played| Some(op.op.micro_batch).filter(|m| *m != NO_MICRO_BATCH);
    Columns::default()
        .whole("rank", all.iter().map(|op| number(run, op.rank)))
        .text("stream", all.iter().map(Played::stream))
        .text("name", all.iter().map(|op| &op.info().name))
        .text("kind", all.iter().map(|op| OpKind::of(op.program, op.id).name()))
        .text("phase", all.iter().map(|op| op.info().phase.name()))
        .small("layer", all.iter().map(|op| op.info().layer))
        .small("micro_batch", all.iter().map(micro_batch))
        .whole("start_ps", all.iter().map(|op| op.span.0.0))
        .whole("end_ps", all.iter().map(|op| op.span.1.0))
        .number("flops", all.iter().map(|op| op.info().flops))
        .number("bytes", all.iter().map(|op| op.info().bytes))
        .text("group", parties.iter().map(|party| &party.group))
        .small("peer", parties.iter().map(|party| party.peer))
        .text("link", parties.iter().map(|party| &party.link))
        .text("cause", all.iter().map(|op| stood(op).1))
        .number("waited_s", all.iter().map(|op| seconds(stood(op).2)))
}

fn party_of(run: &Simulation, rank: RankId, slot: u16) -> Party {
    let world = &run.plan.world;
    let rank = run.folded.representative(rank);
    let comm = world.slots_of(rank)[usize::from(slot)];
    let members = world.members_of(comm);
    let peer = match members {
        [a, b] => Some(if *a == rank { b.0 } else { a.0 }),
        _ => None,
    };
    let paths = 0..world.comms()[comm.index()].paths.len;
    let slowness = |&(resource, times): &(ResourceId, u32)| {
        f64::from(times) / world.resources()[resource.index()].capacity.gbps()
    };
    let uses = paths.flat_map(|path| world.path(comm, path));
    let narrowest = uses.max_by(|a, b| slowness(a).total_cmp(&slowness(b)));
    let link = narrowest.map(|(resource, _)| run.inputs.machine.resource_name(*resource)).unwrap_or_default();
    Party { group: in_words(members), peer, link }
}

/// Ranks in short: `0-7`, with a stride `0-56:8`, else one by one.
fn in_words(ranks: &[RankId]) -> String {
    let (Some(first), Some(last)) = (ranks.first(), ranks.last()) else { return String::new() };
    let stride = ranks.get(1).map_or(1, |second| second.0.wrapping_sub(first.0));
    let even = ranks.windows(2).all(|pair| pair[1].0.wrapping_sub(pair[0].0) == stride);
    match ranks.len() {
        1 => first.0.to_string(),
        _ if even && stride == 1 => format!("{}-{}", first.0, last.0),
        3.. if even && last > first => format!("{}-{}:{stride}", first.0, last.0),
        _ => ranks.iter().map(|rank| rank.0.to_string()).collect::<Vec<_>>().join(","),
    }
}

/// How full the tiers were over time.
pub fn memory(run: &Simulation) -> Columns {
    let world = &run.folded.world;
    let causes = Causes::new(world, &run.record);
    let mut points = Vec::new();
    for (tier, users) in users(world).into_iter().enumerate() {
        let curve = TierLedger::replay(&causes, TierId(tier as u32), &users).curve();
        let of = users.first().map_or(0, |user| number(run, user.rank));
        points.extend(curve.points.into_iter().map(|point| (tier, of, point)));
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
    columns
}

/// What went through links, ports and tier bandwidths, busiest first.
pub fn links(run: &Simulation) -> Columns {
    let (world, classes) = (&run.folded.world, &run.folded.resources);
    let used = used::alike(world, &run.record, |r: ResourceId| {
        (ResourceId(classes.representative[r.index()]), u64::from(classes.size[r.index()]))
    });
    let capacity = |link: &used::LinkGroup| world.resources()[link.used.resource.index()].capacity.gbps();
    Columns::default()
        .text("name", used.iter().map(|link| run.inputs.machine.resource_name(link.first)))
        .whole("count", used.iter().map(|link| link.count))
        .number("bytes", used.iter().map(|link| link.used.bytes))
        .number("capacity_GBps", used.iter().map(capacity))
        .number("utilisation", used.iter().map(|link| link.used.utilisation))
}
