//! What a run that does not fit where it ran may have done unasked: the least recomputation, sharding or offload that fits.

use super::description::Description;
use super::origin::From;

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
        |path: &str| d.fields.iter().any(|f| f.path.starts_with(path) && f.origin.from == From::Stated);
    let mut before: Vec<String> = Vec::new();
    let mut found = Vec::new();
    let mut add = |before: &mut Vec<String>, what: &str, sets: &[&str]| {
        let sets = before.iter().cloned().chain(sets.iter().map(ToString::to_string)).collect();
        found.push(Relief { what: what.to_string(), sets });
    };
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
        let full = "recompute.granularity=full";
        add(&mut before, "recomputation of whole layers", &[full]);
        if !stated("offload") {
            let host = "offload.activations=[{\"fraction\":1.0,\"tier\":\"host\"}]";
            add(&mut before, "recomputation of whole layers, their inputs on the host", &[full, host]);
        }
    }
    found
}
