//! The timeline of a run: what of it is shown, and the closures that read it.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::path::Path;

use super::Failure;
use crate::analysis::cause::Causes;
use crate::analysis::critical;
use crate::analysis::idle::IdleTimes;
use crate::analysis::stalls::{self, StallCause, stalls_of};
use crate::analysis::{link_rates, links};
use crate::compare::tracks::Above;
use crate::engine::describe;
use crate::ids::{OpId, RankId, ResourceId};
use crate::program::Work;
use crate::simulate::Simulation;
use crate::topology::Axis;
use crate::trace::{
    self, Critical, Detail, Link, LinkUse, OutputError, RunMeta, Stall, Timeline, TraceError, TracedRank,
};
use crate::units::Time;

/// What of a run its timeline shows.
pub struct Shown<'a> {
    /// The ranks.
    pub ranks: &'a [RankId],
    /// How much one slice stands for.
    pub detail: Detail,
    /// Only this stretch of time.
    pub window: Option<(Time, Time)>,
    /// So many of the busiest links.
    pub links: usize,
    /// As Kineto files in a folder.
    pub kineto: bool,
    /// Whether the run came to its end: only then it has a critical path.
    pub complete: bool,
}

/// Writes the timeline of some ranks; terms of a closed form `above` it, if there are any.
pub fn write_trace(
    run: &Simulation,
    meta: &RunMeta,
    shown: &Shown,
    path: &Path,
    above: &[(&'static str, f64)],
) -> Result<(), Failure> {
    let ranks: Vec<TracedRank> = shown
        .ranks
        .iter()
        .map(|&rank| TracedRank { rank, source: run.folded.source(rank), name: run.plan.rank_name(rank) })
        .collect();
    let world = &run.plan.world;
    let readers =
        RefCell::new((Causes::unfolded(world, &run.record, &run.folded.ranks.of), IdleTimes::new(world)));
    let stalls = |rank: RankId| {
        let (causes, idle) = &mut *readers.borrow_mut();
        stalls_shown(causes, idle, rank, &|rank| run.plan.rank_name(rank))
    };
    let critical = if shown.complete { critical_path(run) } else { Vec::new() };
    let uncontended = |rank: RankId, op: OpId| match world.program_of(rank).ops[op.index()].work {
        Work::Compute { .. } => None,
        Work::Comm { slot, transfer } => {
            Some(readers.borrow_mut().1.get(world.slots_of(rank)[usize::from(slot)], transfer))
        }
    };
    let (links, link_use) = link_tracks(run, shown.links);
    let timeline = Timeline {
        world,
        record: &run.record,
        ranks: &ranks,
        meta,
        detail: shown.detail,
        window: shown.window,
        stalls: Some(&stalls),
        critical: &critical,
        uncontended: Some(&uncontended),
        links: &links,
        link_use: &link_use,
    };
    if shown.kineto {
        return trace::write_kineto(&timeline, path).map(|_| ()).map_err(Failure::run);
    }
    write_above(&timeline, above, path)
}

/// Writes a timeline, terms of a closed form above it if there are any.
pub fn write_above(timeline: &Timeline, above: &[(&'static str, f64)], path: &Path) -> Result<(), Failure> {
    let written = if above.is_empty() {
        trace::write_file(timeline, path)
    } else {
        trace::write_with(path, &mut |sink| timeline.write(&mut Above::new(sink, above)))
    };
    match written {
        // Its reader has seen enough.
        Err(TraceError::Output(OutputError::Write { error, .. }))
            if error.kind() == ErrorKind::BrokenPipe =>
        {
            Ok(())
        }
        written => written.map(|_| ()).map_err(Failure::run),
    }
}

/// The busiest links and their use over time.
fn link_tracks(run: &Simulation, count: usize) -> (Vec<Link>, Vec<LinkUse>) {
    if count == 0 {
        return Default::default();
    }
    let world = &run.folded.world;
    let classes = &run.folded.resources;
    let meant =
        |r: ResourceId| (ResourceId(classes.representative[r.index()]), u64::from(classes.size[r.index()]));
    let mut busiest = links::alike(world, &run.record, meant);
    busiest.truncate(count);
    let chosen: Vec<ResourceId> = busiest.iter().map(|link| link.used.resource).collect();
    let link = |link: &links::Alike| {
        let name = run.inputs.machine.resource_name(link.first);
        let resource = link.used.resource;
        Link { resource, name, capacity: world.resources[resource.index()].capacity }
    };
    let changes = link_rates::rates(world, &run.record, &chosen).into_iter();
    let changes = changes.map(|c| LinkUse { time: c.time, resource: c.resource, rate: c.rate });
    (busiest.iter().map(link).collect(), changes.collect())
}

/// The stalls of a rank for its timeline; `name` calls the others by their names.
pub fn stalls_shown(
    causes: &mut Causes,
    idle: &mut IdleTimes,
    rank: RankId,
    name: &dyn Fn(RankId) -> String,
) -> Vec<Stall> {
    let mut pieces = Vec::new();
    stalls_of(causes, idle, rank, &mut pieces);
    let late = |cause| matches!(cause, StallCause::PipelineBubble | StallCause::PeerLate);
    let words = |(r, op): (RankId, OpId)| {
        let text = describe(causes.world().program_of(r), op);
        if r == rank { text } else { format!("{text} on {}", name(r)) }
    };
    let stall = |s: &stalls::Stall| Stall {
        start: s.start,
        end: s.end,
        cause: s.cause.name(),
        waited_for: s.waited_for.map(words).unwrap_or_default(),
        op: s.waited_for,
        blocker: s
            .waited_for
            .filter(|_| late(s.cause))
            .and_then(|(r, op)| causes.ready(r, op).op().map(|before| (r, before))),
        waiting: s.waiting,
    };
    pieces.iter().map(stall).collect()
}

/// The critical path of a run, on the ranks of the job: folded or not, it is the same.
fn critical_path(run: &Simulation) -> Vec<Critical> {
    let world = &run.plan.world;
    let mut causes = Causes::unfolded(world, &run.record, &run.folded.ranks.of);
    let path = critical::critical_path(&mut causes, &mut IdleTimes::new(world));
    path.links.iter().map(|l| Critical { rank: l.rank, op: l.op, start: l.start, end: l.end }).collect()
}

/// The ranks that an argument names.
pub fn traced(text: &str, run: &Simulation) -> Result<Vec<RankId>, Failure> {
    let layout = &run.plan.layout;
    let count = layout.ranks();
    match text {
        "all" => Ok((0..count).map(RankId).collect()),
        "stages" => {
            let origin =
                |r: &RankId| [Axis::Tp, Axis::Cp, Axis::Dp].iter().all(|a| layout.coordinate(*r, *a) == 0);
            Ok((0..count).map(RankId).filter(origin).collect())
        }
        _ => listed(text, count),
    }
}

/// Numbers and ranges below `count`.
pub fn listed(text: &str, count: u32) -> Result<Vec<RankId>, Failure> {
    let wrong = |what: &str| {
        Failure::input(format!(
            "--trace-ranks {text}: {what}\n  allowed: numbers and ranges from 0 to {} like `0,8,16-31`, `all`, or `stages`",
            count - 1
        ))
    };
    let mut ranks = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let number = |s: &str| s.trim().parse::<u32>().map_err(|_| wrong(&format!("`{part}` is no rank")));
        let (from, to) = (number(from)?, number(to)?);
        if from > to || to >= count {
            return Err(wrong(&format!("`{part}` is not in the run")));
        }
        ranks.extend((from..=to).map(RankId));
    }
    ranks.sort_unstable();
    ranks.dedup();
    Ok(ranks)
}
