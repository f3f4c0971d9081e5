//! What of a step the closed form has no term for, told by the inputs: its own error is then not claimed.

use stepsim_schedule::ScheduleChoice;
use stepsim_simulate::Inputs;
use stepsim_spec::stack::HostSpec;
use stepsim_spec::topology::ScaleUp;
use stepsim_spec::workload::WorkloadSpec;

/// A step as claims see it.
struct Step<'a> {
    workload: &'a WorkloadSpec,
    /// The host that launches its kernels, if one does.
    host: Option<&'a HostSpec>,
    inputs: &'a Inputs,
}

/// An effect without a term, and the steps that have it.
type Unclaimed = (&'static str, fn(&Step<'_>) -> bool);

/// The effect that a comparison plays as one of its own.
pub(super) const NOISE: &str = "noise";

/// A shorter queue of launches holds a host up inside a layer.
const QUEUE: u32 = 64;

const UNCLAIMED: &[Unclaimed] = &[
    (NOISE, |step| step.workload.noise != Default::default()),
    ("a short queue of launches", |step| step.host.is_some_and(|host| host.queue < QUEUE)),
    ("a host that waits for messages between stages, or for each expert", |step| {
        let waits = step.workload.parallelism.pipeline.size > 1 || step.inputs.model.moe.is_some();
        step.host.is_some_and(|host| host.blocking) && waits
    }),
    ("a host that launches passes of two micro-batches at once", |step| {
        step.workload.parallelism.pipeline.pairs() && step.host.is_some()
    }),
    ("an order that is searched for", |step| match step.workload.parallelism.pipeline.choice() {
        ScheduleChoice::Named(schedule) => schedule.facts().searched,
        ScheduleChoice::File => false,
    }),
    ("documents in sequences that ranks cut", |step| {
        step.workload.documents.is_some() && step.workload.parallelism.context.size > 1
    }),
    ("gradients that micro-batches share until a rank turns to another chunk", |step| {
        let shares = step.workload.offload.reuse_across_micro_batches;
        let pipeline = &step.workload.parallelism.pipeline;
        let two_ways = matches!(pipeline.choice(), ScheduleChoice::Named(s) if s.facts().directions > 1);
        shares && (pipeline.chunks() > 1 || two_ways) && step.workload.reduces_every_micro_batch()
    }),
    ("gathers by budgets of elements", |step| {
        let budgets = step.workload.parallelism.sharding.prefetch.budgets();
        step.workload.sharding().cuts_weights() && budgets.is_some()
    }),
    ("copies through a tier to another", |step| {
        let classes = step.workload.offload.classes();
        classes.iter().any(|(_, places)| places.iter().any(|place| !place.via.is_empty()))
    }),
    ("gradients that come back from a tier for each micro-batch", |step| {
        let offload = &step.workload.offload;
        let several = step.workload.micro_batches(u64::from(step.inputs.machine.devices())) > 1;
        several && !offload.reuse_across_micro_batches && offload.gradients.iter().any(|p| !p.on_device())
    }),
    ("copies to tiers that ranks share", |step| {
        let away = step.workload.offload.classes().into_iter().flat_map(|(_, places)| places);
        step.inputs.machine.devices() > 1 && away.into_iter().any(|place| !place.on_device())
    }),
    ("messages that share a torus, or links with one limit for both ways", |step| {
        let node = step.inputs.topology.value.node.as_ref();
        let is_torus = node.is_some_and(|node| matches!(node.scale_up, Some(ScaleUp::Torus(_))));
        is_torus || step.inputs.machine.limits_both_ways()
    }),
];

/// Effects of a step that the closed form has no term for.
pub fn unclaimed(inputs: &Inputs) -> Vec<&'static str> {
    let workload = &inputs.workload.value;
    let step = Step { workload, host: workload.host(), inputs };
    UNCLAIMED.iter().filter(|(_, has)| has(&step)).map(|(name, _)| *name).collect()
}

/// A sentence about these effects; `None` where there are none.
pub fn not_claimed(effects: &[&str]) -> Option<String> {
    (!effects.is_empty()).then(|| {
        format!("not claimed: the closed form has no term for {}; `stepsim run` plays it", effects.join(", "))
    })
}
