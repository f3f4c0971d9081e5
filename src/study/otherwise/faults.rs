//! Faults: what is slower than its like, and what varies.

use serde_json::{Value, json};

use super::{CandidateKind, Idea, Step, Way};
use stepsim_simulate::whatif::{Change, Subject};
use stepsim_step::spec::workload::{SlowLinkSpec, StragglerSpec};

/// So many entries of a list have a candidate each; of more, all together have one.
const EACH: usize = 4;

/// The faults that a step states, and a tier that was full.
pub(super) fn of(step: &Step<'_>) -> Vec<Idea> {
    let mut ideas = Vec::new();
    ideas.extend(stragglers(step));
    ideas.extend(drawn(step));
    ideas.extend(slow_links(step));
    ideas.extend(other_devices(step));
    ideas.extend(late_host(step));
    let blocked = step.bar("exposed communication", "full tier");
    if blocked > 0.0 || step.report.critical_path.memory_s > 0.0 {
        ideas.push(Idea {
            what: "full tier".into(),
            otherwise: "endless".into(),
            kind: CandidateKind::Fault,
            way: Way::Without(Change { subject: Subject::FullTier, factor: 1.0 }),
            promise_s: 0.0,
        });
    }
    ideas
}

fn fault(what: impl Into<String>, otherwise: &str, set: String) -> Idea {
    Idea::set(CandidateKind::Fault, what, otherwise, &[&set])
}

/// The entries of a list: each taken out by itself, and all of them.
fn each<T: serde::Serialize>(path: &str, entries: &[T], name: impl Fn(usize, &T) -> String) -> Vec<Idea> {
    let without = |out: usize| -> Value {
        entries.iter().enumerate().filter(|(at, _)| *at != out).map(|(_, entry)| json!(entry)).collect()
    };
    let healed = "as the others";
    match entries {
        [] => Vec::new(),
        [one] => vec![fault(name(0, one), healed, format!("{path}=[]"))],
        [first, ..] => {
            let all = format!("{} and {} more", name(0, first), entries.len() - 1);
            let mut ideas = vec![fault(all, healed, format!("{path}=[]"))];
            if entries.len() <= EACH {
                let one = |(at, entry)| fault(name(at, entry), healed, format!("{path}={}", without(at)));
                ideas.extend(entries.iter().enumerate().map(one));
            }
            ideas
        }
    }
}

/// Named stragglers; a single one is called as the report calls it.
fn stragglers(step: &Step<'_>) -> Vec<Idea> {
    let noise = &step.inputs.workload.value.noise;
    let name = |_: usize, s: &StragglerSpec| match (
        noise.stragglers.as_slice(),
        step.report.slow_ranks.as_slice(),
    ) {
        ([_], [slow]) => slow.name.clone(),
        _ => straggler_name(s),
    };
    each("noise.stragglers", &noise.stragglers, name)
}

fn straggler_name(s: &StragglerSpec) -> String {
    let places = [
        ("rank", s.rank),
        ("pipeline rank", s.pipeline_rank),
        ("data rank", s.data_rank),
        ("context rank", s.context_rank),
        ("tensor rank", s.tensor_rank),
    ];
    let places: Vec<String> = places.iter().filter_map(|(of, at)| Some(format!("{of} {}", (*at)?))).collect();
    format!("{} (×{})", places.join(", "), s.slowness)
}

/// What is drawn: slow ranks, and kernels that vary.
fn drawn(step: &Step<'_>) -> Vec<Idea> {
    let noise = &step.inputs.workload.value.noise;
    let ranks = noise.random_stragglers.is_some() || noise.between_worker_sigma > 0.0;
    let sets = ["noise.random_stragglers=null", "noise.between_worker_sigma=0"];
    let unequal = Idea::set(CandidateKind::Fault, "ranks that are drawn slow", "as the others", &sets);
    let jitter = fault("jitter of kernels", "none", "noise.compute_sigma=0".into());
    [(unequal, ranks), (jitter, noise.compute_sigma > 0.0)]
        .into_iter()
        .filter_map(|(idea, is)| is.then_some(idea))
        .collect()
}

fn slow_links(step: &Step<'_>) -> Vec<Idea> {
    let name = |_: usize, slow: &SlowLinkSpec| format!("links {} (÷{})", slow.link, slow.slowness);
    each("noise.slow_links", &step.inputs.workload.value.noise.slow_links, name)
}

/// Nodes with devices of another class.
fn other_devices(step: &Step<'_>) -> Option<Idea> {
    let topology = &step.inputs.topology.value;
    let first = topology.other_nodes.first()?;
    let nodes: u32 = topology.other_nodes.iter().map(|other| other.count).sum();
    let nodes = if nodes == 1 { format!("node {}", first.first) } else { format!("{nodes} nodes") };
    let otherwise = format!("{}, as the others", topology.device.name);
    let set = "topology.other_nodes=[]".to_owned();
    Some(fault(format!("device class of {nodes} ({})", first.device.name), &otherwise, set))
}

/// A host that is slower than today's.
fn late_host(step: &Step<'_>) -> Option<Idea> {
    let slowness = step.inputs.workload.value.host()?.slowness;
    let what = format!("host (×{slowness} as slow)");
    (slowness > 1.0).then(|| fault(what, "as today's", "stack.host.slowness=1".into()))
}
