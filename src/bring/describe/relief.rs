//! Unstated changes of a run that does not fit where it ran: the least recomputation, sharding or offload that fits.

use super::description::Description;
use super::origin::ValueClass;
use stepsim_spec::load;
use stepsim_spec::stack::{FusedPart, StackSpec};

/// A way to need less memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Relief {
    /// In words.
    pub what: String,
    /// Settings of the workload.
    pub sets: Vec<String>,
}

/// Ways that leave alone what is stated, the least first.
pub fn reliefs(d: &Description) -> Vec<Relief> {
    let stated =
        |path: &str| d.fields.iter().any(|f| f.path.starts_with(path) && f.origin.from == ValueClass::Stated);
    let (mut before, mut found): (Vec<String>, Vec<Relief>) = Default::default();
    let relief = |before: &[String], what: &str, sets: &[&str]| {
        let sets = before.iter().cloned().chain(sets.iter().map(ToString::to_string)).collect();
        Relief { what: what.to_string(), sets }
    };
    for sequences in smaller_micro_batches(d) {
        let size = format!("batch.micro_batch={sequences}");
        found.push(relief(&before, &format!("micro-batches of {sequences}"), &[&size]));
    }
    // A kernel of its own makes each part's gradient beside its loss: parts cost nothing, so they are seldom printed.
    let tiles = !stated("loss") && has_loss_kernel(d);
    let cut = d.layout.data > 1 && !stated("parallelism.sharding");
    let kept = [
        (tiles, "logits of an eighth of the tokens at a time", "loss.tiles=8"),
        (cut, "optimizer state cut over replicas (ZeRO-1)", "parallelism.sharding.kind=zero1"),
    ];
    for (_, what, set) in kept.into_iter().filter(|(is_open, ..)| *is_open) {
        found.push(relief(&before, what, &[set]));
        before.push(set.to_string());
    }
    if !stated("recompute") {
        let experts = d.model.moe.is_some();
        let widest = if experts { "moe" } else { "mlp" };
        for parts in [
            &["norm", "activation"][..],
            &["norm", "activation", "attention-core"],
            &["norm", "attention-core", widest],
        ] {
            let list = parts.iter().map(|p| format!("\"{p}\"")).collect::<Vec<_>>().join(",");
            let modules = format!("recompute.modules=[{list}]");
            let what = format!("recomputation of {}", parts.join(", "));
            found.push(relief(&before, &what, &["recompute.granularity=modules", &modules]));
        }
        found.push(relief(&before, "recomputation of whole layers", &[FULL]));
    }
    let whole = !stated("recompute") || d.workload["recompute"]["granularity"] == "full";
    if whole && !stated("offload") {
        found.push(relief(&before, "recomputation of whole layers, their inputs on the host", &[FULL, HOST]));
    }
    found
}

/// True if the software has a kernel of its own for the loss.
fn has_loss_kernel(d: &Description) -> bool {
    let stack = &d.workload["stack"];
    let named = stack.as_str().map_or_else(|| stack.to_string(), str::to_owned);
    load::<StackSpec>(&named, &[]).is_ok_and(|stack| stack.value.fused.contains(&FusedPart::Loss))
}

/// Halves of an unstated micro-batch: a guess that cannot have run goes before anything that the software did.
fn smaller_micro_batches(d: &Description) -> Vec<u64> {
    let guessed =
        |f: &&super::DescribedField| f.path == "batch.micro_batch" && f.origin.from != ValueClass::Stated;
    if d.fields.iter().find(guessed).is_none() || d.ruling.columns.has("grad_accum") {
        return Vec::new();
    }
    std::iter::successors(Some(d.layout.micro_batch), |n| n.is_multiple_of(2).then_some(n / 2))
        .skip(1)
        .collect()
}

const FULL: &str = "recompute.granularity=full";
const HOST: &str = "offload.activations=[{\"fraction\":1.0,\"tier\":\"host\"}]";
