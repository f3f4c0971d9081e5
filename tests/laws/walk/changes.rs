//! What is said of a change is the run with the change made, what is blamed is what was planted, and what is written is
//! read back as the same step.

use serde_json::json;
use stepsim::core::units::Time;
use stepsim::read::analysis::candidates::Candidate;
use stepsim::schedule::order_to_json;
use stepsim::simulate::jump::glanced;
use stepsim::simulate::whatif::{Change, Subject, WhatIfBase};
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::study::otherwise::{Depth, with_candidates};

use super::otherwise::step_end;
use super::ranges::Document;

/// One rank is so many times as slow.
const SLOWNESS: f64 = 1.5;
/// A planted cause that costs this part of the step is blamed, with its cost as near as `CLOSE`.
const FELT: f64 = 0.05;
const CLOSE: f64 = 0.02;

/// Holds the laws on a step that took `end`; `number` says which rank is slow.
///
/// # Errors
/// The one that it breaks.
pub fn held(document: &Document, run: &Simulation, end: Time, number: usize) -> Result<(), String> {
    read_back(document, run, end)?;
    host_changed(document, &run.inputs)?;
    planted(document, &run.inputs, number as u32 % run.inputs.machine.devices(), end)
}

/// With all defaults written out, and with the order of its passes in a file.
fn read_back(document: &Document, run: &Simulation, end: Time) -> Result<(), String> {
    let resolved = document.written_out(&run.inputs);
    let mut ordered = document.clone();
    let pipeline = &mut ordered.workload["parallelism"]["pipeline"];
    if pipeline.is_object() {
        pipeline["schedule"] = "file".into();
        pipeline["order_file"] = serde_json::from_str(&order_to_json(&run.plan.order)).expect("JSON");
    }
    for (what, again) in [("resolved", resolved), ("with its order in a file", ordered)] {
        if let Some(again) = step_end(&again).filter(|again| *again != end) {
            return Err(format!("{end}, and {again} {what}"));
        }
    }
    Ok(())
}

fn what_if(inputs: &Inputs, change: Change) -> Result<f64, String> {
    let base = WhatIfBase::new(inputs, Options::default()).map_err(|e| format!("what-if: {e}"))?;
    Ok(base.with(&[change]).map_err(|e| format!("what-if: {e}"))?.step_time_s)
}

/// Hosts twice as fast are hosts of half the slowness.
fn host_changed(document: &Document, inputs: &Inputs) -> Result<(), String> {
    let mut made = document.written_out(inputs);
    let Some(slowness) = made.workload.pointer_mut("/stack/host/slowness") else { return Ok(()) };
    *slowness = json!(slowness.as_f64().unwrap_or(1.0) / 2.0);
    let Some(made) = step_end(&made) else { return Ok(()) };
    let said = what_if(inputs, Change { subject: Subject::Host, factor: 2.0 })?;
    if said == made.s() { Ok(()) } else { Err(format!("what-if of the host says {said} s, it takes {made}")) }
}

/// A slow rank: the what-if of its speed is the step with it, the step without it is that of before, and where it is
/// felt it stands first among causes with its cost.
fn planted(document: &Document, inputs: &Inputs, rank: u32, end: Time) -> Result<(), String> {
    if document.workload["noise"]["stragglers"].as_array().is_some_and(|list| !list.is_empty()) {
        return Ok(());
    }
    let mut slow = document.clone();
    if !slow.workload["noise"].is_object() {
        slow.workload["noise"] = json!({});
    }
    slow.workload["noise"]["stragglers"] = json!([{"rank": rank, "slowness": SLOWNESS}]);
    let (Ok(slow), Some(made)) = (slow.inputs(), step_end(&slow)) else { return Ok(()) };
    let said = what_if(inputs, Change { subject: Subject::Ranks(rank, rank), factor: 1.0 / SLOWNESS })?;
    if said != made.s() {
        return Err(format!("what-if of rank {rank} says {said} s, it takes {made}"));
    }
    // All slow ranks are taken away, those that noise makes too.
    let alone = inputs.workload.value.noise == Default::default();
    let healed = Subject::without("stragglers", &slow.topology.value).expect("a cost");
    let healed = what_if(&slow, healed)?;
    if alone && healed != end.s() {
        return Err(format!("{end}, and {healed} s without the stragglers of a slow rank {rank}"));
    }
    let cost_s = made.s() - end.s();
    if cost_s < FELT * made.s() {
        return Ok(());
    }
    let report = glanced(&slow, &Options::default()).map_err(|e| format!("glanced: {e}"))?;
    let report = with_candidates(&slow, &Options::default(), report, Depth::Answer);
    let candidates = report.map_err(|e| format!("candidates: {e}"))?.candidates;
    let right = |c: &&Candidate| {
        c.what.starts_with(&format!("rank {rank} (")) && (c.cost_s() / cost_s - 1.0).abs() <= CLOSE
    };
    if candidates.iter().any(|c| right(&c)) {
        return Ok(());
    }
    let named: Vec<String> = candidates.iter().map(|c| format!("{} {} s", c.what, c.cost_s())).collect();
    Err(format!("rank {rank}, slow, costs {cost_s} s, and named are {named:?}"))
}
