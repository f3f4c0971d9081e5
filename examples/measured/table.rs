//! Simulated over measured, by source.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;
use stepsim::ids::{OpId, RankId};
use stepsim::program::Work;
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::spec::{WorkloadSpec, from_value};
use stepsim::topology::Machine;

use crate::describe::{Case, case};
use crate::rows::Row;

/// What became of a row.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Simulated and measured seconds.
    Done { simulated: f64, measured: f64 },
    /// Why it was not simulated.
    Skipped(String),
    /// What the simulator refused.
    Failed(String),
}

impl Outcome {
    /// Simulated over measured.
    pub fn ratio(&self) -> Option<f64> {
        match self {
            Outcome::Done { simulated, measured } => Some(simulated / measured),
            _ => None,
        }
    }
}

/// Simulates a row.
pub fn outcome(row: &Row) -> Outcome {
    let case = match case(row) {
        Ok(case) => case,
        Err(reason) => return Outcome::Skipped(reason),
    };
    match simulate(row, &case) {
        Ok((simulated, peak_flops)) => {
            let measured = case.step_s.or(case.mfu.map(|mfu| peak_flops / mfu)).unwrap_or(f64::NAN);
            Outcome::Done { simulated, measured }
        }
        Err(e) => Outcome::Failed(e),
    }
}

/// Simulated seconds, and the seconds that the model's FLOPs take at peak.
fn simulate(row: &Row, case: &Case) -> Result<(f64, f64), String> {
    let (topology, machine) = Machine::load(case.topology, &case.sets).map_err(|e| e.to_string())?;
    let file = row.id().to_string();
    let workload = from_value::<WorkloadSpec>(case.workload.clone(), file.clone(), file, &[]);
    let workload = workload.map_err(|e| e.to_string())?;
    let inputs = Inputs::new(workload, topology, machine).map_err(|e| e.to_string())?;
    let run = Simulation::run(&inputs, &Options::default()).map_err(|e| first_line(&e.to_string()))?;
    if std::env::args().any(|a| a == "--kernels") {
        println!("{}", kernels(&run));
    }
    let device = run.inputs.machine.device(stepsim::ids::DeviceId(0));
    let compute = run.inputs.workload.value.precision.compute;
    let peak = device.peak(compute).map_or(f64::INFINITY, |p| p.0) * f64::from(run.inputs.machine.devices());
    // Zero-bubble schedules do not wait for one another at the end of a step: the next one begins on a rank as soon as
    // it is done, and the rank with the longest span sets the pace.
    let pace = if row.source() == "zero-bubble" { longest_span(&run) } else { run.record.step_end.s() };
    Ok((pace, run.plan.model_flops.model / peak))
}

/// From the first kernel of a rank to its last op, on the rank where this is longest, in seconds.
fn longest_span(run: &Simulation) -> f64 {
    let world = &run.folded.world;
    let spans = world.ranks.iter().enumerate().map(|(r, rank)| {
        let program = &world.programs[rank.program.index()];
        let ops = (0..program.ops.len()).map(|i| {
            let (start, end) = run.record.span(RankId(r as u32), OpId(i as u32));
            (matches!(program.ops[i].work, Work::Compute { .. }), start.s(), end.s())
        });
        let (first, last) = ops.fold((f64::INFINITY, 0.0f64), |(first, last), (kernel, start, end)| {
            (if kernel { first.min(start) } else { first }, last.max(end))
        });
        last - first
    });
    spans.fold(0.0, f64::max)
}

/// Time of the ops of the first program by phase and name.
fn kernels(run: &Simulation) -> String {
    let program = &run.plan.world.programs[0];
    let mut sums: BTreeMap<(&str, &str), (usize, f64, f64)> = BTreeMap::new();
    for (i, op) in program.ops.iter().enumerate() {
        let info = &program.infos[op.info as usize];
        let (start, end) = run.record.span(RankId(0), OpId(i as u32));
        let sum = sums.entry((info.phase.name(), &info.name)).or_default();
        *sum = (sum.0 + 1, sum.1 + (end.s() - start.s()), sum.2 + info.flops);
    }
    let mut text = String::new();
    for ((phase, name), (n, s, flops)) in sums {
        let (each, rate) = (1e6 * s / n as f64, flops / s / 1e12);
        let _ = writeln!(text, "{phase:16} {name:32} {n:6} x {each:9.1} us = {s:9.4} s  {rate:6.1} TFLOP/s");
    }
    text
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_string()
}

/// One row as a line.
pub fn line(row: &Row, outcome: &Outcome) -> String {
    let show = |key: &str| match &row.0[key] {
        Value::Null => String::new(),
        Value::String(s) => s.clone(),
        v => v.to_string(),
    };
    let what = format!(
        "{} {} n{} s{} b{}/{} t{} p{}x{} d{} {} {}",
        row.id(),
        show("model"),
        show("n_devices"),
        show("seq"),
        show("mbs_seqs"),
        show("gbs_seqs"),
        show("tp"),
        show("pp"),
        show("vp"),
        show("dp"),
        show("pp_schedule"),
        show("recompute"),
    );
    match outcome {
        Outcome::Done { simulated, measured } => {
            format!("{:.3}  {simulated:9.3} s of {measured:9.3} s  {what}", simulated / measured)
        }
        Outcome::Skipped(reason) => format!("skipped ({reason})  {what}"),
        Outcome::Failed(reason) => format!("FAILED ({reason})  {what}"),
    }
}

/// Statistics of each source, its worst rows, and why rows were skipped.
pub fn by_source(outcomes: &[(Row, Outcome)]) -> String {
    let mut text = String::from(
        "| source | rows | used | mean ratio | median | mean abs. error | worst rows |\n|--|--|--|--|--|--|--|\n",
    );
    let mut sources: BTreeMap<&str, Vec<&(Row, Outcome)>> = BTreeMap::new();
    for pair in outcomes {
        sources.entry(pair.0.source()).or_default().push(pair);
    }
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for (source, list) in &sources {
        let mut ratios: Vec<(f64, &str)> =
            list.iter().filter_map(|(row, o)| Some((o.ratio()?, row.id()))).collect();
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (_, o) in list {
            if let Outcome::Skipped(r) | Outcome::Failed(r) = o {
                *reasons.entry(format!("{source}: {r}")).or_default() += 1;
            }
        }
        if ratios.is_empty() {
            let _ = writeln!(text, "| {source} | {} | 0 | | | | |", list.len());
            continue;
        }
        let n = ratios.len() as f64;
        let mean = ratios.iter().map(|r| r.0).sum::<f64>() / n;
        let error = ratios.iter().map(|r| (r.0 - 1.0).abs()).sum::<f64>() / n;
        let median = ratios[ratios.len() / 2].0;
        let mut worst = ratios.clone();
        worst.sort_by(|a, b| b.0.ln().abs().total_cmp(&a.0.ln().abs()));
        let worst: Vec<String> = worst
            .iter()
            .take(3)
            .map(|(r, id)| format!("{} {r:.2}", id.rsplit('/').next().unwrap_or_default()))
            .collect();
        let _ = writeln!(
            text,
            "| {source} | {} | {} | {mean:.3} | {median:.3} | {:.1} % | {} |",
            list.len(),
            ratios.len(),
            100.0 * error,
            worst.join(", "),
        );
    }
    if !reasons.is_empty() {
        text += "\nNot simulated:\n";
        for (reason, n) in reasons {
            let _ = writeln!(text, "- {n} × {reason}");
        }
    }
    text
}
