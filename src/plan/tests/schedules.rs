//! Pipeline schedules against their published numbers, closed forms and latency laws.

use proptest::prelude::*;
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::units::Time;
use stepsim_plan::pipeline::{Sends, abstract_world};
use stepsim_schedule::{self as schedule, Order, Pass, PassTimes, Shape, Slot};

/// Picoseconds of one abstract time unit; many chunk numbers divide it.
const UNIT: u64 = 720_720_000;

fn units(t: f64) -> Time {
    Time((t * UNIT as f64).round() as u64)
}

fn times(f: f64, i: f64, w: f64, overlap_factor: f64) -> PassTimes {
    PassTimes::new(units(f), units(i), units(w), overlap_factor)
}

/// What a schedule came to.
#[derive(Debug, PartialEq)]
struct Outcome {
    makespan: Time,
    idle: Time,
    own: Time,
    peak: Vec<u32>,
    /// Start and end of each slot of each rank.
    spans: Vec<Vec<(Time, Time)>>,
}

fn outcome(order: &Order, t: &PassTimes, spans: Vec<Vec<(Time, Time)>>) -> Outcome {
    let makespan = spans.iter().flatten().map(|s| s.1).max().unwrap();
    let busy = |r: usize| order.ranks[r].iter().map(|s| t.of(s, order.placement.parts())).sum::<Time>();
    let own = |r: usize| spans[r].last().unwrap().1 - spans[r][0].0 - busy(r);
    let ranks = 0..spans.len();
    Outcome {
        makespan,
        idle: ranks.clone().map(|r| makespan - busy(r)).max().unwrap(),
        own: ranks.map(own).max().unwrap(),
        peak: order.peak(),
        spans,
    }
}

fn run_order(order: &Order, t: &PassTimes, p2p: Time) -> Outcome {
    let step = abstract_world(order, t, p2p, Sends::Asynchronous);
    let record = stepsim_core::engine::run(&step.world).unwrap_or_else(|e| panic!("{e}"));
    let spans = |(rank, ops): (usize, &Vec<OpId>)| {
        ops.iter().map(|op| record.span(RankId(rank as u32), *op)).collect::<Vec<_>>()
    };
    outcome(order, t, step.slot_ops.iter().enumerate().map(spans).collect())
}

fn run(kind: &str, shape: Shape, t: &PassTimes, p2p: f64) -> Outcome {
    let order = schedule::find(kind).unwrap().order(&shape).unwrap();
    order.check().unwrap();
    run_order(&order, t, units(p2p))
}

/// Makespan, idle, own (where the table gives them) and peaks of the first and the last rank.
type Golden = (f64, Option<f64>, Option<f64>, Option<(u32, u32)>);

fn check(what: &str, got: &Outcome, want: Golden) {
    assert_eq!(got.makespan, units(want.0), "makespan of {what}: {}", got.makespan.0 as f64 / UNIT as f64);
    if let Some(idle) = want.1 {
        assert_eq!(got.idle, units(idle), "idle of {what}");
    }
    if let Some(own) = want.2 {
        assert_eq!(got.own, units(own), "own bubble of {what}: {}", got.own.0 as f64 / UNIT as f64);
    }
    if let Some((first, last)) = want.3 {
        assert_eq!((got.peak[0], *got.peak.last().unwrap()), (first, last), "peak of {what}");
    }
}

/// The columns of the table: schedule, chunks, F&B factor.
const COLUMNS: [(&str, Option<u16>, f64); 10] = [
    ("gpipe", None, 1.0),
    ("1f1b", None, 1.0),
    ("interleaved-1f1b", Some(2), 1.0),
    ("interleaved-1f1b", Some(4), 1.0),
    ("zb-h1", None, 1.0),
    ("zb-h2", None, 1.0),
    ("zb-v", None, 1.0),
    ("dualpipe", None, 1.0),
    ("dualpipe", None, 0.8),
    ("dualpipe-v", None, 1.0),
];

/// The rows of the table: times of forward, input and weight gradient passes, and of a transfer.
const ROWS: [((f64, f64, f64), f64); 3] =
    [((1.0, 1.0, 1.0), 0.0), ((2.0, 3.0, 1.0), 0.0), ((1.0, 1.0, 1.0), 0.1)];

/// Each column of the table from top to bottom.
fn check_table(p: u32, m: u32, columns: [[Golden; 3]; 10]) {
    for ((kind, chunks, factor), column) in COLUMNS.into_iter().zip(columns) {
        for (((f, i, w), p2p), want) in ROWS.into_iter().zip(column) {
            let shape = Shape { chunks, ..Shape::new(p, m) };
            let what = format!("{kind} v={chunks:?} F&B={factor} p={p} m={m} t=({f},{i},{w}) c={p2p}");
            check(&what, &run(kind, shape, &times(f, i, w, factor), p2p), want);
        }
    }
}

fn all(makespan: f64, idle: f64, own: f64, first: u32, last: u32) -> Golden {
    (makespan, Some(idle), Some(own), Some((first, last)))
}
fn bubbles(makespan: f64, idle: f64, own: f64) -> Golden {
    (makespan, Some(idle), Some(own), None)
}
fn just(makespan: f64) -> Golden {
    (makespan, None, None, None)
}

#[test]
fn golden_numbers_of_4_stages_and_8_micro_batches() {
    check_table(
        4,
        8,
        [
            [all(33.0, 9.0, 9.0, 8, 8), bubbles(66.0, 18.0, 18.0), just(33.6)],
            [all(33.0, 9.0, 9.0, 4, 1), bubbles(66.0, 18.0, 18.0), just(34.6)],
            [all(28.5, 4.5, 4.5, 11, 5), bubbles(57.0, 9.0, 9.0), just(29.9)],
            [all(26.25, 2.25, 2.25, 19, 13), bubbles(52.5, 4.5, 4.5), just(29.25)],
            [all(27.0, 3.0, 3.0, 4, 4), bubbles(60.0, 12.0, 12.0), just(28.2)],
            [all(27.0, 3.0, 0.0, 7, 7), bubbles(57.0, 9.0, 9.0), bubbles(27.3, 3.3, 0.6)],
            [all(25.5, 1.5, 0.0, 8, 8), bubbles(54.0, 6.0, 6.0), bubbles(26.8, 2.8, 1.6)],
            [all(26.0, 2.0, 2.0, 5, 5), bubbles(54.0, 6.0, 6.0), just(26.9)],
            [all(23.6, 1.4, 1.4, 5, 5), bubbles(49.2, 4.8, 4.8), just(24.5)],
            [all(27.0, 3.0, 3.0, 9, 9), bubbles(57.5, 9.5, 9.5), just(28.7)],
        ],
    );
}

#[test]
fn golden_numbers_of_8_stages_and_32_micro_batches() {
    check_table(
        8,
        32,
        [
            [all(117.0, 21.0, 21.0, 32, 32), bubbles(234.0, 42.0, 42.0), just(118.4)],
            [all(117.0, 21.0, 21.0, 8, 1), bubbles(234.0, 42.0, 42.0), just(123.8)],
            [all(106.5, 10.5, 10.5, 23, 9), bubbles(213.0, 21.0, 21.0), just(109.5)],
            [all(101.25, 5.25, 5.25, 39, 25), bubbles(202.5, 10.5, 10.5), just(107.45)],
            [all(103.0, 7.0, 7.0, 8, 8), bubbles(220.0, 28.0, 28.0), just(105.8)],
            [all(103.0, 7.0, 0.0, 15, 15), bubbles(213.0, 21.0, 21.0), bubbles(103.7, 7.7, 1.4)],
            [all(99.5, 3.5, 0.0, 16, 16), bubbles(206.0, 14.0, 14.0), bubbles(102.8, 6.8, 4.0)],
            [all(102.0, 6.0, 6.0, 9, 9), bubbles(211.0, 19.0, 19.0), just(105.7)],
            [all(86.4, 4.2, 3.0, 9, 9), bubbles(179.8, 15.4, 13.0), just(90.1)],
            [all(103.0, 7.0, 7.0, 17, 17), bubbles(215.5, 23.5, 23.5), just(110.7)],
        ],
    );
}

/// Spans of the rank that is busy longest, and chunks held, as the authors' program makes them
/// (sail-sg/zero-bubble-pipeline-parallelism, scheduler/zbv_greedy.py) for passes of a chunk of so many units.
#[test]
fn controllable_memory_is_what_its_authors_have() {
    for (kind, p, equal, unequal, held) in [
        ("v-half", 4, 53.0, 124.0, 6),
        ("v-half", 6, 83.0, 195.0, 8),
        ("v-half", 8, 113.0, 266.0, 10),
        ("v-half", 12, 173.0, 409.0, 14),
        ("v-min", 4, 59.0, 167.0, 4),
        ("v-min", 6, 89.0, 253.0, 6),
        ("v-min", 8, 123.0, 348.0, 8),
        ("v-min", 12, 185.0, 529.0, 10),
    ] {
        for ((f, i, w), span) in [((1.0, 1.0, 1.0), equal), ((2.0, 3.0, 1.0), unequal)] {
            let got = run(kind, Shape::new(p, 2 * p), &times(2.0 * f, 2.0 * i, 2.0 * w, 1.0), 0.0);
            let busy = 2.0 * f64::from(2 * p) * (f + i + w);
            assert_eq!(got.own, units(span - busy), "{kind} on {p}: {}", got.own.0 as f64 / UNIT as f64);
            assert_eq!(got.peak.iter().max(), Some(&held), "{kind} on {p}");
        }
    }
}

/// Times that all chunk numbers up to 16 divide.
fn any_times() -> impl Strategy<Value = PassTimes> {
    (1u64..40, 1u64..40, 1u64..40).prop_map(|(f, i, w)| {
        let tenth = |n: u64| Time(n * UNIT / 10);
        PassTimes::new(tenth(f), tenth(i), tenth(w), 1.0)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::draws::draws(600)))]

    #[test]
    fn closed_forms_hold_where_they_are_offered(
        which in 0..schedule::ALL.len(), p in 1u32..9, m in 1u32..40, v in 2u16..5, group in 0u32..12,
        t in any_times(), equal in any::<bool>(),
    ) {
        let kind = schedule::ALL[which];
        let chunks = matches!(kind.facts().chunks, schedule::ChunkCount::AtLeast(..)).then_some(v);
        let group = (kind.facts().groups && group > 0).then_some(group);
        let shape = Shape { chunks, group, ..Shape::new(p, m) };
        let t = if equal { PassTimes::new(t.forward, t.forward, t.forward, 1.0) } else { t };
        let Ok(order) = kind.order(&shape) else { return Ok(()) };
        prop_assert_eq!(order.check(), Ok(()));
        let got = run_order(&order, &t, Time::ZERO);
        if let Some(bubble) = kind.bubble(&shape, &t) {
            prop_assert_eq!(bubble.own.unwrap_or(got.own), got.own);
            prop_assert_eq!(bubble.idle.unwrap_or(got.idle), got.idle);
        }
        if let Some(peak) = kind.peak(&shape) {
            prop_assert_eq!(peak, got.peak);
        }
    }

    #[test]
    fn latency_laws(p in 2u64..9, rounds in 1u64..6, v in 2u64..5, t in any_times()) {
        let m = p * rounds;
        // Small against the shortest chunk, as the laws ask.
        let c = Time(t.forward.min(t.backward()).0 / 400);
        let whole = t.forward + t.backward();
        let shape = Shape::new(p as u32, m as u32);
        let makespan = |kind: &str, shape: Shape| {
            let order = schedule::find(kind).unwrap().order(&shape).unwrap();
            run_order(&order, &t, c).makespan
        };
        prop_assert_eq!(makespan("gpipe", shape), whole * (m + p - 1) + c * (2 * (p - 1)));
        prop_assert_eq!(makespan("1f1b", shape), whole * (m + p - 1) + c * (2 * (p - 1) * m / p + 2 * (p - 2)));
        prop_assert_eq!(makespan("eager-1f1b", shape), whole * (m + p - 1) + c * (2 * (p - 1)));
        let looped = whole * m + Time((whole * (p - 1)).0 / v) + c * (2 * (p * v - 1));
        prop_assert_eq!(makespan("interleaved-1f1b", shape.with_chunks(v as u16)), looped);
    }
}

/// A step whose sends block, by the engine alone.
fn makespan_with(sends: Sends, order: &Order, t: &PassTimes, p2p: Time) -> Time {
    stepsim_core::engine::run(&abstract_world(order, t, p2p, sends).world)
        .unwrap_or_else(|e| panic!("{e}"))
        .step_end
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::draws::draws(200)))]

    /// Interleaved with exchanges between passes: rank 0 goes through mv + w units (warm-up passes, pairs, the last
    /// backward passes), w = 2(p−1) + (v−1)p of them in warm-up, with an exchange between each two.
    #[test]
    fn batched_exchange_of_interleaved(p in 2u64..9, rounds in 2u64..6, v in 2u64..5, t in any_times()) {
        let m = p * rounds;
        let c = Time(t.forward.min(t.backward()).0 / 400);
        let shape = Shape::new(p as u32, m as u32).with_chunks(v as u16);
        let order = schedule::find("interleaved").unwrap().order(&shape).unwrap();
        let free = run_order(&order, &t, Time::ZERO).makespan;
        let warm_up = 2 * (p - 1) + (v - 1) * p;
        let want = free + c * (m * v + warm_up - 1);
        prop_assert_eq!(makespan_with(Sends::Batched, &order, &t, c), want);
    }

    /// Without delay it does not matter who waits for a send, as long as receives are posted ahead.
    #[test]
    fn blocking_sends_cost_nothing_without_delay(which in 0..schedule::ALL.len(), p in 1u32..7, t in any_times()) {
        let order = schedule::ALL[which].order(&Shape::new(p, 2 * p)).ok();
        if let Some(order) = order {
            let free = run_order(&order, &t, Time::ZERO).makespan;
            prop_assert_eq!(makespan_with(Sends::Blocking, &order, &t, Time::ZERO), free);
        }
    }
}

/// Some order in which each rank does its passes at random, backward passes behind their forward passes.
fn shuffled() -> impl Strategy<Value = Order> {
    (1u32..5, 1u32..5, prop::sample::select(vec!["gpipe", "zb-h1", "zb-v"])).prop_flat_map(|(p, m, kind)| {
        let order = schedule::find(kind).unwrap().order(&Shape::new(p, m)).unwrap();
        let keys = order
            .ranks
            .iter()
            .map(|slots| prop::collection::vec(0u32..1000, slots.len()))
            .collect::<Vec<_>>();
        keys.prop_map(move |keys| {
            let mut order = order.clone();
            for (slots, keys) in order.ranks.iter_mut().zip(keys) {
                let pass = |s: &Slot| s.parts().map(|p| p.pass).max();
                let mut keyed: Vec<_> = slots.iter().zip(keys).map(|(s, k)| (pass(s), k, *s)).collect();
                keyed.sort_by_key(|(pass, key, _)| (*pass, *key));
                *slots = keyed.into_iter().map(|(_, _, slot)| slot).collect();
            }
            order
        })
    })
}

proptest! {
    /// An order either runs or is refused with a true cycle.
    #[test]
    fn any_order_runs_or_shows_its_cycle(order in shuffled(), t in any_times(), delay in 0u64..UNIT) {
        match order.check() {
            Ok(()) => drop(run_order(&order, &t, Time(delay))),
            Err(schedule::OrderFault::Deadlock(deadlock)) => {
                let cycle = &deadlock.cycle;
                for (i, wait) in cycle.iter().enumerate() {
                    let next = &cycle[(i + 1) % cycle.len()];
                    prop_assert_eq!(wait.for_rank, next.rank);
                    let slots = &order.ranks[next.rank as usize];
                    let place = |found: &dyn Fn(&Slot) -> bool| slots.iter().position(found).unwrap();
                    let stuck = place(&|s| *s == next.at);
                    let needed = place(&|s| s.parts().any(|p| Some(p) == wait.for_part));
                    prop_assert!(stuck < needed, "{}", deadlock);
                }
            }
            Err(fault) => prop_assert!(false, "{}", fault),
        }
    }

    /// No text makes the reader of orders panic.
    #[test]
    fn any_text_is_read_or_refused(
        ranks in prop::collection::vec("([FBIWX][0-9]{0,2}(\\.[0-9])?[& ]?){0,6}", 0..4),
        paths in prop::option::of(prop::collection::vec(prop::collection::vec((0u32..4, 0u16..3), 0..5), 0..4)),
    ) {
        let json = match paths {
            Some(paths) => serde_json::json!({ "ranks": ranks, "paths": paths }),
            None => serde_json::json!({ "ranks": ranks }),
        };
        if let Ok(order) = schedule::order_from_json(&json.to_string()) {
            run_order(&order, &times(1.0, 1.0, 1.0, 1.0), Time::ZERO);
        }
    }
}

/// The facts that a schedule states are those of its orders.
#[test]
fn facts_are_those_of_the_order() {
    use schedule::{BackwardSplit, ChunkCount};
    for kind in schedule::ALL {
        let facts = kind.facts();
        let (p, m) = (4, 8);
        let order = kind.order(&Shape::new(p, m)).unwrap();
        let placement = &order.placement;
        assert_eq!(placement.directions(), facts.directions, "{}", facts.name);
        assert!((0..p).all(|r| placement.chunks(r) == facts.chunks.usual()), "{}", facts.name);
        if let ChunkCount::AtLeast(least, _) = facts.chunks {
            assert!(kind.order(&Shape::new(p, m).with_chunks(least)).is_ok(), "{}", facts.name);
        }
        let has =
            |pass: Pass| order.ranks.iter().flatten().flat_map(Slot::parts).any(|part| part.pass == pass);
        let backward = match (has(Pass::Backward), has(Pass::InputGrad)) {
            (true, false) => BackwardSplit::Whole,
            (false, true) => BackwardSplit::Split,
            _ => BackwardSplit::Both,
        };
        assert_eq!(backward, facts.backward, "{}", facts.name);
        assert_eq!(order.splits(), backward == BackwardSplit::Split, "{}", facts.name);
        assert_eq!(kind.order(&Shape::new(p, m).with_group(m)).is_ok(), facts.groups, "{}", facts.name);
    }
}

/// Batched exchanges: what the facts say runs for any numbers, and what they refuse would stand still.
#[test]
fn schedules_that_cannot_exchange_in_batches_say_so() {
    let unit = units(1.0);
    let t = PassTimes::new(unit, unit, unit, 1.0);
    for kind in schedule::ALL {
        let facts = kind.facts();
        let mut stuck = Vec::new();
        for (p, m) in (2..=6).flat_map(|p| (1..=4 * p).map(move |m| (p, m))) {
            let Ok(order) = kind.order(&Shape::new(p, m)) else { continue };
            let step = abstract_world(&order, &t, units(0.25), Sends::Batched);
            if stepsim_core::engine::run(&step.world).is_err() {
                stuck.push((p, m));
            }
        }
        assert_eq!(stuck.is_empty(), facts.batched, "{}: {stuck:?}", facts.name);
    }
}

/// Slots appear in the diagrams of the papers; the drawing is the order's own text.
#[test]
fn orders_read_as_in_the_papers() {
    let line = |kind: &str, rank: usize| {
        let order = schedule::find(kind).unwrap().order(&Shape::new(4, 8)).unwrap();
        order.ranks[rank].iter().map(Slot::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("1f1b", 2), "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7");
    assert_eq!(line("zb-h1", 2), "F0 F1 I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 I7 W5 W6 W7");
    assert_eq!(
        line("dualpipe", 0),
        "F0 F1 F2 F4.1 I4.1 W4.1 F5.1 F3&B5.1 F6.1&B0 B6.1 F7.1&B1 B7.1 I2 W2 I3 W3"
    );
}

/// What zb-auto knows where all ranks take the same times.
fn even_profile(ranks: u32, t: PassTimes, message: Time, limit: f64) -> schedule::PassProfile {
    schedule::PassProfile { ranks: vec![t; ranks as usize], message, limit: Some(limit), kept: 1.0 }
}

#[test]
fn searched_orders_leave_no_bubble_where_none_need_be() {
    let searched = schedule::find("zb-auto").unwrap();
    // Equal passes and the memory of ZB-H2: no rank idles between its first and its last pass.
    for p in [2, 4, 8] {
        let t = times(1.0, 1.0, 1.0, 1.0);
        let order = searched.order(&Shape::new(p, 3 * p)).unwrap();
        assert_eq!(run_order(&order, &t, Time::ZERO).own, Time::ZERO, "{p} ranks");
    }
    // Weight gradients of no duration cannot fill anything: with the memory of 1F1B, 1F1B's bubble (p−1)(tF + tI).
    let t = times(1.0, 1.0, 0.0, 1.0);
    let order = searched.order_for(&Shape::new(4, 12), &even_profile(4, t, Time::ZERO, 4.0)).unwrap();
    assert_eq!(run_order(&order, &t, Time::ZERO).own, units(6.0));
    // Where input gradients give all activations back, the limit of 1F1B's memory does not bind and rank 0 may run
    // ahead with forward passes as ZB-H2 does.
    let t = times(1.0, 1.0, 1.0, 1.0);
    let light = schedule::PassProfile { kept: 0.0, ..even_profile(4, t, Time::ZERO, 7.0) };
    let order = searched.order_for(&Shape::new(4, 16), &light).unwrap();
    assert_eq!(run_order(&order, &t, Time::ZERO).own, Time::ZERO);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::draws::draws(300)))]

    /// A searched order is one, keeps its limit, and is no longer than the hand-made orders that keep it too.
    #[test]
    fn searched_orders_keep_their_limit(
        p in 1u32..8, m in 1u32..30, t in any_times(), limit in 1u32..20, delay in 0u64..UNIT,
    ) {
        let shape = Shape::new(p, m);
        let profile = even_profile(p, t, Time(delay), f64::from(limit));
        let order = schedule::find("zb-auto").unwrap().order_for(&shape, &profile).unwrap();
        prop_assert_eq!(order.check(), Ok(()));
        prop_assert!(order.peak().iter().all(|&peak| peak <= limit));
        let span = |order: &Order| {
            let spans = run_order(order, &t, Time(delay)).spans;
            spans.iter().map(|s| s.last().unwrap().1 - s[0].0).max().unwrap()
        };
        for hand_made in ["zb-h1", "zb-h2"] {
            let other = schedule::find(hand_made).unwrap().order(&shape).unwrap();
            if other.peak().iter().all(|&peak| peak <= limit) {
                prop_assert!(span(&order) <= span(&other), "{}", hand_made);
            }
        }
    }
}
