//! Our own workloads: the effect of each subject on the simulation, less the closed form's term for it.
//!
//! The first run has kernels, tensor-, context- and expert-parallel communication in whole messages and the pipeline's
//! order; transfers between stages, data-parallel communication and copies take no time, nothing is launched, links
//! are not shared, memory has no end. Its closed form makes the same assumptions: settings that are switched off are
//! off for both, and terms whose messages take no time are left out. The difference of the two is the form's error in
//! kernels and their order.
//!
//! Then all that the form claims is switched on, one subject on top of another: errors of its own. With all of them
//! on, each thing that it does not claim is switched on by itself: effects. Of links that are shared the form claims
//! a part (groups that are laid out on one adapter): what it charges and the simulation does not have is its own
//! error.

use super::claims::NOISE;
use super::differences::gap;
use super::{Comparison, Differences, Estimators, Term, TimeTerm, beside, read_rank, unclaimed};
use crate::analytic::{Estimate, Terms};
use stepsim_core::ids::RankId;
use stepsim_core::pool;
use stepsim_core::program::{Edit, StreamKind, World};
use stepsim_core::units::Time;
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_simulate::jump::figures_edited;
use stepsim_simulate::{Inputs, Options, Simulation, SimulationError};
use stepsim_spec::workload::{CollectiveFidelity, TensorOverlap, WorkloadSpec};

/// The subjects that are switched on; by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct EffectSwitches {
    pieces: bool,
    pipeline: bool,
    data: bool,
    copies: bool,
    queue: bool,
    depth: bool,
    interference: bool,
    contention: bool,
    launch: bool,
    noise: bool,
    capacity: bool,
}

impl EffectSwitches {
    /// Settings that switch off what is off.
    fn sets(&self, workload: &WorkloadSpec) -> Vec<String> {
        let mut sets = Vec::new();
        let mut off = |on: bool, set: &str| {
            if !on {
                sets.push(set.to_string());
            }
        };
        off(self.pieces, "parallelism.tensor_overlap=none");
        off(self.queue, "gradient_buckets.overlap=false");
        off(self.queue, "gradient_buckets.overlap_weight_gather=false");
        off(self.depth || !gathers_ahead(workload), "parallelism.sharding.prefetch.depth=0");
        off(self.depth || !copies_ahead(workload), "offload.prefetch.depth=0");
        off(self.interference, "fidelity.interference=false");
        off(self.contention, "fidelity.collectives=formula");
        off(self.launch, "fidelity.launch_overhead=false");
        off(self.noise, "noise={}");
        sets
    }
    /// Makes communication that is off take no time, and memory that is off endless.
    fn edits(&self) -> Vec<Edit> {
        use StreamKind::{Compute, CopyIn, CopyOut, Data, Host, PipelineRecv, PipelineSend};
        let mut off = Vec::new();
        if !self.pipeline {
            // Transfers that hold their sender are queued between kernels.
            off.extend([PipelineSend, PipelineRecv, Compute]);
        }
        if !self.data {
            off.push(Data);
        }
        if !self.copies {
            off.extend([CopyIn, CopyOut, Host]);
        }
        let mut edits = vec![Edit::Free(off)];
        if !self.capacity {
            edits.push(Edit::EndlessMemory);
        }
        edits
    }
    /// The closed form of what is on.
    fn closed_form(&self, terms: &Terms) -> Time {
        let mut terms = *terms;
        for (on, term) in
            [(self.pipeline, &mut terms.p2p), (self.data, &mut terms.data), (self.copies, &mut terms.offload)]
        {
            if !on {
                *term = 0.0;
            }
        }
        Time::from_s(terms.total())
    }
}

/// A switch: whether it means anything for a workload and its programs, and what it sets.
struct EffectSwitch {
    name: &'static str,
    what: &'static str,
    applies: fn(&WorkloadSpec, &World) -> bool,
    set: fn(&mut EffectSwitches),
}

/// The effects that the closed form claims, in the order in which they are switched on.
const CLAIMS: &[EffectSwitch] = &[
    EffectSwitch {
        name: "pieces",
        what: "tensor-parallel messages whole -> cut beside their products",
        applies: |w, _| w.parallelism.tensor > 1 && w.parallelism.tensor_overlap != TensorOverlap::None,
        set: |on| on.pieces = true,
    },
    EffectSwitch {
        name: "transfers",
        what: "transfers between stages of no time -> as they are",
        applies: |w, _| w.parallelism.pipeline.size > 1,
        set: |on| on.pipeline = true,
    },
    EffectSwitch {
        name: "tails",
        what: "data-parallel communication of no time -> as it is",
        applies: |_, world| communicates(world, &[StreamKind::Data]),
        set: |on| on.data = true,
    },
    EffectSwitch {
        name: "prefetch",
        what: "copies between tiers of no time -> as they are",
        applies: |_, world| communicates(world, &[StreamKind::CopyIn, StreamKind::CopyOut]),
        set: |on| on.copies = true,
    },
    EffectSwitch {
        name: "queue",
        what: "reductions and gathers behind all passes -> each in its queue beside them",
        applies: |w, world| {
            let buckets = &w.gradient_buckets;
            communicates(world, &[StreamKind::Data]) && (buckets.overlap || buckets.overlap_weight_gather)
        },
        set: |on| on.queue = true,
    },
    EffectSwitch {
        name: "depth",
        what: "gathers and copies when they are needed -> as far ahead as prefetch looks",
        applies: |w, _| gathers_ahead(w) || copies_ahead(w),
        set: |on| on.depth = true,
    },
    EffectSwitch {
        name: "launch",
        what: "kernels start at once -> when the host has launched them",
        applies: |w, _| w.host().is_some(),
        set: |on| on.launch = true,
    },
];

/// The effects that it does not claim.
const OTHERS: &[EffectSwitch] = &[
    EffectSwitch {
        name: "interference",
        what: "kernels keep all compute units -> lose those of collectives beside them",
        applies: |w, _| w.fidelity.interference,
        set: |on| on.interference = true,
    },
    EffectSwitch {
        name: "link contention",
        what: "collectives in closed form -> flows that share links",
        applies: |w, _| w.fidelity.collectives != CollectiveFidelity::Formula,
        set: |on| on.contention = true,
    },
    EffectSwitch {
        name: "jitter and stragglers",
        what: "all devices alike -> as the workload says",
        applies: |w, _| w.noise != Default::default(),
        set: |on| on.noise = true,
    },
    EffectSwitch {
        name: "memory waits",
        what: "memory without end -> of the machine's capacity",
        applies: |_, _| true,
        set: |on| on.capacity = true,
    },
];

/// The name of what the first run differs by, and what that run is.
const KERNELS: (&str, &str) =
    ("kernels", "no switch: kernels, whole messages inside layers, order of passes");

/// True if weights are gathered ahead of their use.
fn gathers_ahead(w: &WorkloadSpec) -> bool {
    let prefetch = &w.parallelism.sharding.prefetch;
    w.sharding().cuts_weights() && prefetch.budgets().is_none() && prefetch.depth > 0
}

/// True if anything is copied in ahead of its use.
fn copies_ahead(w: &WorkloadSpec) -> bool {
    let away = w.offload.classes().into_iter().flat_map(|(_, places)| places);
    w.offload.prefetch.depth > 0 && away.into_iter().any(|place| !place.on_device())
}

/// True if anything runs on streams of these kinds.
fn communicates(world: &World, kinds: &[StreamKind]) -> bool {
    let streams = world.programs.iter().flat_map(|p| &p.streams);
    streams.into_iter().any(|s| kinds.contains(&s.kind) && !s.ops.is_empty())
}

/// The closed form of a workload on its machine, by itself: [`Estimators`] are for many.
///
/// # Errors
/// The workload does not fit the machine.
pub fn closed_form(inputs: &Inputs) -> Result<Estimate, SimulationError> {
    Estimators::default().closed_form(inputs)
}

/// Compares the closed form of a workload with its simulation, and returns the run with everything on and the rank
/// that is read term by term; `progress` is told the number of ops done in the run with everything on.
///
/// # Errors
/// A run fails.
pub fn compare(
    inputs: &Inputs,
    progress: &mut dyn FnMut(u64),
) -> Result<(Comparison, Simulation), SimulationError> {
    let estimate = closed_form(inputs)?;
    let full = Simulation::run_edited(inputs, &Options::default(), &[], progress)?;
    let run = |on: &EffectSwitches| -> Result<[Time; 2], SimulationError> {
        let inputs = inputs.again(&on.sets(&full.inputs.workload.value))?;
        let simulated = figures_edited(&inputs, &Options::default(), &on.edits(), false)?.step_end;
        Ok([simulated, on.closed_form(&closed_form(&inputs)?.terms)])
    };
    let differences = differences(&run, &full, Time::from_s(estimate.terms.total()))?;
    let ranks = (0..full.plan.world.ranks.len() as u32).map(RankId);
    let busiest = ranks.into_iter().find(|r| full.plan.stage(*r) as usize == estimate.busiest);
    let rank = busiest.unwrap_or(RankId(0));
    let terms = terms(&full, rank, &estimate);
    let what = format!(
        "{} on {}, {} devices",
        full.inputs.workload.name,
        full.inputs.topology.name,
        full.inputs.machine.devices()
    );
    let name = full.plan.rank_name(rank);
    let comparison = differences.finish(what, name, full.record.step_end, terms);
    // Noise is an effect here, and no part of the error of what is claimed.
    let not_claimed = unclaimed(&full.inputs).into_iter().filter(|effect| *effect != NOISE).collect();
    Ok((Comparison { not_claimed, ..comparison }, full))
}

/// Both sides of a step with these subjects on: as simulated, and in closed form.
type EffectSides<'a> = dyn Fn(&EffectSwitches) -> Result<[Time; 2], SimulationError> + Sync + 'a;

/// Own errors on top of one another, then each effect by itself on top of them all.
fn differences(
    run: &EffectSides<'_>,
    full: &Simulation,
    total: Time,
) -> Result<Differences, SimulationError> {
    let applies = |switch: &&EffectSwitch| (switch.applies)(&full.inputs.workload.value, &full.plan.world);
    let mut on = EffectSwitches::default();
    let mut cases = vec![(KERNELS, on)];
    for switch in CLAIMS {
        (switch.set)(&mut on);
        if applies(&switch) {
            cases.push(((switch.name, switch.what), on));
        }
    }
    let claims = cases.len();
    cases.extend(OTHERS.iter().filter(applies).map(|switch| {
        let mut with = on;
        (switch.set)(&mut with);
        ((switch.name, switch.what), with)
    }));
    let sides = pool::all(cases.len(), pool::threads(None), &|i| run(&cases[i].1));
    let sides = sides.into_iter().collect::<Result<Vec<_>, _>>()?;
    let (mut all, mut before) = (Differences::new(total), 0);
    for ((case, _), [simulated, form]) in cases.iter().zip(&sides).take(claims) {
        let gap = gap(*simulated, *form);
        all.add(true, *case, gap - before);
        before = gap;
    }
    let claimed = sides[claims - 1][1];
    for ((case, _), [simulated, form]) in cases.iter().zip(&sides).skip(claims) {
        let picoseconds = gap(*simulated, *form) - before;
        all.add(*form > claimed && picoseconds < 0, *case, picoseconds);
    }
    Ok(all)
}

/// Both sides term by term; the simulated one on a rank.
fn terms(run: &Simulation, rank: RankId, estimate: &Estimate) -> Vec<Term> {
    let mut idle = IdleTimes::unfolded(&run.plan.world, &run.folded.comms.representative);
    let rows = read_rank(&run.folded.world, &run.record, &mut idle, run.folded.source(rank));
    let t = &estimate.terms;
    let closed = [
        (TimeTerm::Forward, t.forward),
        (TimeTerm::Recompute, t.recompute),
        (TimeTerm::Backward, t.backward),
        (TimeTerm::Optimizer, t.optimizer),
        (TimeTerm::Tensor, t.tensor),
        (TimeTerm::Context, t.context),
        (TimeTerm::Expert, t.expert),
        (TimeTerm::Bubble, t.bubble),
        (TimeTerm::Pipeline, t.p2p),
        (TimeTerm::Data, t.data),
        (TimeTerm::Offload, t.offload),
        (TimeTerm::Host, t.host),
    ];
    beside(&closed, rows)
}
