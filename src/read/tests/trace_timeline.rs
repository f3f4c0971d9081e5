use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use proptest::prelude::*;
use serde_json::Value as Json;
use stepsim_core::engine::run;
use stepsim_core::ids::{RankId, ResourceId};
use stepsim_core::program::{OpInfo, ProgramBuilder, StreamKind, Work, World};
use stepsim_core::units::{Bandwidth, FlopRate, Time};
use stepsim_read::analysis::link_rates::RateChange;
use stepsim_read::trace::timeline::names;
use stepsim_read::trace::timeline::rows::{Pairs, RankRows};
use stepsim_read::trace::timeline::shown::{
    Capacities, Critical, Detail, LinkCounter, RunMeta, StallSlice, Timeline, TimelineSummary, TracedRank,
};
use stepsim_read::trace::writer::{Chrome, Perfetto};

use crate::sample::SampleShape;
use crate::{random_world, sample};

const TINY: SampleShape = SampleShape { stages: 2, layers: 1, micro_batches: 2 };

fn written(timeline: &Timeline) -> (String, TimelineSummary) {
    let mut bytes = Vec::new();
    let summary = timeline.write(&mut Chrome::new(&mut bytes)).unwrap();
    (String::from_utf8(bytes).unwrap(), summary)
}

/// A thread.
type ThreadKey = u64;
/// Start, end, name (of a transfer, with its micro-batch), category.
type SliceTuple = (u64, u64, String, String);
/// Row and time.
type SliceCorner = (ThreadKey, u64);

/// A trace as read back from its JSON; times in nanoseconds.
#[derive(Default)]
struct Trace {
    /// By row, in order of time.
    slices: BTreeMap<ThreadKey, Vec<SliceTuple>>,
    /// By arrow: its tail and its head.
    arrows: BTreeMap<u64, [Option<SliceCorner>; 2]>,
    /// By series: times and values.
    counters: BTreeMap<String, Vec<(u64, f64)>>,
    threads: BTreeMap<ThreadKey, String>,
}

impl Trace {
    /// The slices of the row of a name.
    fn row(&self, name: &str) -> &[SliceTuple] {
        &self.slices[self.threads.iter().find(|thread| thread.1 == name).unwrap().0]
    }
    /// The rank of a row, whose name begins with it.
    fn rank_of(&self, thread: ThreadKey) -> Option<u64> {
        self.threads[&thread].split(' ').next()?.parse().ok()
    }
}

fn ns(us: &Json) -> u64 {
    (us.as_f64().unwrap() * 1e3).round() as u64
}

fn read(text: &str) -> Trace {
    let json: Json = serde_json::from_str(text).unwrap();
    let mut trace = Trace::default();
    for event in json["traceEvents"].as_array().unwrap() {
        assert_eq!(event["pid"], 1, "one process opens expanded");
        let thread = || event["tid"].as_u64().unwrap();
        let name = || event["name"].as_str().unwrap().to_owned();
        match event["ph"].as_str().unwrap() {
            "X" => {
                let start = ns(&event["ts"]);
                let category = event["cat"].as_str().unwrap().to_owned();
                let name = match event["args"]["micro_batch"].as_u64() {
                    Some(m) if category.starts_with("pp") => format!("{} m{m}", name()),
                    _ => name(),
                };
                let slice = (start, start + ns(&event["dur"]), name, category);
                trace.slices.entry(thread()).or_default().push(slice);
            }
            end @ ("s" | "f") => {
                let slot = &mut trace.arrows.entry(event["id"].as_u64().unwrap()).or_default()
                    [usize::from(end == "f")];
                assert!(
                    slot.replace((thread(), ns(&event["ts"]))).is_none(),
                    "an arrow has two ends of one kind"
                );
            }
            "C" => {
                for (series, value) in event["args"].as_object().unwrap() {
                    let points = trace.counters.entry(format!("{} {series}", name())).or_default();
                    points.push((ns(&event["ts"]), value.as_f64().unwrap()));
                }
            }
            "M" if name() == "thread_name" => {
                trace.threads.insert(thread(), event["args"]["name"].as_str().unwrap().to_owned());
            }
            "M" => {}
            other => panic!("unexpected kind of event {other}"),
        }
    }
    trace
}

/// The demands of viewers on any trace.
fn check(trace: &Trace, summary: &TimelineSummary) {
    assert!(trace.threads.keys().all(|tid| *tid > 1), "a row is no main thread of the process");
    for (thread, slices) in &trace.slices {
        assert!(trace.threads.contains_key(thread));
        assert!(slices.iter().all(|slice| slice.0 < slice.1), "an empty slice");
        let (mut open, mut last) = (Vec::new(), 0);
        for slice in slices {
            open.retain(|end| *end > slice.0);
            let nests = last <= slice.0 && open.iter().all(|end| slice.1 <= *end);
            assert!(nests, "slices overlap on {thread:?}: {slices:?}");
            open.push(slice.1);
            last = slice.0;
        }
    }
    for (id, ends) in &trace.arrows {
        let [Some(tail), Some(head)] = ends else { panic!("arrow {id} has one end") };
        let begins = [tail, head].map(|(thread, at)| {
            let inside = |slice: &&(u64, u64, String, String)| (slice.0..slice.1).contains(at);
            let slice = trace.slices[thread].iter().filter(inside).map(|slice| slice.0).max();
            slice.unwrap_or_else(|| panic!("arrow {id} has an end outside of all slices"))
        });
        assert!(tail.1 < head.1 && begins[0] <= begins[1], "viewers would turn arrow {id} round: {begins:?}");
    }
    for (track, points) in &trace.counters {
        assert!(points.iter().all(|(_, value)| *value >= 0.0), "{track:?} is negative");
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0), "{track:?} goes back in time");
    }
    assert_eq!(trace.slices.values().map(|s| s.len() as u64).sum::<u64>(), summary.slices);
    assert_eq!(trace.arrows.len() as u64, summary.arrows);
    assert_eq!(trace.counters.values().map(|c| c.len() as u64).sum::<u64>(), summary.counter_values);
}

fn all_ranks(world: &World) -> Vec<TracedRank> {
    let traced = |r| TracedRank { rank: RankId(r), source: RankId(r), name: format!("rank {r}") };
    (0..world.ranks.len() as u32).map(traced).collect()
}

proptest! {
    #[test]
    fn any_run_makes_a_sound_trace(seed: u64, shrink in 1u64..100_000, detail in 0..3usize, window in 0u64..40) {
        let mut s = random_world::random(seed);
        // down to picoseconds, so that rounding makes slices touch and vanish
        for (start, end) in &mut s.record.spans {
            start.0 /= shrink;
            end.0 /= shrink;
        }
        let (ranks, meta) = (all_ranks(&s.world), RunMeta::default());
        let mut timeline = Timeline::new(&s.world, &s.record, &ranks, &meta);
        timeline.detail = [Detail::Op, Detail::Layer, Detail::Phase][detail];
        if window > 0 {
            timeline.window = Some((Time(window * 1000), Time(window * 3000)));
        }
        let (text, summary) = written(&timeline);
        check(&read(&text), &summary);
        prop_assert!(timeline.slices() <= timeline.most_slices());
    }
}

/// The counters of FLOPs and bytes over a step sum to the work of the rank's kernels.
#[test]
fn shares_of_capacities_add_up_to_what_kernels_do() {
    let (world, record) = sample::pipeline(TINY);
    let (ranks, meta) = (all_ranks(&world), RunMeta::default());
    let mut timeline = Timeline::new(&world, &record, &ranks, &meta);
    let capacities = Capacities { flops: FlopRate(1e15), memory: Bandwidth(4e12), busiest_link: &|_| None };
    timeline.capacities = Some(&capacities);
    let trace = read(&written(&timeline).0);
    for rank in 0..world.ranks.len() as u32 {
        let program = world.program_of(RankId(rank));
        let infos =
            program.streams[0].ops.iter().map(|op| &program.infos[program.ops[op.index()].info as usize]);
        let [flops, bytes] = infos.fold([0.0; 2], |sum, info| [sum[0] + info.flops, sum[1] + info.bytes]);
        for (series, full, done) in [("of 1000 TFLOP/s", 1e15, flops), ("of 4000 GB/s memory", 4e12, bytes)] {
            let of_rank = |at: &&String| at.starts_with(&format!("{rank} ")) && at.ends_with(series);
            let points = &trace.counters[trace.counters.keys().find(of_rank).expect(series)];
            let ends = points.iter().skip(1).map(|point| point.0).chain([record.step_end.round_ns()]);
            let seconds = |(point, end): (&(u64, f64), u64)| point.1 / 100.0 * (end - point.0) as f64 * 1e-9;
            let shown: f64 = points.iter().zip(ends).map(seconds).sum();
            // Whole percents are shown.
            assert!((shown * full / done - 1.0).abs() < 0.05, "rank {rank} {series}: {shown} s for {done}");
        }
    }
}

#[test]
fn each_receive_has_an_arrow_from_its_send() {
    let step = SampleShape { stages: 3, layers: 2, micro_batches: 3 };
    let (world, record) = sample::pipeline(step);
    let (ranks, meta) = (sample::one_per_stage(step), RunMeta::default());
    let (text, _) = written(&Timeline::new(&world, &record, &ranks, &meta));
    let trace = read(&text);
    let slice_at = |(thread, at): SliceCorner| {
        let slices = &trace.slices[&thread];
        (trace.rank_of(thread).unwrap(), slices.iter().rfind(|s| s.0 <= at && at < s.1).unwrap().2.clone())
    };
    let mut joined = BTreeSet::new();
    for ends in trace.arrows.values() {
        let (from, to) = (slice_at(ends[0].unwrap()), slice_at(ends[1].unwrap()));
        if from.0 != to.0 {
            joined.insert((from.0, from.1, to.0, to.1));
        }
    }
    // two borders between stages, two directions, three micro-batches
    let mut expected = BTreeSet::new();
    for m in 0..3 {
        for (up, down) in [(0, 4), (4, 8)] {
            expected.insert((up, format!("send forward m{m}"), down, format!("recv forward m{m}")));
            expected.insert((down, format!("send backward m{m}"), up, format!("recv backward m{m}")));
        }
    }
    assert_eq!(joined, expected);
}

#[test]
fn a_window_shows_what_touches_it_and_nothing_else() {
    let (world, record) = sample::pipeline(TINY);
    let (ranks, meta) = (sample::one_per_stage(TINY), RunMeta::default());
    let mut timeline = Timeline::new(&world, &record, &ranks, &meta);
    let whole = read(&written(&timeline).0);
    let (from, until) = (300_000, 400_000);
    timeline.window = Some((Time::from_ns(from), Time::from_ns(until)));
    let part = read(&written(&timeline).0);
    let count = |trace: &Trace, keep: &dyn Fn(u64, u64) -> bool| {
        let of_ranks = trace.slices.iter().filter(|(t, _)| trace.rank_of(**t).is_some());
        of_ranks.flat_map(|(_, s)| s).filter(|s| keep(s.0, s.1)).count()
    };
    let touching = count(&whole, &|start, end| end > from && start < until);
    assert!(touching > 0);
    assert_eq!(count(&part, &|_, _| true), touching);
    assert_eq!(part.row("step"), [(from, until, "step".to_owned(), "step".to_owned())]);
}

/// Two passes that are taken in turn: the forward pass on the first row, whichever begins first, and one slice where
/// there is one row for all.
#[test]
fn passes_in_turn_have_a_row_each() {
    use stepsim_core::program::Phase::{Backward, Forward};
    let mut b = ProgramBuilder::new();
    let stream = b.stream(StreamKind::Compute);
    for (phase, m) in [(Forward, 2), (Backward, 1), (Forward, 3), (Backward, 1), (Forward, 3), (Backward, 2)]
    {
        let info = b.info(OpInfo { layer: Some(m), ..OpInfo::of("mlp", phase, 0.0) });
        b.op(stream, Work::Compute { time: Time::from_ns(10) }, &[], info, m);
    }
    let mut world = World::default();
    let program = world.add_program(b.finish());
    world.add_rank(program, 0);
    let record = run(&world).unwrap();
    let (ranks, meta) = (all_ranks(&world), RunMeta::default());
    let timeline = Timeline::new(&world, &record, &ranks, &meta);
    let (text, summary) = written(&timeline);
    let trace = read(&text);
    check(&trace, &summary);
    let row = |name: &str| {
        let passes = trace.row(name).iter().filter(|slice| slice.3 == "pass");
        passes.map(|slice| (slice.0, slice.1, slice.2.as_str())).collect::<Vec<_>>()
    };
    assert_eq!(row("0"), [(0, 10, "m2 fwd"), (20, 50, "m3 fwd"), (50, 60, "m2 bwd")]);
    assert_eq!(row("0 compute 2"), [(10, 40, "m1 bwd")]);
    // Also where a window begins in the backward pass.
    let window = Some((Time::from_ns(12), Time::from_ns(18)));
    let mut part = Timeline { window, ..Timeline::new(&world, &record, &ranks, &meta) };
    assert_eq!(
        RankRows::new(&part, &ranks[0], Pairs::Apart).pieces.iter().map(|piece| piece.row).max(),
        Some(1)
    );
    part.window = None;
    let turns = RankRows::new(&part, &ranks[0], Pairs::Apart).turns;
    let spans: Vec<_> = turns.iter().map(|turn| (turn.start, turn.end)).collect();
    assert_eq!(spans, [(0, 10), (10, 50), (50, 60)]);
}

#[test]
fn stalls_links_and_contention_are_shown_as_given() {
    let (world, record) = sample::pipeline(TINY);
    let (ranks, meta) = (sample::one_per_stage(TINY), RunMeta::default());
    let stall = |start, end| StallSlice {
        start: Time::from_ns(start),
        end: Time::from_ns(end),
        cause: "pipeline bubble",
        waited_for: "rank 4: recv B m0".into(),
        ..StallSlice::default()
    };
    let other = StallSlice { cause: "tensor parallel", ..stall(35, 36) };
    let of_first = [stall(10, 20), stall(20, 35), other, stall(36, 40), stall(50, 60), stall(60, 65)];
    let stalls = |source: RankId| Rc::from(if source.0 == 0 { of_first.as_slice() } else { &[] });
    let links =
        [LinkCounter { resource: ResourceId(3), name: "leaf 0 → spine".into(), capacity: Bandwidth(2e9) }];
    let change = |ns, resource, rate| {
        let (time, resource, rate) = (Time::from_ns(ns), ResourceId(resource), Bandwidth(rate));
        RateChange { time, resource, rate }
    };
    let link_use = [change(5, 3, 1e9), change(6, 2, 2e9), change(9, 3, 0.0)];
    let mut timeline = Timeline::new(&world, &record, &ranks, &meta);
    timeline.stalls = Some(&stalls);
    timeline.links = &links;
    timeline.link_use = &link_use;
    timeline.uncontended = Some(&|_, _| Some(Time::from_us(1.0)));
    let (text, summary) = written(&timeline);
    let trace = read(&text);
    check(&trace, &summary);
    assert_eq!(trace.threads.values().filter(|name| name.ends_with("stalls")).count(), 1);
    let shown = |start, end| (start, end, "pipeline bubble".to_owned(), "stall".to_owned());
    let name = names::waiting("pipeline bubble and tensor parallel");
    let others = [shown(10, 20), shown(20, 35), (35, 36, "tensor parallel …".to_owned(), "stall".to_owned())];
    let together = vec![(10, 40, name, "stalls".to_owned())];
    let alone = [shown(36, 40), shown(50, 60), shown(60, 65)];
    assert_eq!(trace.row("0 stalls"), [together, others.to_vec(), alone.to_vec()].concat());
    assert!(text.contains(r#""cause":"pipeline bubble and tensor parallel","stalls":4}"#));
    assert_eq!(trace.counters["leaf 0 → spine (2 GB/s) %"], [(0, 0.0), (5, 50.0), (9, 0.0)]);
    assert!(text.contains(r#""waited_for":"rank 4: recv B m0""#));
    // 16 MB at 400 GB/s after 5 us: 45 us, 44 of them added
    assert!(
        text.contains(r#""peer_rank":4,"uncontended_us":1.000,"added_by_contention_us":44.000"#),
        "{text}"
    );
}

#[test]
fn wishes_that_cannot_be_met_are_explained() {
    let (world, record) = sample::pipeline(TINY);
    let meta = RunMeta::default();
    let says = |ranks: &[TracedRank], window| {
        let mut timeline = Timeline::new(&world, &record, ranks, &meta);
        timeline.window = window;
        timeline.write(&mut Chrome::new(Vec::new())).unwrap_err().to_string()
    };
    let rank = |r| TracedRank { rank: RankId(r), source: RankId(0), name: String::new() };
    assert_eq!(
        says(&[rank(8)], None),
        "rank 8 cannot be traced: the run has ranks 0 to 7; name ranks in that range"
    );
    assert_eq!(says(&[rank(1), rank(1)], None), "rank 1 is to be traced twice; name each rank once");
    assert_eq!(
        says(&[], Some((Time::from_us(2.0), Time::from_us(1.0)))),
        "the time window 2.000 us to 1.000 us is empty; its end must be later than its start"
    );
}

/// Folded away, the step's row says its critical path in one line, and a rank's what held up its passes, if that can be
/// seen.
#[test]
fn folded_rows_say_the_critical_path_and_what_held_passes_up() {
    let (world, record) = sample::pipeline(TINY);
    let (ranks, meta) = (sample::one_per_stage(TINY), RunMeta::default());
    let written = |timeline: &Timeline| {
        let mut bytes = Vec::new();
        let summary = timeline.write(&mut Perfetto::new(&mut bytes)).unwrap();
        (String::from_utf8_lossy(&bytes).into_owned(), summary.slices)
    };
    let end = record.step_end;
    let link = |(rank, from, end): (usize, Time, Time)| {
        let rank = ranks[rank].rank;
        Critical { rank, op: world.program_of(rank).streams[0].ops[0], from, ready: from, start: from, end }
    };
    let path = |change: u64| {
        [(0, Time::ZERO, Time(end.0 / 10 * change)), (1, Time(end.0 / 10 * change), end)].map(link)
    };
    let mut timeline = Timeline::new(&world, &record, &ranks, &meta);
    let (most, half) = (path(2), path(5));
    timeline.critical = &most;
    let said = "critical path: 80.0 % on rank 0004 · stage 1; compute 100.0 %";
    assert!(written(&timeline).0.contains(said), "{said}");
    timeline.critical = &half[..1];
    assert!(written(&timeline).0.contains("critical path: compute 100.0 %"));
    // A stall of the first pass, in which it stands on its own row and, if it can be seen, below the pass.
    let pass = record.span(ranks[0].rank, world.program_of(ranks[0].rank).streams[0].ops[0]);
    let with = |end: Time| {
        let stall = StallSlice { start: pass.0, end, cause: "contention", ..StallSlice::default() };
        let held = |rank: RankId| Rc::from(if rank == ranks[0].rank { vec![stall.clone()] } else { vec![] });
        written(&Timeline { stalls: Some(&held), ..Timeline::new(&world, &record, &ranks, &meta) }).1
    };
    assert!(pass.1 - pass.0 > Time(end.0 / 100), "the pass is long enough");
    assert_eq!(with(pass.1), with(pass.0 + Time(end.0 / 200)) + 1);
}

/// The bytes of a small trace. After a wanted change: `UPDATE_GOLDEN=1 cargo test --test read trace_`, then look at the
/// difference.
#[test]
fn the_tiny_pipeline_is_as_it_was() {
    let (world, record) = sample::pipeline(TINY);
    let (ranks, meta) = (sample::one_per_stage(TINY), sample::meta(&record));
    let (text, summary) = written(&Timeline::new(&world, &record, &ranks, &meta));
    check(&read(&text), &summary);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/tiny-pipeline.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert!(text == golden, "the trace differs from {}", path.display());
}
