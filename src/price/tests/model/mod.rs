//! Published parameter counts and memory tables, conservation under sharding, and golden numbers worked out apart.

mod autocast;
mod casts;
mod eager;
mod flops;
mod parameters;
mod recompute;
mod shards;

use stepsim_price::model::Shard;
use stepsim_spec::load;
use stepsim_spec::model::{AttentionKernel, ModelSpec};
use stepsim_spec::workload::{Granularity, RecomputeSpec};

fn model(name: &str) -> ModelSpec {
    load(name, &[]).unwrap_or_else(|e| panic!("{e}")).value
}
fn policy(granularity: Granularity) -> RecomputeSpec {
    RecomputeSpec { granularity, ..RecomputeSpec::default() }
}
/// GPT-3's layer as Korthikanti et al. have it.
fn korthikanti() -> (ModelSpec, Shard) {
    let mut m = model("gpt3-175b");
    m.attention.kernel = AttentionKernel::Standard;
    let s = Shard { tensor: 8, sequence_parallel: true, ..Shard::whole(&m) };
    (m, s)
}
