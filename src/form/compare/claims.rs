//! What of a step the closed form has no term for, told by the inputs: its own error is then not claimed.

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

const UNCLAIMED: &[Unclaimed] = &[
    ("noise", |step| step.workload.noise != Default::default()),
    ("a host that waits for every kernel", |step| step.host.is_some_and(|host| host.blocking)),
    ("launches of experts, one by one", |step| step.host.is_some() && step.inputs.model.moe.is_some()),
    ("a host whose queue runs dry between exchanges of a sequence's parts", |step| {
        step.host.is_some() && step.workload.parallelism.context.size > 1
    }),
    ("hosts of unlike devices", |step| step.host.is_some() && step.inputs.machine.device_classes().len() > 1),
    ("copies through a tier to another", |step| {
        let classes = step.workload.offload.classes();
        classes.iter().any(|(_, places)| places.iter().any(|place| !place.via.is_empty()))
    }),
    ("copies beside the update", |step| {
        let offload = &step.workload.offload;
        offload.optimizer.iter().chain(&offload.weights).any(|place| !place.on_device())
    }),
    ("encoders beside the language model", |step| !step.workload.modules.is_empty()),
    ("messages that share a torus", |step| {
        let node = step.inputs.topology.value.node.as_ref();
        node.is_some_and(|node| matches!(node.scale_up, Some(ScaleUp::Torus(_))))
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
