//! Limits: classes of links and memories, at the rate that they had before settings, at the rate of shipped machines
//! of the same device where theirs is lower than on any, else at the next that a shipped machine of the same maker has,
//! or twice their own; hosts twice as fast; and shared resources, not shared. What nothing crosses, or lies off the
//! critical path, is none: nobody waits for it.

use std::sync::LazyLock;

use serde_json::Value;

use super::{BaseStep, CandidateKind, Idea, Remedy};
use stepsim_core::ids::{DeviceId, RankId};
use stepsim_plan::step::groups::Group;
use stepsim_plan::step::laid_out;
use stepsim_price::model::CommGroup;
use stepsim_read::analysis::kind::OpKind;
use stepsim_schedule::StagePlacement;
use stepsim_spec::topology::Fabric;
use stepsim_spec::{Kind, Topology, catalog, load};

/// The class of the devices' own memory.
const MEMORY: &str = "device memory";

/// Classes of links that only lie between nodes.
const BETWEEN_NODES: [&str; 4] = ["nic", "local", "global", "sites"];

/// The number of ranks whose groups are looked up.
const SAMPLE: usize = 64;

/// The limits of a step's machine, with what each promises; of equal ones the most particular first.
pub(super) fn of(step: &BaseStep<'_>) -> Vec<Idea> {
    let topology = &step.inputs.topology.value;
    let classes = topology.link_classes().into_iter().chain([MEMORY.to_owned()]);
    shared(step)
        .into_iter()
        .chain(spine(step))
        .chain(host(step))
        .chain(classes.filter_map(|class| of_class(step, &class)))
        .collect()
}

/// Hosts that launch twice as fast.
fn host(step: &BaseStep<'_>) -> Option<Idea> {
    let slowness = step.inputs.workload.value.host()?.slowness;
    let promise_s = step.report.critical_path.by_kind_s.get(&OpKind::Host).copied().unwrap_or_default();
    let set = format!("stack.host.slowness={}", slowness / 2.0);
    let idea = || Idea::set(CandidateKind::Limit, "host", "twice as fast", &[&set]).promising(promise_s);
    (promise_s > 0.0).then(idea)
}

/// A class at its better rate; nothing where nothing crosses it.
fn of_class(step: &BaseStep<'_>, class: &str) -> Option<Idea> {
    let topology = &step.inputs.topology.value;
    let now = rate(topology, class)?;
    let (then, otherwise, kind) = better(step, class, now)?;
    let sets = scaled(topology, class, then / now);
    let promise_s = on_path(step, class) * (1.0 - now / then);
    if promise_s <= 0.0 || !is_used(step, class) {
        return None;
    }
    let name = class.strip_prefix("tier.").map_or(class.to_owned(), |tier| format!("{tier} memory"));
    let what = format!("{name}, {} GB/s", rounded(now));
    Some(Idea::of(kind, what, otherwise, Remedy::Sets(sets)).promising(promise_s))
}

fn rounded(gbps: f64) -> f64 {
    (gbps * 100.0).round() / 100.0
}

/// Bandwidth of a class in 10⁹ B/s.
fn rate(topology: &Topology, class: &str) -> Option<f64> {
    match class {
        MEMORY => topology.device.hbm.as_ref().map(|hbm| hbm.gbps),
        class => topology.link_rate(class),
    }
}

/// The rate beside a class's own, in words, and whether its own is a fault.
fn better(step: &BaseStep<'_>, class: &str, now: f64) -> Option<(f64, String, CandidateKind)> {
    let topology = &step.inputs.topology;
    let first = scaled(&topology.value, class, 2.0).into_iter().next()?;
    let path = first.split_once('=')?.0.strip_prefix("topology.")?;
    let before = topology.before_settings(path).and_then(Value::as_f64);
    if let Some(before) = before.filter(|before| *before > now) {
        return Some((before, format!("{} GB/s, as in its file", rounded(before)), CandidateKind::Fault));
    }
    let device = &topology.value.device;
    let of_class = SHIPPED.iter().filter(|shipped| shipped.class == class && shipped.rate > now);
    let least = |a: &&ShippedRate, b: &&ShippedRate| a.rate.total_cmp(&b.rate);
    let slower = SHIPPED.iter().any(|s| s.class == class && s.device == device.name && s.rate <= now);
    let same = of_class.clone().filter(|shipped| shipped.device == device.name && !slower);
    if let Some(ShippedRate { rate, machine, .. }) = same.min_by(least) {
        return Some((*rate, format!("{} GB/s, as {machine} has", rounded(*rate)), CandidateKind::Fault));
    }
    let next = of_class.filter(|shipped| shipped.maker == device.vendor && shipped.rate >= NEXT * now);
    Some(match next.min_by(least) {
        Some(ShippedRate { rate, device, machine, .. }) => {
            let of = if class == MEMORY { device } else { *machine };
            (*rate, format!("at {} GB/s, as {of} has", rounded(*rate)), CandidateKind::Limit)
        }
        None => (2.0 * now, "twice as fast".to_owned(), CandidateKind::Limit),
    })
}

/// The next generation of a link or memory is faster by this factor at least.
const NEXT: f64 = 1.2;

/// The rate of a class of links or of memory on a shipped machine.
struct ShippedRate {
    device: String,
    maker: Option<String>,
    machine: &'static str,
    class: String,
    rate: f64,
}

/// The rates of the shipped machines.
static SHIPPED: LazyLock<Vec<ShippedRate>> = LazyLock::new(|| {
    let machines =
        catalog::names(Kind::Topology).filter_map(|name| Some((name, load::<Topology>(name, &[]).ok()?)));
    let rates = machines.flat_map(|(machine, loaded)| {
        let topology = loaded.value;
        let classes = topology.link_classes().into_iter().chain([MEMORY.to_owned()]);
        let of = |class: String| {
            let (device, maker) = (topology.device.name.clone(), topology.device.vendor.clone());
            Some(ShippedRate { device, maker, machine, rate: rate(&topology, &class)?, class })
        };
        classes.filter_map(of).collect::<Vec<_>>()
    });
    rates.collect()
});

/// The settings that give a class `factor` times its bandwidth.
fn scaled(topology: &Topology, class: &str, factor: f64) -> Vec<String> {
    let mut then = topology.clone();
    match class {
        MEMORY => then.scale_memory_rate(factor),
        class => then.scale_links(class, factor),
    }
    let value = |topology: &Topology| stepsim_located::to_value(topology).unwrap_or_default();
    let mut sets = Vec::new();
    differing("topology", &value(topology), &value(&then), &mut sets);
    sets
}

/// The fields in which two values differ, as settings.
fn differing(path: &str, now: &Value, then: &Value, sets: &mut Vec<String>) {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => {
            for (key, then) in then {
                differing(&format!("{path}.{key}"), now.get(key).unwrap_or(&Value::Null), then, sets);
            }
        }
        (Value::Array(now), Value::Array(then)) => {
            for (at, (now, then)) in now.iter().zip(then).enumerate() {
                differing(&format!("{path}[{at}]"), now, then, sets);
            }
        }
        (now, then) if now != then => sets.push(format!("{path}={then}")),
        _ => {}
    }
}

/// Seconds of the critical path that may lie on a class: by the kinds of ops that cross such links, sharing included.
fn on_path(step: &BaseStep<'_>, class: &str) -> f64 {
    let path = &step.report.critical_path;
    if class == MEMORY {
        let bound = path.by_class_s.iter().filter(|(class, _)| !class.is_matrix());
        return bound.map(|(_, s)| s).sum();
    }
    let tier = class.starts_with("tier.");
    let copies = class == "host-link" || tier;
    let between = BETWEEN_NODES.contains(&class);
    let of_class = |kind: OpKind| match kind {
        OpKind::Compute => false,
        // An update on the host reads and writes its memory.
        OpKind::Host => tier,
        OpKind::CopyIn | OpKind::CopyOut => copies,
        kind => !copies && (!between || leaves_node(step, kind)),
    };
    let kinds = path.by_kind_s.iter().chain(&path.contention_by_kind_s);
    kinds.filter(|(kind, _)| of_class(**kind)).map(|(_, s)| s).sum()
}

/// True if groups of a kind lie over nodes, in a sample of the ranks.
fn leaves_node(step: &BaseStep<'_>, kind: OpKind) -> bool {
    let (w, machine) = (&step.inputs.workload.value, &step.inputs.machine);
    let group = match kind {
        OpKind::Tensor => Group::Layer(CommGroup::Tensor),
        OpKind::Context => Group::Layer(CommGroup::Context),
        OpKind::Expert => Group::Layer(CommGroup::Expert),
        _ => return true,
    };
    // Where stages lie is nothing to groups inside one.
    let line = StagePlacement::looped(w.parallelism.pipeline.size as u32, 1);
    let Ok((degrees, layout)) = laid_out(w, (u64::from(machine.devices()), &line), machine) else {
        return true;
    };
    let ranks = (0..layout.ranks()).step_by((layout.ranks() as usize / SAMPLE).max(1));
    let mut members = Vec::new();
    ranks.map(RankId).any(|rank| {
        degrees.members(&layout, rank, group, &mut members);
        let mut nodes = members.iter().map(|member| machine.node_of(layout.device(*member)));
        let first = nodes.next();
        nodes.any(|node| Some(node) != first)
    })
}

/// Tiers of switches that carry less upwards than they are given from below.
fn spine(step: &BaseStep<'_>) -> Option<Idea> {
    let Some(Fabric::Clos(clos)) = &step.inputs.topology.value.fabric else { return None };
    let over: Vec<(usize, f64)> =
        clos.tiers.iter().map(|t| t.oversubscription).enumerate().filter(|(_, over)| *over > 1.0).collect();
    let most = over.iter().map(|(_, over)| *over).fold(1.0, f64::max);
    if over.is_empty() {
        return None;
    }
    let sets = over.iter().map(|(at, _)| format!("topology.fabric.clos.tiers[{at}].oversubscription=1"));
    let what = format!("spine, {most}:1 oversubscribed");
    let promise_s = on_path(step, "nic") * (1.0 - 1.0 / most);
    Some(Idea::of(CandidateKind::Limit, what, "1:1", Remedy::Sets(sets.collect())).promising(promise_s))
}

/// Memories, host links and interfaces that several devices share: each with its own.
fn shared(step: &BaseStep<'_>) -> Vec<Idea> {
    let Some(node) = &step.inputs.topology.value.node else { return Vec::new() };
    let of_host = node.host.as_ref().and_then(|host| host.shared_by).or(node.devices).unwrap_or(1);
    let memories = node.memory.iter().enumerate().map(|(at, memory)| {
        let (name, class) = (format!("{} memory", memory.name), format!("tier.{}", memory.name));
        (name, class, memory.shared_by.unwrap_or(of_host), format!("memory[{at}].shared_by"))
    });
    let links = node.host.as_ref().map_or(1, |host| host.link_shared_by);
    let nics = node.nics.as_ref().map_or(1, |nics| nics.shared_by);
    let links = [
        ("host link".to_owned(), "host-link".to_owned(), links, "host.link_shared_by".to_owned()),
        ("nic".to_owned(), "nic".to_owned(), nics, "nics.shared_by".to_owned()),
    ];
    let of = |(name, class, by, path): (String, String, u32, String)| {
        let is_contended = step.report.critical_path.contention_s > 0.0;
        let promise_s = on_path(step, &class) * (1.0 - 1.0 / f64::from(by));
        let idea = || {
            let what = format!("{name}, shared by {by} devices");
            let set = format!("topology.node.{path}=1");
            Idea::set(CandidateKind::Limit, what, "without the sharing", &[&set]).promising(promise_s)
        };
        (by > 1 && is_contended && is_used(step, &class)).then(idea)
    };
    memories.chain(links).filter_map(of).collect()
}

/// True if anything of the step can cross a class: a tier that holds or passes something, links beyond a node of
/// several.
fn is_used(step: &BaseStep<'_>, class: &str) -> bool {
    let topology = &step.inputs.topology.value;
    let placements = step.inputs.workload.value.offload.classes();
    let mut placements = placements.iter().flat_map(|(_, placed)| placed.iter());
    let machine = &step.inputs.machine;
    let last = DeviceId(machine.devices().saturating_sub(1));
    match class.strip_prefix("tier.") {
        Some(tier) => placements.any(|p| p.tier == tier || p.via.iter().any(|via| via == tier)),
        None => match class {
            "host-link" => placements.any(|p| !p.on_device()),
            class if BETWEEN_NODES.contains(&class) => machine.node_of(last) > 0,
            "scale-up" => topology.node.as_ref().and_then(|node| node.devices).is_none_or(|n| n > 1),
            _ => true,
        },
    }
}
