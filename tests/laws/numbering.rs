//! Replicas, stages and ranks of timelines are those of their ids, with more than ten of everything and in any order
//! of events.

use serde_json::{Value, json};
use stepsim::measure::profile::pipeline_timeline;
use stepsim::plan::pipeline::durations::TimeTable;

use super::steps::{Draws, count};

/// A timeline in which the forward pass of replica d, stage p, micro-batch m takes 1,000,000·d + 1,000·p + m + 1 µs.
fn timeline(replicas: u64, stages: u64, micro_batches: u64, draws: &mut Draws) -> Vec<Value> {
    let mut events = Vec::new();
    for (d, p) in (0..replicas).flat_map(|d| (0..stages).map(move |p| (d, p))) {
        let row = format!("PP rank {p}, TP rank 0, compute");
        events.push(json!({"name": "thread_name", "ph": "M", "pid": d, "tid": p, "args": {"name": row}}));
        for (m, name) in
            (0..micro_batches).flat_map(|m| ["forward-compute", "backward-compute"].map(|n| (m, n)))
        {
            let at = 1e9 * m as f64 + if name == "forward-compute" { 0.0 } else { 5e8 };
            let took = 1_000_000 * d + 1000 * p + m + 1;
            let args = json!({"step": 0, "seq_id": m});
            events.push(
                json!({"name": name, "ph": "X", "pid": d, "tid": p, "ts": at, "dur": took, "args": args}),
            );
        }
    }
    for i in (1..events.len()).rev() {
        let other = draws.of(&(0..=i).collect::<Vec<_>>());
        events.swap(i, other);
    }
    events
}

fn nested(times: &TimeTable, at: usize) -> &TimeTable {
    match times {
        TimeTable::Each(list) => &list[at],
        other => other,
    }
}

/// Whether every time stands where its ids say; `number` is the place of a replica.
fn holds(times: &TimeTable, [d, p, m]: [u64; 3], number: &dyn Fn(u64) -> usize) -> bool {
    let each = (0..d).flat_map(|d| (0..p).flat_map(move |p| (0..m).map(move |m| (d, p, m))));
    each.into_iter().all(|(d, p, m)| {
        let expected = 1e-6 * (1_000_000 * d + 1000 * p + m + 1) as f64;
        let found = nested(nested(nested(times, number(d)), p as usize), m as usize);
        matches!(found, TimeTable::Same(s) if (s - expected).abs() < 1e-9 * expected)
    })
}

/// A pass that one stage alone lacks is named.
#[test]
fn a_pass_that_is_missing_is_named() {
    let mut events = timeline(2, 2, 2, &mut Draws(7));
    let gone = json!({"step": 0, "seq_id": 1});
    let is_gone =
        |e: &Value| e["name"] == "forward-compute" && e["pid"] == 1 && e["tid"] == 0 && e["args"] == gone;
    events.retain(|event| !is_gone(event));
    let text = Value::from(events).to_string();
    let refused = pipeline_timeline(text.as_bytes(), "cut").unwrap_err().to_string();
    assert!(refused.contains("`forward-compute` 1 of stage 0, process 1 is missing"), "{refused}");
}

#[test]
fn replicas_are_numbered_by_their_ids() {
    let mut draws = Draws(0x5eed_0004);
    let mut caught = None;
    for i in 0..(count() / 20).max(5) {
        let shape @ [d, p, m] = [draws.of(&[11, 12, 23, 34]), draws.of(&[2, 11, 12]), draws.of(&[2, 11])];
        let text = Value::from(timeline(d, p, m, &mut draws)).to_string();
        let read = pipeline_timeline(text.as_bytes(), "shuffled").unwrap();
        assert_eq!((read.replicas, read.stages, read.micro_batches), (d as u32, p as u32, m as u32));
        let times = &read.steps[0].times["F"];
        assert!(holds(times, shape, &|d| d as usize), "draw {i}: {shape:?}");
        // In the order of their ids as texts.
        let mut as_texts: Vec<u64> = (0..d).collect();
        as_texts.sort_by_key(u64::to_string);
        if !holds(times, shape, &|d| as_texts.iter().position(|x| *x == d).unwrap()) {
            caught.get_or_insert(i);
        }
    }
    println!("numbers in the order of texts are caught at draw {caught:?}");
    assert!(caught.is_some_and(|draw| draw < 50));
}
