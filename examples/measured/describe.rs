//! From a published row to a workload and a machine.
//!
//! One rule for each source, none for a row: what the source says is taken, what it leaves out is what its software
//! does by default. A row that leaves out more is skipped with the reason.

use serde_json::{Value, json};

use crate::rows::Row;

/// What to simulate for a row, and what was measured.
#[derive(Clone, Debug)]
pub struct Case {
    /// The workload with its model.
    pub workload: Value,
    /// Name of the machine.
    pub topology: &'static str,
    /// Settings of the machine.
    pub sets: Vec<String>,
    /// The measured step in seconds; `None` where the row gives a fraction of peak.
    pub step_s: Option<f64>,
    /// Measured model FLOPs over peak (attention in full), where no time is given.
    pub mfu: Option<f64>,
}

/// The case of a row.
///
/// # Errors
/// What the row lacks.
pub fn case(row: &Row) -> Result<Case, String> {
    if !row.is_step() {
        return Err("one layer, not a step".into());
    }
    let workload = match row.source() {
        "megatron-sc21" | "korthikanti2022" | "zero-bubble" => megatron(row)?,
        "vtrain-multinode" | "vtrain-singlenode" => vtrain(row)?,
        "llm-foundry-mpt" => foundry(row)?,
        "nanotron-ultrascale" => nanotron(row)?,
        "simumax-b200" => simumax(row)?,
        "nemo-24" => nemo(row)?,
        other => return Err(format!("no rule for {other}")),
    };
    let (topology, sets) = machine(row)?;
    let step_s = row.number("step_time_s");
    let mfu = row.number("mfu").filter(|_| row.source() == "nanotron-ultrascale");
    if step_s.is_none() && mfu.is_none() {
        return Err("no step time".into());
    }
    Ok(Case { workload, topology, sets, step_s, mfu })
}

/// The machine: its shipped description with the row's number of nodes.
fn machine(row: &Row) -> Result<(&'static str, Vec<String>), String> {
    let devices = row.needs("n_devices")?;
    let device = row.text("device");
    let (name, replaced) = match device {
        d if d.starts_with("A100-40") => ("dgx-a100", Some("a100-sxm-40")),
        d if d.starts_with("A100") => ("dgx-a100", None),
        d if d.starts_with("H100") => ("h100-superpod", None),
        d if d.starts_with("B200") => ("p6-b200", None),
        d => return Err(format!("no machine for {d}")),
    };
    let node = row.count("devices_per_node").unwrap_or(8);
    if devices > node && !devices.is_multiple_of(node) {
        return Err(format!("{devices} devices are not whole nodes of {node}"));
    }
    let mut sets = vec![format!("nodes={}", devices.div_ceil(node))];
    if devices < node {
        sets.push(format!("node.devices={devices}"));
    }
    if row.text("inter_node").starts_with("800 Gb/s") {
        sets.push("node.nics.link.bandwidth_GBps_per_direction=12.5".into());
    }
    if let Some(other) = replaced {
        sets.push(format!("device={other}"));
    }
    Ok((name, sets))
}

/// A GPT of Megatron-LM: learned positions, biases, dropout, a tied table, attention in kernels of its own.
fn gpt(row: &Row) -> Result<Value, String> {
    Ok(json!({
        "name": row.text("model"),
        "layers": row.needs("layers")?,
        "hidden": row.needs("hidden")?,
        "heads": row.needs("heads")?,
        "ffn": row.count("ffn").unwrap_or(4 * row.needs("hidden")?),
        "vocabulary": row.count("vocab").unwrap_or(unprinted_vocabulary(row)),
        "sequence": row.needs("seq")?,
        "tied_embeddings": true,
        "positions": "learned",
        "biases": true,
        "norm": "layer",
        "dropout": true,
        "attention": {"kernel": "standard"},
    }))
}

/// 50,257 tokens of GPT-2, padded: Megatron's vocabulary wherever it is printed. The models of the zero-bubble paper
/// have fewer: with 12·layers·hidden² taken away, all four printed parameter counts leave 27 to 35 thousand rows.
fn unprinted_vocabulary(row: &Row) -> u64 {
    if row.source() == "zero-bubble" { 32000 } else { 51200 }
}

fn recompute(row: &Row) -> Value {
    let text = row.text("recompute");
    let granularity = match text {
        t if t.starts_with("full") => "full",
        t if t.starts_with("selective") => "selective",
        _ => "none",
    };
    json!({"granularity": granularity})
}

fn batch(row: &Row) -> Result<Value, String> {
    Ok(json!({"global": row.needs("gbs_seqs")?, "micro_batch": row.needs("mbs_seqs")?}))
}

fn pipeline(row: &Row) -> Result<Value, String> {
    let (size, chunks) = (row.degree("pp"), row.degree("vp"));
    let schedule = match row.text("pp_schedule") {
        "1F1B" | "" if chunks == 1 => "1f1b",
        "1F1B" | "" | "interleaved 1F1B" | "1F1B-I" => "interleaved",
        // The paper searches these orders, within the memory of p and of 2p micro-batches.
        "ZB-1p" | "ZB-2p" | "ZB-2p*" => "zb-auto",
        "ZB-V" => "zb-v",
        other => return Err(format!("schedule {other}")),
    };
    let mut pipeline = json!({"size": size, "schedule": schedule});
    if row.text("pp_schedule") == "ZB-1p" {
        pipeline["activation_limit"] = size.into();
    }
    if chunks > 1 {
        pipeline["chunks"] = chunks.into();
    }
    Ok(pipeline)
}

/// Megatron-LM of 2021 and 2022: fp16 with fp32 master weights, gradients reduced behind the last pass, pipeline
/// messages that the compute stream waits for, cut over the tensor-parallel ranks on their way (SC'21, section 4.1).
fn megatron(row: &Row) -> Result<Value, String> {
    if row.count("mbs_seqs").is_none() {
        return Err("no mbs_seqs".into());
    }
    let zero3 = row.text("sharding").starts_with("ZeRO-3");
    let mut pipeline = pipeline(row)?;
    if row.source() == "zero-bubble" {
        // The first and the last stage hold one layer less, for the embedding and the head.
        let stages = row.degree("pp") * row.degree("vp");
        pipeline["layer_split"] = ends_less(row.needs("layers")?, stages)?.into();
    }
    // Zero-bubble schedules send beside compute.
    if !row.text("pp_schedule").starts_with("ZB") {
        pipeline["p2p"] = "batched".into();
        pipeline["scatter_gather"] = (row.degree("tp") > 1).into();
    }
    let mut workload = json!({
        "model": gpt(row)?,
        "batch": batch(row)?,
        "parallelism": {
            "tensor": row.degree("tp"),
            "sequence_parallel": row.0["seq_parallel"] == true,
            "pipeline": pipeline,
            "sharding": {"kind": if zero3 { "zero3" } else { "none" }},
        },
        "precision": {"compute": "fp16", "weights": "fp16", "gradients": "fp16"},
        "fusion": if row.source() == "megatron-sc21" { "partial" } else { "partial-accumulating" },
        "gradient_buckets": {"overlap": zero3, "bucket_bytes": 400_000_000},
        "recompute": recompute(row),
    });
    if zero3 {
        workload["gradient_buckets"]["reduce_every_micro_batch"] = true.into();
    }
    Ok(workload)
}

/// Layers of each stage where the first and the last have one less than the rest.
fn ends_less(layers: u64, stages: u64) -> Result<Vec<u64>, String> {
    if !(layers + 2).is_multiple_of(stages) {
        return Err(format!("{layers} layers do not make {stages} stages with one less at the ends"));
    }
    let each = (layers + 2) / stages;
    Ok((0..stages).map(|s| each - u64::from(s == 0) - u64::from(s + 1 == stages)).collect())
}

/// Megatron-DeepSpeed in half precision; its pipeline engine reduces gradients behind the last pass.
fn vtrain(row: &Row) -> Result<Value, String> {
    let mut pipeline = pipeline(row)?;
    pipeline["p2p"] = "batched".into();
    Ok(json!({
        "model": gpt(row)?,
        "batch": batch(row)?,
        "parallelism": {"tensor": row.degree("tp"), "pipeline": pipeline, "data": row.degree("dp")},
        "precision": {"compute": "fp16", "weights": "fp16", "gradients": "fp16"},
        "fusion": "partial",
        "gradient_buckets": {"overlap": false, "bucket_bytes": 500_000_000},
        "recompute": recompute(row),
    }))
}

/// MPT under PyTorch FSDP: ALiBi, no biases, a tied table, flash attention.
fn foundry(row: &Row) -> Result<Value, String> {
    let pure = row.text("precision").ends_with("PURE");
    let fp8 = row.text("precision").contains("fp8");
    let devices = row.needs("n_devices")?;
    let kind = if row.text("sharding").ends_with("SHARD_GRAD_OP") { "zero2" } else { "zero3" };
    let mut workload = json!({
        "model": {
            "name": row.text("model"),
            "layers": row.needs("layers")?, "hidden": row.needs("hidden")?, "heads": row.needs("heads")?,
            "ffn": row.needs("ffn")?, "vocabulary": row.needs("vocab")?, "sequence": row.needs("seq")?,
            "tied_embeddings": true, "positions": "none", "norm": "layer-no-bias",
        },
        "batch": {
            "global": row.needs("mbs_seqs")? * row.degree("grad_accum") * devices,
            "micro_batch": row.needs("mbs_seqs")?,
        },
        "parallelism": {"sharding": {"kind": kind}},
        "precision": {"gradient_communication": if pure { "bf16" } else { "fp32" }},
        "fusion": "none",
        "gradient_buckets": {"reduce_every_micro_batch": kind == "zero3"},
        "recompute": recompute(row),
    });
    if fp8 {
        workload["precision"]["fp8"] = json!({});
    }
    Ok(workload)
}

/// Llama-shaped models of the Ultra-Scale Playbook. Only the parameter counts are printed; the shapes of Llama 3.2
/// 1B and 3B (tied table) and of Llama 3.1 8B and 70B (untied) with as many key as query heads and a vocabulary of
/// 131,072 give exactly these counts.
fn nanotron(row: &Row) -> Result<Value, String> {
    let (layers, hidden, heads, ffn, tied) = match row.text("model") {
        m if m.ends_with("1.34B") => (16, 2048, 32, 8192, true),
        m if m.ends_with("3.57B") => (28, 3072, 32, 8192, true),
        m if m.ends_with("8.86B") => (32, 4096, 32, 14336, false),
        m if m.ends_with("80.00B") => (80, 8192, 64, 28672, false),
        m => return Err(format!("no dimensions of {m}")),
    };
    let sharding = if row.text("sharding") == "ZeRO-1" { "zero1" } else { "none" };
    Ok(json!({
        "model": {
            "name": row.text("model"), "layers": layers, "hidden": hidden, "heads": heads, "ffn": ffn,
            "gated_mlp": true, "tied_embeddings": tied, "vocabulary": row.needs("vocab")?,
            "sequence": row.needs("seq")?,
        },
        "batch": batch(row)?,
        "parallelism": {
            "tensor": row.degree("tp"),
            "sequence_parallel": row.degree("tp") > 1,
            "pipeline": {"size": row.degree("pp"), "p2p": "blocking"},
            "sharding": {"kind": sharding},
        },
        "fusion": "none",
    }))
}

/// Megatron-LM 0.14 on one node, no overlap anywhere.
fn simumax(row: &Row) -> Result<Value, String> {
    let layers = row.needs("layers")?;
    let mut model = json!({
        "name": row.text("model"),
        "layers": layers, "hidden": row.needs("hidden")?, "heads": row.needs("heads")?,
        "ffn": row.needs("ffn")?, "vocabulary": row.needs("vocab")?, "sequence": row.needs("seq")?,
        "gated_mlp": true,
    });
    match row.text("model_ref") {
        "simumax:deepseekv2" | "simumax:deepseekv3" => {
            let v3 = row.text("model_ref").ends_with("v3");
            model["moe"] = json!({
                "experts": if v3 { 256 } else { 160 }, "top_k": if v3 { 8 } else { 6 },
                "ffn": if v3 { 2048 } else { 1536 }, "shared_experts": if v3 { 1 } else { 2 },
                "first_dense_layers": if v3 { 3.min(layers - 1) } else { 1 },
            });
            model["mla"] = json!({
                "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_size": 128, "qk_rope_head_size": 64,
                "v_head_size": 128,
            });
        }
        _ => {
            model["kv_heads"] = row.needs("kv_heads")?.into();
            model["head_size"] = row.needs("head_dim")?.into();
        }
    }
    let tensor = row.degree("tp");
    Ok(json!({
        "model": model,
        "batch": batch(row)?,
        "parallelism": {
            "tensor": tensor, "sequence_parallel": tensor > 1, "expert": row.degree("ep"),
            "context": {"size": row.degree("cp")},
            "pipeline": pipeline(row)?,
            "sharding": {"kind": "zero1"},
        },
        "gradient_buckets": {"overlap": false, "overlap_weight_gather": false, "bucket_bytes": 400_000_000},
    }))
}

/// NeMo 24: fp8 with Transformer Engine, tensor-parallel overlap, distributed optimizer.
fn nemo(row: &Row) -> Result<Value, String> {
    let model = match row.text("model") {
        "GPT3-175B" => "gpt3-175b",
        "LLAMA3-8B" => "llama3-8b",
        "LLAMA3-70B" => "llama3-70b",
        other => return Err(format!("no dimensions of {other}")),
    };
    let shape: stepsim::spec::Loaded<stepsim::spec::ModelSpec> =
        stepsim::spec::load(model, &[]).map_err(|e| e.to_string())?;
    let tensor = row.degree("tp");
    if row.text("notes").starts_with("task:") {
        return Err("fine-tuning".into());
    }
    Ok(json!({
        "model": serde_json::to_value(&shape.value).map_err(|e| e.to_string())?,
        "sequence": row.needs("seq")?,
        "batch": batch(row)?,
        "parallelism": {
            "tensor": tensor, "sequence_parallel": tensor > 1, "tensor_overlap": if tensor > 1 { "pipelined" } else { "none" },
            "context": {"size": row.degree("cp")},
            "pipeline": pipeline(row)?,
            "sharding": {"kind": "zero1"},
        },
        "precision": {"fp8": {}, "gradient_communication": "bf16"},
        "gradient_buckets": {"bucket_bytes": 80_000_000},
    }))
}
