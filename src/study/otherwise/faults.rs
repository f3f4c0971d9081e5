//! Faults: what is slower than its like, and what varies.

use serde_json::{Value, json};

use super::{BaseStep, CandidateKind, Idea, Remedy};
use stepsim_core::ids::DeviceId;
use stepsim_read::analysis::slow_ranks::SlowRanks;
use stepsim_simulate::whatif::{Change, Subject};
use stepsim_spec::workload::{SlowLinkSpec, StragglerSpec};

/// So many lots of a list have a candidate each; of more, all together have one.
const EACH: usize = 4;

/// The faults that a step states, and a tier that was full: in each family the whole of it first.
pub(super) fn of(step: &BaseStep<'_>) -> Vec<Vec<Idea>> {
    let blocked = step.bar("exposed communication", "full tier");
    let is_full = blocked > 0.0 || step.report.critical_path.memory_s > 0.0;
    let full_tier = is_full.then(|| {
        let way = Remedy::Without(Change { subject: Subject::FullTier, factor: 1.0 });
        Idea::of(CandidateKind::Fault, "full tier", "endless", way)
    });
    let one = |idea: Option<Idea>| idea.into_iter().collect::<Vec<Idea>>();
    let drawn = drawn(step).into_iter().map(|idea| vec![idea]);
    let mut families =
        vec![stragglers(step), slow_links(step), one(other_devices(step)), one(late_host(step))];
    families.extend(drawn);
    families.push(one(full_tier));
    families
}

/// All of several families healed together, as far as settings heal them.
pub(super) fn together(families: &[Vec<Idea>]) -> Vec<Idea> {
    let whole = families.iter().filter_map(|family| family.first());
    let settable: Vec<(&Idea, &Vec<String>)> = whole
        .filter_map(|idea| match &idea.way {
            Remedy::Sets(sets) => Some((idea, sets)),
            Remedy::Without(_) => None,
        })
        .collect();
    if settable.len() < 2 {
        return Vec::new();
    }
    let names: Vec<&str> = settable.iter().map(|(idea, _)| idea.what.as_str()).collect();
    let sets: Vec<&str> = settable.iter().flat_map(|(_, sets)| sets.iter().map(String::as_str)).collect();
    vec![Idea::set(CandidateKind::Fault, names.join(" and "), "as the others", &sets)]
}

fn fault(what: impl Into<String>, otherwise: &str, set: String) -> Idea {
    Idea::set(CandidateKind::Fault, what, otherwise, &[&set])
}

/// The entries of a list, those that are as slow as one another together: all taken out, and each lot by itself.
fn each<T: serde::Serialize>(
    path: &str,
    entries: &[T],
    slowness: impl Fn(&T) -> f64,
    name: impl Fn(&[&T]) -> String,
) -> Vec<Idea> {
    let mut sorted: Vec<&T> = entries.iter().collect();
    sorted.sort_by(|a, b| slowness(b).total_cmp(&slowness(a)));
    let lots: Vec<&[&T]> = sorted.chunk_by(|a, b| slowness(a) == slowness(b)).collect();
    let healed = "as the others";
    let without = |lot: &[&T]| -> Value {
        entries.iter().filter(|e| slowness(e) != slowness(lot[0])).map(|e| json!(e)).collect()
    };
    match lots.as_slice() {
        [] => Vec::new(),
        [one] => vec![fault(name(one), healed, format!("{path}=[]"))],
        [first, ..] => {
            let all = format!("{} and {} more", name(first), entries.len() - first.len());
            let mut ideas = vec![fault(all, healed, format!("{path}=[]"))];
            if lots.len() <= EACH {
                ideas.extend(
                    lots.iter().map(|lot| fault(name(lot), healed, format!("{path}={}", without(lot)))),
                );
            }
            ideas
        }
    }
}

/// Named stragglers, as the report calls them, and their node where they are all of it.
fn stragglers(step: &BaseStep<'_>) -> Vec<Idea> {
    let name = |lot: &[&StragglerSpec]| {
        let is_lot = |slow: &&SlowRanks| (slow.slowness / lot[0].slowness - 1.0).abs() < 0.005;
        let slow = step.report.slow_ranks.iter().find(is_lot);
        let node = slow.and_then(|slow| whole_node(step, &slow.ranks));
        match (slow, node) {
            (Some(slow), Some(node)) => format!("node {node}, {}", slow.name),
            (Some(slow), None) => slow.name.clone(),
            (None, _) => straggler_name(lot[0]),
        }
    };
    each("noise.stragglers", &step.inputs.workload.value.noise.stragglers, |s| s.slowness, name)
}

/// The node whose devices ranks run on, if they are all of several that it has.
fn whole_node(step: &BaseStep<'_>, ranks: &[u32]) -> Option<u32> {
    let machine = &step.inputs.machine;
    let node = |rank: u32| machine.node_of(DeviceId(rank));
    let of = node(*ranks.first()?);
    let devices = (0..machine.devices()).filter(|device| node(*device) == of).count();
    let whole = ranks.len() == devices && devices > 1 && ranks.iter().all(|rank| node(*rank) == of);
    (whole && step.inputs.workload.value.parallelism.rank_map.is_none()).then_some(of)
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

/// The drawn fault: kernels that vary.
fn drawn(step: &BaseStep<'_>) -> Vec<Idea> {
    let noise = &step.inputs.workload.value.noise;
    let jitter = || fault("jitter of kernels", "none", "noise.compute_sigma=0".into());
    (noise.compute_sigma > 0.0).then(jitter).into_iter().collect()
}

fn slow_links(step: &BaseStep<'_>) -> Vec<Idea> {
    let name = |lot: &[&SlowLinkSpec]| {
        let more = if lot.len() > 1 { format!(" and {} more", lot.len() - 1) } else { String::new() };
        format!("links {}{more} (÷{})", lot[0].link, lot[0].slowness)
    };
    each("noise.slow_links", &step.inputs.workload.value.noise.slow_links, |s| s.slowness, name)
}

/// Nodes with devices of another class.
fn other_devices(step: &BaseStep<'_>) -> Option<Idea> {
    let topology = &step.inputs.topology.value;
    let first = topology.other_nodes.first()?;
    let nodes: u32 = topology.other_nodes.iter().map(|other| other.count).sum();
    let nodes = if nodes == 1 { format!("node {}", first.first) } else { format!("{nodes} nodes") };
    let otherwise = format!("{}, as the others", topology.device.name);
    let set = "topology.other_nodes=[]".to_owned();
    Some(fault(format!("device class of {nodes} ({})", first.device.name), &otherwise, set))
}

/// A host that is slower than in its file, or else than today's.
fn late_host(step: &BaseStep<'_>) -> Option<Idea> {
    let workload = &step.inputs.workload;
    let slowness = workload.value.host()?.slowness;
    let own = workload.before_settings("stack.host.slowness").and_then(Value::as_f64);
    let (healed, word) = match own.filter(|own| *own < slowness) {
        Some(own) => (own, "as in its file"),
        None => (1.0, "as today's"),
    };
    let what = format!("host (×{slowness} as slow)");
    (slowness > healed).then(|| fault(what, word, format!("stack.host.slowness={healed}")))
}
