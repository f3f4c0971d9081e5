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
    let mut before: Vec<String> = Vec::new();
    let mut found = Vec::new();
    let mut add = |before: &mut Vec<String>, what: &str, sets: &[&str]| {
        let sets = before.iter().cloned().chain(sets.iter().map(ToString::to_string)).collect();
        found.push(Relief { what: what.to_string(), sets });
    };
    for sequences in smaller_micro_batches(d) {
        let size = format!("batch.micro_batch={sequences}");
        add(&mut before, &format!("micro-batches of {sequences}"), &[&size]);
    }
    // A kernel of its own makes each part's gradient beside its loss: parts cost nothing, so they are seldom printed.
    if !stated("loss") && has_loss_kernel(d) {
        let parts = "loss.tiles=8";
        add(&mut before, "logits of an eighth of the tokens at a time", &[parts]);
        before.push(parts.to_string());
    }
    if d.layout.data > 1 && !stated("parallelism.sharding") {
        let cut = "parallelism.sharding.kind=zero1";
        add(&mut before, "optimizer state cut over replicas (ZeRO-1)", &[cut]);
        before.push(cut.to_string());
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
            add(
                &mut before,
                &format!("recomputation of {}", parts.join(", ")),
                &["recompute.granularity=modules", &modules],
            );
        }
        add(&mut before, "recomputation of whole layers", &[FULL]);
    }
    let whole = !stated("recompute") || d.workload["recompute"]["granularity"] == "full";
    if whole && !stated("offload") {
        add(&mut before, "recomputation of whole layers, their inputs on the host", &[FULL, HOST]);
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
