//! Calculon's files: from the closed form's assumptions to events, one switch after another. What the published form
//! has a term for is its own error, what it leaves open (how transfers are sent, links that are shared, uneven
//! blocks, a full memory) an effect; the rest is what the run that makes its assumptions differs by.

use crate::calculon::closed_form::{CalculonTerms, Quirks, estimate};
use crate::calculon::files::Calculon;
use crate::calculon::simulate::{CalculonError, CalculonRun, Choices};
use crate::compare::{Comparison, Differences, TimeTerm, beside, gap, read_rank};
use stepsim_core::ids::RankId;
use stepsim_core::units::Time;
use stepsim_read::analysis::idle::IdleTimes;

/// A switch: whether it means anything for a case, and what it sets.
struct CalculonSwitch {
    name: &'static str,
    /// True if the form has a term for it.
    claimed: bool,
    what: &'static str,
    applies: fn(&Calculon) -> bool,
    set: fn(&mut Choices),
}

fn has_pipeline(case: &Calculon) -> bool {
    case.exe().pipeline_par > 1
}
fn has_replicas(case: &Calculon) -> bool {
    case.exe().training && case.exe().data_par > 1
}
fn offloads(case: &Calculon) -> bool {
    let exe = case.exe();
    exe.weight_offload || exe.activations_offload || exe.optimizer_offload
}

/// The switches in the order in which they are turned.
const SWITCHES: &[CalculonSwitch] = &[
    CalculonSwitch {
        name: "warm-up ramp",
        claimed: true,
        what: "every stage sends -> the ends of the pipeline send in one direction only",
        applies: has_pipeline,
        set: |c| c.ends_send = false,
    },
    CalculonSwitch {
        name: "published defects",
        claimed: true,
        what: "costs as published -> repaired",
        applies: |_| true,
        set: |c| c.quirks = Quirks::REPAIRED,
    },
    CalculonSwitch {
        name: "asynchronous p2p",
        claimed: false,
        what: "a transfer holds its sender -> on its own, without latency",
        applies: has_pipeline,
        set: |c| (c.blocking, c.p2p_latency) = (false, false),
    },
    CalculonSwitch {
        name: "p2p latency",
        claimed: false,
        what: "transfers without latency -> with the network's",
        applies: has_pipeline,
        set: |c| c.p2p_latency = true,
    },
    CalculonSwitch {
        name: "exposed tails: gradients",
        claimed: true,
        what: "closed form of data parallelism -> each block's reduction event by event",
        applies: has_replicas,
        set: |c| c.data_in_closed_form = false,
    },
    CalculonSwitch {
        name: "exposed tails: weights",
        claimed: true,
        what: "weights gathered behind the reduction -> behind the optimizer step",
        applies: |case| has_replicas(case) && case.exe().optimizer_sharding,
        set: |c| c.gather_after_step = true,
    },
    CalculonSwitch {
        name: "prefetch stalls",
        claimed: true,
        what: "closed form of offload -> copies one block ahead, state once per step",
        applies: offloads,
        set: |c| c.offload_in_closed_form = false,
    },
    CalculonSwitch {
        name: "collective latency",
        claimed: true,
        what: "one latency per collective -> one per step of its ring",
        applies: |case| case.exe().tensor_par > 1 || has_replicas(case),
        set: |c| c.ring_latency = true,
    },
    CalculonSwitch {
        name: "link contention",
        claimed: false,
        what: "every transfer alone -> transfers share their network's ports",
        applies: |case| has_pipeline(case) || has_replicas(case),
        set: |c| c.contention = true,
    },
    CalculonSwitch {
        name: "imbalance",
        claimed: false,
        what: "every rank as full as the fullest -> blocks as they are",
        applies: |case| !case.app().num_blocks.is_multiple_of(case.exe().pipeline_par),
        set: |c| c.uneven = true,
    },
    CalculonSwitch {
        name: "memory waits",
        claimed: false,
        what: "device memory without end -> of the machine's capacity",
        applies: |_| true,
        set: |c| c.capacity = true,
    },
];

/// Compares the published closed form of `case` with its simulation, and returns the last run.
///
/// # Errors
/// The step cannot be simulated.
pub fn compare(case: &Calculon) -> Result<(Comparison, CalculonRun), CalculonError> {
    let closed = estimate(case, Quirks::AS_PUBLISHED).terms;
    let total = Time::from_s(closed.total());
    let mut choices = Choices { ends_send: true, ..Choices::COMPATIBLE };
    let mut run = CalculonRun::new(case, &choices)?;
    let mut differences = Differences::new(total);
    let mut before = gap(run.record.step_end, total);
    for switch in SWITCHES {
        (switch.set)(&mut choices);
        if (switch.applies)(case) {
            drop(run);
            run = CalculonRun::new(case, &choices)?;
            let gap = gap(run.record.step_end, total);
            differences.add(switch.claimed, (switch.name, switch.what), gap - before);
            before = gap;
        }
    }
    let mut idle = IdleTimes::new(&run.world);
    let rows = read_rank(&run.world, &run.record, &mut idle, RankId(0));
    drop(idle);
    let terms = beside(&rows_of(&closed), rows);
    let exe = case.exe();
    let what = format!(
        "{}: t {} · p {} · d {} · {} chunks · {} micro-batches of {}",
        case.names().execution,
        exe.tensor_par,
        exe.pipeline_par,
        exe.data_par,
        exe.pipeline_interleaving,
        case.microbatches(),
        exe.microbatch_size,
    );
    let rank = "stage 0".to_string();
    let end = run.record.step_end;
    Ok((differences.finish(what, rank, end, terms), run))
}

/// Calculon's eleven terms by row.
fn rows_of(terms: &CalculonTerms) -> [(TimeTerm, f64); 9] {
    [
        (TimeTerm::Forward, terms.forward),
        (TimeTerm::Recompute, terms.recompute),
        (TimeTerm::Backward, terms.backward),
        (TimeTerm::Optimizer, terms.optimizer),
        (TimeTerm::Tensor, terms.tensor_parallel + terms.recommunication),
        (TimeTerm::Bubble, terms.bubble),
        (TimeTerm::Pipeline, terms.pipeline_parallel),
        (TimeTerm::Data, terms.data_parallel),
        (TimeTerm::Offload, terms.forward_offload + terms.backward_offload),
    ]
}
