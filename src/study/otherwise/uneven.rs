//! Unequal ranks: work that is dealt out unevenly, and the same dealt out evenly.

use serde_json::json;

use super::choices::named;
use super::idea::LAYERS_DEALT_OUT;
use super::{BaseStep, CandidateKind, Idea, Remedy};
use stepsim_read::analysis::answer::heavier;
use stepsim_simulate::whatif::{Change, Subject};
use stepsim_spec::workload::{ExpertBalance, ParallelismSpec};

/// A stage that computes longer than the mean by this part is heavy.
const HEAVY: f64 = 0.005;

/// The uneven ones among experts, documents, images, context and stages of a step.
pub(super) fn of(step: &BaseStep<'_>) -> Vec<Idea> {
    let w = &step.inputs.workload.value;
    let mut ideas = Vec::new();
    ideas.extend(experts(step));
    let replicas = w.data_parallel(u64::from(step.inputs.machine.devices())) > 1;
    if let Some(documents) = &w.documents {
        if documents.order.is_packed() && replicas {
            let orders =
                [("costliest first to the rank with least", "balanced"), ("sorted by cost", "sorted")];
            ideas.extend(orders.map(|(words, order)| {
                uneven("documents, as packed", words, &[&format!("documents.order={order}")])
            }));
        }
        if w.parallelism.context.size > 1 && !w.parallelism.context.per_document {
            let set = "parallelism.context.per_document=true";
            ideas.push(uneven("documents over context ranks, by sequence", "by document", &[set]));
        }
    }
    for (name, images) in &w.modules {
        let vary = images.counts.is_some() || images.drawn.is_some();
        if vary && images.order.is_packed() && replicas {
            let what = format!("images of {name}, as they come");
            let balanced = format!("modules.{name}.order=balanced");
            ideas.push(uneven(&what, "most first to the rank with fewest", &[&balanced]));
            let exchange = format!("modules.{name}.exchange=true");
            ideas.push(uneven(&what, "shared by ranks", &[&exchange]));
        }
    }
    if w.parallelism.context.size > 1 && !w.parallelism.context.zigzag {
        let set = "parallelism.context.zigzag=true";
        ideas.push(uneven("causal attention over context ranks, in order", "zigzag", &[set]));
    }
    ideas.extend(placement(step));
    ideas.extend(heavy_stage(step));
    ideas
}

fn uneven(what: &str, otherwise: &str, sets: &[&str]) -> Idea {
    Idea::set(CandidateKind::Uneven, what, otherwise, sets)
}

fn experts(step: &BaseStep<'_>) -> Option<Idea> {
    let load = &step.inputs.workload.value.expert_load;
    step.inputs.model.moe.as_ref()?;
    let how = match load.balance {
        ExpertBalance::Even => return None,
        ExpertBalance::Factor | ExpertBalance::Seeded => format!("fullest rank ×{}", load.max_over_mean),
        ExpertBalance::Spread => format!("rows of a rank vary by {} %", 100.0 * load.rows_cv),
        ExpertBalance::File => "as counted".to_owned(),
    };
    let sets = Subject::Experts.sets(step.inputs);
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    Some(uneven(&format!("experts' imbalance ({how})"), "even", &sets))
}

/// Ranks on devices as a file says, or with other axes next to each other than usual.
fn placement(step: &BaseStep<'_>) -> Vec<Idea> {
    let p = &step.inputs.workload.value.parallelism;
    let mut ideas = Vec::new();
    if p.rank_map.is_some() {
        ideas.push(uneven("placement, by a map of ranks", "in order", &["parallelism.rank_map=null"]));
    }
    let usual = ParallelismSpec::default().order;
    if p.order != usual {
        let set = format!("parallelism.order={}", json!(usual));
        let [now, then] =
            [&p.order, &usual].map(|order| order.iter().map(named).collect::<Vec<_>>().join(", "));
        ideas.push(uneven(&format!("placement, {now}"), &then, &[&set]));
    }
    ideas
}

/// The longest of several stages: with layers dealt out anew where the file deals them out, else level with the others.
fn heavy_stage(step: &BaseStep<'_>) -> Option<Idea> {
    let r = step.report;
    let mean = r.stages.iter().map(|s| s.time.busy_s).sum::<f64>() / r.stages.len().max(1) as f64;
    let longest = r.stages.iter().max_by(|a, b| a.time.busy_s.total_cmp(&b.time.busy_s))?;
    let pipeline = &step.inputs.workload.value.parallelism.pipeline;
    if longest.time.busy_s - mean < HEAVY * mean {
        return None;
    }
    let why = heavier(r, longest).map_or(String::new(), |why| format!(" ({why})"));
    let what = format!("stage {}{why}", longest.stage);
    if pipeline.layer_split.is_some() {
        return Some(uneven(&what, "layers as even as can be", &[LAYERS_DEALT_OUT]));
    }
    let way = Remedy::Without(Change { subject: Subject::Imbalance, factor: 1.0 });
    let idea = Idea::of(CandidateKind::Uneven, what, "level with the others", way);
    Some(idea.promising(longest.time.busy_s - mean))
}
