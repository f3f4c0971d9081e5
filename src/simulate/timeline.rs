//! The timeline of a run: what of it is shown, and the closures that read it.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::Simulation;
use super::behaviour::DrawnRank;
use super::busiest::busiest_links;
use stepsim_core::engine::{Record, describe};
use stepsim_core::ids::{DeviceId, OpId, RankId, ResourceId, TierId};
use stepsim_core::program::{MemoryClass, Work, World};
use stepsim_core::units::Time;
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::critical;
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_read::analysis::link_rates::{self, RateChange};
use stepsim_read::analysis::links;
use stepsim_read::analysis::memory::{self, TierLedger};
use stepsim_read::analysis::sharing::LinkSharing;
use stepsim_read::analysis::stalls::{self, StallCause, WaitKind, stalls_of};
use stepsim_read::trace::{
    Capacities, Critical, Detail, EASY, FITS_IN_JSON, FITS_IN_PERFETTO, LinkCounter, Pool, RunMeta,
    StallSlice, Timeline, TimelineFormat, TracedRank,
};

/// The part of a run that its timeline shows.
pub struct TimelineSelection<'a> {
    /// The ranks.
    pub ranks: &'a [DrawnRank],
    /// How much one slice stands for; absent: as much as the viewer still opens.
    pub detail: Option<Detail>,
    /// Only this stretch of time.
    pub window: Option<(Time, Time)>,
    /// So many of the busiest links.
    pub links: usize,
    /// As files in a folder, one a rank.
    pub kineto: bool,
    /// True if the run came to its end: only then it has a critical path.
    pub complete: bool,
}

impl TimelineSelection<'_> {
    /// Whole ranks of a whole run, and no links.
    pub fn of(ranks: &[DrawnRank]) -> TimelineSelection<'_> {
        TimelineSelection { ranks, detail: None, window: None, links: 0, kineto: false, complete: true }
    }
}

/// The facts in the step's slice about the run; `written` is its date, where that is to be said.
pub fn meta(run: &Simulation, written: Option<String>, settings: &[String]) -> RunMeta {
    let mut meta = RunMeta::default();
    meta.text("stepsim", env!("CARGO_PKG_VERSION"));
    if let Some(written) = written {
        meta.text("written", written);
    }
    meta.text("workload", &run.inputs.workload.name);
    meta.text("workload hash", &run.inputs.workload.hash);
    meta.text("topology", &run.inputs.topology.name);
    meta.text("topology hash", &run.inputs.topology.hash);
    meta.text("settings", settings.join(" "));
    meta.int("seed", run.seed);
    meta
}

/// And about what came out.
pub fn results(meta: &mut RunMeta, run: &Simulation) {
    let speed = run.speed();
    meta.number("step time ms", speed.step_time_s * 1e3);
    meta.number("tokens per s", speed.tokens_per_s);
    meta.number("MFU percent", speed.mfu * 100.0);
    meta.number("HFU percent", speed.hfu * 100.0);
    meta.int("ranks", run.plan.world.ranks.len() as u64);
    meta.int("ranks simulated", run.folded.world.ranks.len() as u64);
}

/// Hands over the timeline of some ranks of a run.
pub fn of_run<T>(
    run: &Simulation,
    meta: &RunMeta,
    shown: &TimelineSelection,
    then: impl FnOnce(Timeline) -> T,
) -> T {
    let ranks: Vec<TracedRank> = shown
        .ranks
        .iter()
        .map(|drawn| TracedRank {
            rank: drawn.rank,
            source: run.folded.source(drawn.rank),
            name: drawn.name(run),
        })
        .collect();
    let world = &run.plan.world;
    // The reading that needs most memory while it is found comes first.
    let slacks = shown.complete.then(|| run.slack());
    let slack = |source: RankId, op: OpId| slacks.map_or(Time::ZERO, |slacks| slacks.get(source, op));
    let mut readers = (Causes::unfolded(world, &run.record, &run.folded.ranks.of), IdleTimes::new(world));
    let critical = if shown.complete { critical_path(&mut readers) } else { Vec::new() };
    let pools = if shown.complete { pools(&readers.0, shown.ranks) } else { Vec::new() };
    let (links, link_use) = link_tracks(run, shown.links);
    let busiest = if shown.complete { busiest_links(run, &ranks) } else { Default::default() };
    let readers = RefCell::new(readers);
    let sharing = RefCell::new(LinkSharing::default());
    // They are asked for up to five times: for the size at each detail, for the arrows between ranks, and for the rank.
    let known: RefCell<FxHashMap<RankId, Rc<[StallSlice]>>> = RefCell::default();
    let stalls = |rank: RankId| {
        if let Some(stalls) = known.borrow().get(&rank) {
            return Rc::clone(stalls);
        }
        let (causes, idle) = &mut *readers.borrow_mut();
        let mut stalls = stalls_shown(causes, idle, rank, &|rank| run.plan.rank_name(rank));
        let is_shared =
            |name: &str| StallCause::ALL.iter().any(|c| c.name() == name && c.waiting() == WaitKind::Shared);
        for stall in stalls.iter_mut().filter(|stall| is_shared(stall.cause)) {
            let most =
                stall.op.and_then(|op| sharing.borrow_mut().most(causes, op, (stall.start, stall.end)));
            stall.shared = most.map(|(link, sharers)| (run.inputs.machine.resource_name(link), sharers));
        }
        let stalls = Rc::from(stalls);
        if known.borrow().len() < KNOWN_STALLS {
            known.borrow_mut().insert(rank, Rc::clone(&stalls));
        }
        stalls
    };
    let uncontended = |rank: RankId, op: OpId| match world.program_of(rank).ops[op.index()].work {
        Work::Compute { .. } => None,
        Work::Comm { slot, transfer } => {
            Some(readers.borrow_mut().1.get(world.slots_of(rank)[usize::from(slot)], transfer))
        }
    };
    let capacities = Capacities {
        flops: run.inputs.peak(),
        memory: run.inputs.machine.device(DeviceId(0)).memory_bandwidth(),
        busiest_link: &|source| busiest.get(&source).cloned(),
    };
    then(Timeline {
        world,
        record: &run.record,
        ranks: &ranks,
        meta,
        detail: shown.detail.unwrap_or_default(),
        window: shown.window,
        stalls: Some(&stalls),
        critical: &critical,
        slack: slacks.is_some().then_some(&slack),
        uncontended: Some(&uncontended),
        links: &links,
        link_use: &link_use,
        pools: &pools,
        counts: &[],
        doing: &[],
        capacities: shown.complete.then_some(&capacities),
    })
}

/// Ranks whose stalls are kept until they are asked for again: memory must not grow with all.
const KNOWN_STALLS: usize = 64;

/// Chooses the detail of a timeline if none is `asked` for, so that a browser opens the file; returns what is to be
/// said of that.
pub fn fit(timeline: &mut Timeline, asked: Option<Detail>, format: TimelineFormat) -> Option<String> {
    let fits = match format {
        TimelineFormat::Chrome => FITS_IN_JSON,
        TimelineFormat::Perfetto => FITS_IN_PERFETTO,
    };
    // Most timelines are so small that nothing need be counted.
    if timeline.most_slices() <= EASY {
        return None;
    }
    let millions = |slices: u64| format!("{:.1} million slices", slices as f64 / 1e6);
    let first = timeline.slices();
    let mut slices = first;
    for coarser in [Detail::Layer, Detail::Phase, Detail::Pass] {
        if asked.is_some() || slices <= EASY {
            break;
        }
        timeline.detail = coarser;
        slices = timeline.slices();
    }
    let detail = timeline.detail.name();
    if slices > fits {
        return Some(format!(
            "warning: {} at --detail {detail}; a browser opens about {}: show fewer ranks (--trace-ranks) or less time \
             (--window-ms){}",
            millions(slices),
            millions(fits),
            if asked.is_some() { ", or coarser detail" } else { "" }
        ));
    }
    let left = match slices > EASY {
        true => format!(
            "; {} are left: minutes to open; fewer ranks (--trace-ranks) open at once",
            millions(slices)
        ),
        false => String::new(),
    };
    (slices < first).then(|| {
        format!(
            "detail: {detail}, because single ops would be {} and a browser shows {} with ease (--detail op \
             writes them all){left}",
            millions(first),
            millions(EASY)
        )
    })
}

/// Shared tiers that are shown.
const POOLS: usize = 16;
/// Holders of a shared tier that have a counter each.
const HOLDERS: usize = 16;

/// The tiers that shown ranks share with others.
fn pools(causes: &Causes, ranks: &[DrawnRank]) -> Vec<Pool> {
    let world = causes.world();
    let users = memory::users(world);
    let mut tiers: Vec<TierId> = Vec::new();
    for used in ranks.iter().flat_map(|drawn| world.tiers_of(drawn.rank)) {
        if users[used.tier.index()].len() > 1 && !tiers.contains(&used.tier) && tiers.len() < POOLS {
            tiers.push(used.tier);
        }
    }
    let total = |by_class: &memory::BytesByClass| by_class.iter().sum::<u64>();
    let pool = |tier: TierId| {
        let users = &users[tier.index()];
        let ledger = TierLedger::replay(causes, tier, users);
        let curve = ledger.curve();
        let peak = curve.peak();
        let mut levels =
            vec![("total".to_owned(), curve.points.iter().map(|p| (p.0, total(&p.1))).collect::<Vec<_>>())];
        for class in MemoryClass::ALL.into_iter().filter(|class| peak.by_class[*class as usize] > 0) {
            let points = curve.points.iter().map(|p| (p.0, p.1[class as usize])).collect();
            levels.push((class.name().to_owned(), points));
        }
        for user in users.iter().take(HOLDERS) {
            let points = ledger.rank_curve(user.rank).points;
            levels
                .push((format!("rank {}", user.rank.0), points.iter().map(|p| (p.0, total(&p.1))).collect()));
        }
        let of = &world.tiers[tier.index()];
        let holders: Vec<u32> = users.iter().map(|user| user.rank.0).collect();
        let name = format!("{} of {}", of.name, ranks_in_words(&holders));
        (peak.bytes.0 > 0).then_some(Pool { name, capacity: of.capacity.0, levels })
    };
    tiers.into_iter().filter_map(pool).collect()
}

/// Ranks as short as a row's name must be, which viewers cut: `ranks 0-7`, `rank 0 and 7 more`.
fn ranks_in_words(ranks: &[u32]) -> String {
    match ranks {
        [] => "no rank".to_owned(),
        [rank] => format!("rank {rank}"),
        [first, .., last] if last.checked_sub(*first).is_some_and(|n| n as usize + 1 == ranks.len()) => {
            format!("ranks {first}-{last}")
        }
        [first, rest @ ..] => format!("rank {first} and {} more", rest.len()),
    }
}

/// The busiest links and their use over time.
fn link_tracks(run: &Simulation, count: usize) -> (Vec<LinkCounter>, Vec<RateChange>) {
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
    let link = |link: &links::LinkGroup| {
        let name = run.inputs.machine.resource_name(link.first);
        let resource = link.used.resource;
        LinkCounter { resource, name, capacity: world.resources[resource.index()].capacity }
    };
    (busiest.iter().map(link).collect(), link_rates::rates(world, &run.record, &chosen))
}

/// Hands over the timeline of ranks of a world that was played whole; `name` calls them by their names.
pub fn of_whole<T>(
    (world, record): (&World, &Record),
    ranks: impl IntoIterator<Item = RankId>,
    name: &dyn Fn(RankId) -> String,
    meta: &RunMeta,
    then: impl FnOnce(Timeline) -> T,
) -> T {
    let traced = |rank| TracedRank { rank, source: rank, name: name(rank) };
    let ranks: Vec<TracedRank> = ranks.into_iter().map(traced).collect();
    let readers = RefCell::new((Causes::new(world, record), IdleTimes::new(world)));
    let stalls = |rank: RankId| {
        let (causes, idle) = &mut *readers.borrow_mut();
        stalls_shown(causes, idle, rank, name).into()
    };
    then(Timeline { stalls: Some(&stalls), ..Timeline::new(world, record, &ranks, meta) })
}

/// The stalls of a rank for its timeline; `name` calls the others by their names.
fn stalls_shown(
    causes: &mut Causes,
    idle: &mut IdleTimes,
    rank: RankId,
    name: &dyn Fn(RankId) -> String,
) -> Vec<StallSlice> {
    let mut pieces = Vec::new();
    stalls_of(causes, idle, rank, &mut pieces);
    let late = |cause: StallCause| matches!(cause.waiting(), WaitKind::Bubble | WaitKind::Late);
    let words = |(r, op): (RankId, OpId)| {
        let text = describe(causes.world().program_of(r), op);
        if r == rank { text } else { format!("{text} on {}", name(r)) }
    };
    let stall = |s: &stalls::Stall| StallSlice {
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
        shared: None,
    };
    pieces.iter().map(stall).collect()
}

/// The critical path of a run, on the ranks of the job: folded or not, it is the same.
fn critical_path((causes, idle): &mut (Causes, IdleTimes)) -> Vec<Critical> {
    let path = critical::critical_path(causes, idle);
    let ends = [Time::ZERO].into_iter().chain(path.links.iter().map(|l| l.end));
    let critical = |(l, from): (&critical::PathLink, Time)| {
        let critical::PathLink { rank, op, ready, start, end, .. } = *l;
        Critical { rank, op, from, ready, start, end }
    };
    path.links.iter().zip(ends).map(critical).collect()
}
