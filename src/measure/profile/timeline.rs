//! Timelines of pipeline training jobs as times of their parts.
//!
//! The format of ByteDance's straggler analysis (github.com/ByteDance-Seed/StragglerAnalysis, arXiv 2505.05713):
//! Chrome events in a bare list, a process a replica, rows named `PP rank P, TP rank T, …`, `args.step` and
//! `args.seq_id`. Spans of communication begin when all of its ranks are there, so they are times of transfer. What
//! an operation waited beyond its inputs is its launch delay.

use std::collections::{BTreeMap, BTreeSet};

use super::clock::ns;
use super::event::{mended, parse};
use super::scan::{Ending, FilePiece, scan};
use stepsim_plan::pipeline::durations::{Durations, OuterWork, StartGroup, StepDurations, TimeTable};
use stepsim_spec::SpecError;

/// Names of the timeline, our names, and who begins together.
const AROUND: [(&str, bool, StartGroup); 7] = [
    ("params-all-gather", true, StartGroup::Replicas),
    ("gc", false, StartGroup::Alone),
    ("layernorm-grads-all-reduce", false, StartGroup::Others),
    ("embedding-grads-all-reduce", false, StartGroup::Stages),
    ("grads-reduce-scatter", false, StartGroup::Replicas),
    ("optimizer-clip-main-grad", false, StartGroup::All),
    ("optimizer", false, StartGroup::Alone),
];

/// Start and end of an operation of a replica, stage and micro-batch.
type SpanOf<'a> = dyn Fn(&str, u32, u32, u32) -> Option<(i64, i64)> + 'a;

/// Start and end in nanoseconds of an operation of (step, replica, rank, name, number).
type OpSpans = BTreeMap<(i64, u32, u32, String), BTreeMap<u32, (i64, i64)>>;

/// Reads a timeline. `file` is its name for messages.
///
/// # Errors
/// It is no such timeline, or parts of it are missing.
pub fn pipeline_timeline(input: impl std::io::Read, file: &str) -> Result<Durations, SpecError> {
    let wrong = |problem: String| {
        SpecError::file(file, problem).allowed(
            "a timeline of a pipeline: events `forward-compute`, `backward-compute`, … with args.step and \
             args.seq_id in rows named `PP rank 0, TP rank 0, compute`",
        )
    };
    let (mut rows, mut events) = (BTreeMap::new(), Vec::new());
    let ending = scan(input, &mut |piece| {
        let FilePiece::Event(bytes) = piece else { return };
        let Some(text) = mended(bytes) else { return };
        let Ok(event) = parse(&text) else { return };
        let (args, name) = (event.members("args"), event.text("name").unwrap_or_default().into_owned());
        let row = (
            event.text("pid").unwrap_or_default().into_owned(),
            event.text("tid").unwrap_or_default().into_owned(),
        );
        if name == "thread_name" {
            let title = args.text("name").unwrap_or_default();
            let rank = title.strip_prefix("PP rank ").and_then(|t| t.split(',').next()?.parse::<u32>().ok());
            rows.extend(rank.filter(|rank| *rank < 1 << 12).map(|rank| (row, rank)));
        } else if event.text("ph").as_deref() == Some("X") {
            let time = |key| event.raw(key).and_then(ns);
            let number = args.whole("seq_id").and_then(|n| u32::try_from(n).ok()).filter(|n| *n < 1 << 16);
            if let (Some(step), Some(number), Some(start), Some(length)) =
                (args.whole("step"), number, time("ts"), time("dur"))
            {
                events.push((step, row, name, number, start, start.saturating_add(length.max(0))));
            }
        }
    });
    match ending {
        Ending::Whole => {}
        Ending::Truncated(at, _) => return Err(wrong(format!("breaks off at byte {at}"))),
        Ending::Foreign(why) => return Err(wrong(why)),
    }
    // By number: as texts, 10 is before 2.
    let numbered = |pid: &'_ String| (pid.parse::<u64>().unwrap_or(u64::MAX), pid.clone());
    let processes: BTreeSet<(u64, String)> = events.iter().map(|e| numbered(&e.1.0)).collect();
    let processes = processes.into_iter().map(|(_, pid)| pid);
    let replica: BTreeMap<String, u32> = processes.zip(0..).collect();
    let mut spans: OpSpans = BTreeMap::new();
    for (step, row, name, number, start, end) in events {
        let Some(&rank) = rows.get(&row) else { continue };
        let key = (step, replica[&row.0], rank, name);
        if spans.entry(key).or_default().insert(number, (start, end)).is_some() {
            return Err(wrong("several rows of one stage hold the same operation".to_string())
                .hint("keep one tensor-parallel rank of each stage"));
        }
    }
    let stages = spans.keys().map(|k| k.2 + 1).max().unwrap_or(0);
    let forwards = spans.iter().filter(|(k, _)| k.3 == "forward-compute").map(|(_, s)| s.len() as u32);
    let micro_batches = forwards.max().ok_or_else(|| wrong("holds no `forward-compute`".to_string()))?;
    let steps: BTreeSet<i64> = spans.keys().map(|k| k.0).collect();
    let shape = ProfileShape { replicas: replica.len() as u32, stages, micro_batches };
    let around = |before: bool| {
        AROUND
            .iter()
            .filter(move |a| a.1 == before)
            .map(|a| OuterWork { name: a.0.to_string(), group: a.2 })
            .collect()
    };
    Ok(Durations {
        replicas: shape.replicas,
        stages,
        micro_batches,
        before: around(true),
        after: around(false),
        steps: steps
            .into_iter()
            .map(|step| shape.step(&spans, step))
            .collect::<Result<_, _>>()
            .map_err(wrong)?,
    })
}

struct ProfileShape {
    replicas: u32,
    stages: u32,
    micro_batches: u32,
}

impl ProfileShape {
    fn step(&self, spans: &OpSpans, step: i64) -> Result<StepDurations, String> {
        let of = |name: &str, replica: u32, rank: u32, number: u32| {
            spans.get(&(step, replica, rank, name.to_string())).and_then(|s| s.get(&number)).copied()
        };
        for replica in 0..self.replicas {
            for rank in 0..self.stages {
                for (name, number) in ["forward-compute", "backward-compute"]
                    .iter()
                    .flat_map(|n| (0..self.micro_batches).map(move |m| (n, m)))
                {
                    if of(name, replica, rank, number).is_none() {
                        return Err(format!(
                            "step {step}: `{name}` {number} of stage {rank}, process {replica} is missing"
                        ));
                    }
                }
            }
        }
        let length = |span: Option<(i64, i64)>| span.map(|(start, end)| end - start);
        let longer = |a, b| length(a).into_iter().chain(length(b)).max();
        let mut times = BTreeMap::new();
        times.insert("F".to_string(), self.grid(|d, p, m| length(of("forward-compute", d, p, m))));
        times.insert("B".to_string(), self.grid(|d, p, m| length(of("backward-compute", d, p, m))));
        // Send and receive of a transfer are measured on two ranks; the longer one saw all of it.
        let forward = |d, p, m| longer(of("forward-send", d, p, m), of("forward-recv", d, p + 1, m));
        times.insert("send F".to_string(), self.grid(forward));
        let backward =
            |d, p: u32, m| longer(of("backward-send", d, p, m), of("backward-recv", d, p.checked_sub(1)?, m));
        times.insert("send B".to_string(), self.grid(backward));
        for (name, _, _) in AROUND {
            times.insert(name.to_string(), self.by_rank(|d, p| length(of(name, d, p, 0))));
        }
        let of_step = spans.range((step, 0, 0, String::new())..).take_while(|(k, _)| k.0 == step);
        let (starts, ends): (Vec<i64>, Vec<i64>) = of_step.flat_map(|(_, s)| s.values()).copied().unzip();
        let (first, last) =
            (starts.iter().min().copied().unwrap_or(0), ends.iter().max().copied().unwrap_or(0));
        let delays = self.delays(&of, first);
        Ok(StepDurations {
            name: step.to_string(),
            measured: Some(super::clock::seconds(last - first)),
            times,
            delays,
        })
    }

    /// The wait of each operation beyond its inputs.
    fn delays(&self, of: &SpanOf<'_>, first: i64) -> BTreeMap<String, TimeTable> {
        let mut delays = BTreeMap::new();
        // When each rank had done all that stands before.
        let mut done = vec![vec![first; self.stages as usize]; self.replicas as usize];
        let mut around = |done: &mut Vec<Vec<i64>>, before: bool| {
            for (name, _, group) in AROUND.iter().filter(|a| a.1 == before) {
                let ready = self.ready(done, *group, |d, p| of(name, d, p, 0).is_some());
                let waited =
                    |d: u32, p: u32| Some((of(name, d, p, 0)?.0 - ready[d as usize][p as usize]).max(0));
                delays.insert((*name).to_string(), self.by_rank(waited));
                for (d, row) in done.iter_mut().enumerate() {
                    for (p, at) in row.iter_mut().enumerate() {
                        *at = of(name, d as u32, p as u32, 0).map_or(*at, |span| span.1.max(*at));
                    }
                }
            }
        };
        around(&mut done, true);
        let mut passes = BTreeMap::new();
        for d in 0..self.replicas {
            for p in 0..self.stages {
                let mut order: Vec<(i64, i64, bool, u32)> = (0..self.micro_batches)
                    .flat_map(|m| {
                        let span = |name, forward| of(name, d, p, m).map(|s| (s.0, s.1, forward, m));
                        [span("forward-compute", true), span("backward-compute", false)]
                    })
                    .flatten()
                    .collect();
                order.sort_unstable();
                let at = &mut done[d as usize][p as usize];
                for (start, end, forward, m) in order {
                    let input = of(if forward { "forward-recv" } else { "backward-recv" }, d, p, m);
                    let ready = input.map_or(*at, |span| span.1.max(*at));
                    passes.insert((forward, d, p, m), (start - ready).max(0));
                    *at = end.max(*at);
                }
            }
        }
        around(&mut done, false);
        for (name, forward) in [("F", true), ("B", false)] {
            delays.insert(name.to_string(), self.grid(|d, p, m| passes.get(&(forward, d, p, m)).copied()));
        }
        delays
    }

    /// When the ranks of each one's group that take part are all ready.
    fn ready(
        &self,
        done: &[Vec<i64>],
        group: StartGroup,
        takes_part: impl Fn(u32, u32) -> bool,
    ) -> Vec<Vec<i64>> {
        let together = |d: u32, p: u32, e: u32, q: u32| match group {
            StartGroup::Alone | StartGroup::Others => d == e && p == q,
            StartGroup::Replicas => p == q,
            StartGroup::Stages => d == e,
            StartGroup::All => true,
        };
        let all = || (0..self.replicas).flat_map(|e| (0..self.stages).map(move |q| (e, q)));
        let last = |d, p| {
            all()
                .filter(|(e, q)| together(d, p, *e, *q) && takes_part(*e, *q))
                .map(|(e, q)| done[e as usize][q as usize])
                .max()
                .unwrap_or(0)
        };
        (0..self.replicas).map(|d| (0..self.stages).map(|p| last(d, p)).collect()).collect()
    }

    fn grid(&self, time: impl Fn(u32, u32, u32) -> Option<i64>) -> TimeTable {
        list(self.replicas, |d| list(self.stages, |p| list(self.micro_batches, |m| leaf(time(d, p, m)))))
    }
    fn by_rank(&self, time: impl Fn(u32, u32) -> Option<i64>) -> TimeTable {
        list(self.replicas, |d| list(self.stages, |p| leaf(time(d, p))))
    }
}

fn list(length: u32, each: impl Fn(u32) -> TimeTable) -> TimeTable {
    TimeTable::Each((0..length).map(each).collect())
}

fn leaf(ns: Option<i64>) -> TimeTable {
    ns.map_or(TimeTable::Absent(()), |ns| TimeTable::Same(super::clock::seconds(ns)))
}
