//! The workload of a row: degrees and batch from its columns, how they are carried out from rules.

use serde_json::{Value, json};

use super::book::Ruling;
use super::columns::DescribedColumns;
use super::encoders::encoders;
use super::layout::DescribedLayout;
use super::model::put;
use super::stages::layer_split;
use stepsim_schedule::{self as schedule, ChunkCount};
use stepsim_spec::{ModelSpec, StackSpec, load, merge};

/// The workload as JSON, with its model.
///
/// # Errors
/// A column contradicts the rest.
pub fn workload(
    ruling: &mut Ruling,
    layout: &DescribedLayout,
    model: &ModelSpec,
    shape: Value,
) -> Result<Value, String> {
    let scheduled = ruling.workload.pointer("/parallelism/pipeline/schedule").and_then(Value::as_str);
    let scheduled = scheduled.map(str::to_string);
    let c = &mut ruling.columns;
    let mut pipeline = json!({"size": layout.pipeline});
    let chunks = chunks(c, scheduled.as_deref(), model.layers, layout.pipeline);
    if layout.pipeline > 1 {
        pipeline["schedule"] = if chunks > 1 { "interleaved" } else { "1f1b" }.into();
        if chunks > 1 {
            pipeline["chunks"] = chunks.into();
        }
        // With two directions each stage is held twice.
        let stages =
            if scheduled.as_deref() == Some("dualpipe") { layout.pipeline } else { layout.pipeline * chunks };
        put(&mut pipeline, "layer_split", layer_split(c, model.layers, stages));
    }
    let mut parallelism = json!({
        "tensor": layout.tensor,
        "context": {"size": layout.context},
        "pipeline": pipeline,
        "data": layout.data,
    });
    let parallel = c.get("seq_parallel").as_bool();
    put(&mut parallelism, "sequence_parallel", parallel.map(|parallel| parallel && layout.tensor > 1));
    if model.moe.is_some() {
        let expert = c.degree("ep");
        parallelism["expert"] = expert.into();
        // Experts are cut over the tensor degree only where enough ranks hold a stage.
        let ranks = layout.data * layout.context * layout.tensor;
        let cut = c.count("expert_tp").filter(|cut| ranks.is_multiple_of((expert * cut).max(1)));
        put(&mut parallelism, "expert_tensor", cut);
    } else if c.amount_is("ep", 1) {
        c.heed("ep");
    }
    let mut whole = json!({
        "model": shape,
        "batch": {"global": layout.global, "micro_batch": layout.micro_batch},
        "parallelism": parallelism,
    });
    if c.has("stack") {
        whole["stack"] = stack(&c.text("stack"), ruling.workload.get("stack").is_some())?;
    }
    put(&mut whole, "modules", encoders(c, model));
    if let Some(fraction) = offloaded(c, model.layers) {
        let stays = (fraction < 1.0).then(|| json!({"fraction": 1.0 - fraction, "tier": "hbm"}));
        let host = json!({"fraction": fraction, "tier": "host"});
        whole["offload"]["activations"] = std::iter::once(host).chain(stays).collect();
    }
    merge(&mut whole, ruling.workload.clone());
    // A pipeline of one rank has no schedule, and one chunk no interleaving, whatever a description says.
    if layout.pipeline == 1 {
        whole["parallelism"]["pipeline"] = json!({"size": 1});
    } else if chunks == 1 && whole["parallelism"]["pipeline"]["schedule"] == "interleaved" {
        whole["parallelism"]["pipeline"]["schedule"] = "1f1b".into();
    }
    // A rule may ask for sequence parallelism wherever there is tensor parallelism.
    if layout.tensor == 1 {
        whole["parallelism"]["sequence_parallel"] = false.into();
        whole["parallelism"]["tensor_overlap"] = "none".into();
    }
    Ok(whole)
}

/// The share of a model's layers whose activations go to the host: a number, or one in front of the word in a text,
/// as in "activations of 20 layers to host memory" (Megatron's `cpu_offloading_num_layers`).
fn offloaded(c: &DescribedColumns, layers: u64) -> Option<f64> {
    let text = c.peek("activation_offload").as_str().unwrap_or_default().to_lowercase();
    let words: Vec<&str> = text.split(|letter: char| !letter.is_alphanumeric()).collect();
    let named =
        words.windows(2).find(|pair| pair[1].starts_with("layer")).and_then(|pair| pair[0].parse().ok());
    let offloaded = named.or_else(|| c.peek("activation_offload").as_f64())?;
    c.heed("activation_offload");
    Some(offloaded.min(layers as f64) / layers as f64).filter(|share| *share > 0.0)
}

/// The stack by its name, or written out where rules change a field of it.
fn stack(name: &str, written_out: bool) -> Result<Value, String> {
    if !written_out {
        return Ok(name.into());
    }
    let stack = load::<StackSpec>(name, &[]).map_err(|e| e.to_string().replace('\n', "; "))?;
    stepsim_located::to_value(stack.value).map_err(|e| e.to_string())
}

/// Model chunks of a rank: as printed, what the schedule asks for, or two where it is interleaved and nothing says
/// how many (torch's stages of a rank).
fn chunks(c: &mut DescribedColumns, schedule: Option<&str>, layers: u64, stages: u64) -> u64 {
    let printed = c.degree("vp");
    let by_definition =
        schedule.and_then(|name| schedule::find(name).ok()).and_then(|known| match known.facts().chunks {
            ChunkCount::Exactly(n) => Some(u64::from(n)).filter(|n| *n > 1),
            ChunkCount::AtLeast(..) => None,
        });
    match (by_definition, schedule) {
        (Some(n), _) if stages > 1 => {
            if c.count("vp") != Some(n) {
                c.assume("vp", n.into(), "so many chunks a rank the schedule has");
            }
            n
        }
        (None, Some("interleaved")) if printed == 1 && stages > 1 && layers >= 2 * stages => {
            c.assume("vp", 2.into(), "interleaved without a number of chunks: two a rank, as torch has it");
            2
        }
        _ => printed,
    }
}
