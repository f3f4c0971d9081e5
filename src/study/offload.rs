//! Offload as a choice of a search: activations and optimizer state on the other tiers of a machine, and how far
//! ahead they are fetched.

use serde_json::{Value, json};

use super::base::StudyBase;
use super::options::SearchOptions;
use super::space::StudyAxis;
use stepsim_core::ids::DeviceId;
use stepsim_spec::SpecError;

const OPTIMIZER: &str = "offload.optimizer";
const ACTIVATIONS: &str = "offload.activations";
const DEPTH: &str = "offload.prefetch.depth";
/// Prefetch depths that are tried, in layers.
const DEPTHS: [u64; 3] = [1, 2, 4];

/// The assumptions about it, in words.
pub(super) const ASSUMED: &str =
    "offload: optimizer state, activations, both or none on one other tier, fetched 1, 2 or 4 layers ahead";

/// Nothing offloaded, and all of each class, or of both, on each other tier with each depth; of fields that are
/// given, the other fields only. `None` where all are given, or there is no other tier.
pub(super) fn axis(
    options: &SearchOptions,
    base: &StudyBase,
    fixed: &[String],
) -> Result<Option<StudyAxis>, SpecError> {
    let (workload, site) = base.unchecked(fixed)?;
    let machine = site.machine();
    let tiers: Vec<String> =
        machine.tiers_of(DeviceId(0)).skip(1).map(|tier| machine.tier(tier).0.to_string()).collect();
    let paths: Vec<&str> =
        [OPTIMIZER, ACTIVATIONS, DEPTH].into_iter().filter(|path| !options.asks(path)).collect();
    let state = workload.bytes_per_parameter().optimizer() > 0.0;
    let mut values = vec![row(&paths, None, [false, false], DEPTHS[0])];
    for tier in &tiers {
        for away in [[true, false], [false, true], [true, true]] {
            for depth in DEPTHS {
                let value = row(&paths, Some(tier), away, depth);
                if (state || !away[0]) && !values.contains(&value) {
                    values.push(value);
                }
            }
        }
    }
    let paths = paths.into_iter().map(str::to_string).collect();
    Ok((values.len() > 1).then(|| StudyAxis::of(paths, values)))
}

/// The values of the paths with optimizer state and activations on a tier or here.
fn row(paths: &[&str], tier: Option<&String>, [optimizer, activations]: [bool; 2], depth: u64) -> Vec<Value> {
    let placed = |away: bool| match tier.filter(|_| away) {
        Some(tier) => json!([{"fraction": 1.0, "tier": tier}]),
        None => json!([]),
    };
    let value = |path: &&str| match *path {
        OPTIMIZER => placed(optimizer),
        ACTIVATIONS => placed(activations),
        _ => json!(depth),
    };
    paths.iter().map(value).collect()
}
