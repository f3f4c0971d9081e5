//! Decoders whose layers differ one by one: as a search found them, or local and global with heads of their own.

use std::collections::BTreeMap;

use serde_json::Value;

use super::config::{Config, ModelResult, with_attention, with_two};
use stepsim_spec::SpecError;
use stepsim_spec::model::{
    AttentionSpec, LayerKindSpec, LayerRun, Mixer, MlpKind, ModelSpec, MoeSpec, QkNorm,
};

/// Llama with blocks that a search thinned out: each has its attention, with its own number of query heads to a head
/// of keys, or none, and an MLP of its own width, or none (DeciLM: `block_configs`). The width is a multiple of 256.
pub(super) fn nemotron_nas(c: &Config) -> ModelResult {
    let hidden = c.count(&["hidden_size"])?;
    let mut m = c.decoder_of_class([("intermediate_size", 4 * hidden)])?;
    let blocks = c.objects("block_configs").ok_or_else(|| {
        SpecError::at("block_configs", "the field is missing").allowed("attention and MLP of each layer")
    })?;
    if blocks.len() as u64 != m.layers {
        let problem = format!("{} blocks for {} layers", blocks.len(), m.layers);
        return Err(SpecError::at("block_configs", problem).allowed("one a layer"));
    }
    let mut kinds: BTreeMap<String, LayerKindSpec> = BTreeMap::new();
    let mut pattern: Vec<LayerRun> = Vec::new();
    for (at, block) in blocks.iter().enumerate() {
        let (name, kind) = block_kind(block, &m).map_err(|problem| {
            SpecError::at(format!("block_configs[{at}]"), problem)
                .allowed("attention by n_heads_in_group or no_op, an MLP by ffn_mult or no_op")
        })?;
        kinds.insert(name.clone(), kind);
        match pattern.last_mut() {
            Some(run) if run.0 == name => run.1 += 1,
            _ => pattern.push(LayerRun(name, 1)),
        }
    }
    (m.layer_kinds, m.layer_pattern) = (kinds.into_iter().collect(), pattern);
    Ok(m)
}

/// The kind of one block, and its name.
fn block_kind(block: &Value, m: &ModelSpec) -> Result<(String, LayerKindSpec), String> {
    let part = |name: &str| block.get(name).ok_or_else(|| format!("has no {name}"));
    let (attention, ffn) = (part("attention")?, part("ffn")?);
    for (part, key) in [(attention, "replace_with_linear"), (ffn, "replace_with_linear")] {
        if part[key] == Value::Bool(true) {
            return Err(format!("{key} is not known"));
        }
    }
    let mut kind = LayerKindSpec::default();
    let mut name = String::new();
    if attention["no_op"] == Value::Bool(true) {
        kind.mixer = Some(Mixer::None);
        name += "none";
    } else {
        let group = attention["n_heads_in_group"].as_u64().filter(|n| *n > 0 && m.heads.is_multiple_of(*n));
        let group = group.ok_or_else(|| "n_heads_in_group is missing".to_string())?;
        kind.kv_heads = Some(m.heads / group);
        name += &format!("heads{}", m.heads / group);
    }
    if ffn["no_op"] == Value::Bool(true) {
        kind.mlp = Some(MlpKind::None);
        name += "-none";
    } else {
        let factor =
            ffn["ffn_mult"].as_f64().filter(|f| *f > 0.0).ok_or_else(|| "ffn_mult is missing".to_string())?;
        let width = ((2.0 * factor * m.hidden as f64 / 3.0) as u64).div_ceil(256) * 256;
        kind.ffn = Some(width);
        name += &format!("-{width}");
    }
    Ok((name, kind))
}

/// The layers with experts: a list, or all behind the first dense ones.
fn first_dense(c: &Config, usual: u64) -> Result<u64, SpecError> {
    match c.numbers("moe_layer_freq") {
        Some(list) => Ok(list.iter().take_while(|n| **n == 0).count() as u64),
        None => c.or(&["first_k_dense_replace"], usual),
    }
}

/// Dense layers in front, sparse attention in those that a list names: an indexer chooses blocks of keys, which are
/// counted as a window of as many; the indexer's weights are left out.
pub(super) fn minimax_m3(c: &Config) -> ModelResult {
    let mut m = c.decoder()?;
    m.ffn = c.or(&["dense_intermediate_size"], m.ffn)?;
    if c.flag("use_qk_norm", true) {
        m.attention.qk_norm = QkNorm::Head;
    }
    m.moe = Some(MoeSpec {
        shared_experts: c.or(&["n_shared_experts"], 1)?,
        first_dense_layers: first_dense(c, 3)?,
        router_bias: c.flag("use_routing_bias", true),
        ..c.experts(Some(c.count(&["moe_intermediate_size", "intermediate_size"])?))?
    });
    c.or(&["shared_intermediate_size"], 0)?;
    let Some(sparse) = c.part("sparse_attention_config") else { return Ok(m) };
    let listed = sparse.numbers("sparse_attention_freq").unwrap_or_default();
    for key in ["sparse_index_dim", "sparse_num_index_heads"] {
        sparse.or(&[key], 0)?;
    }
    let window = sparse.or(&["sparse_topk_blocks"], 16)? * sparse.or(&["sparse_block_size"], 128)?;
    let attention = AttentionSpec { window: Some(window), ..m.attention };
    let kinds = [("full", LayerKindSpec::default()), ("sparse", with_attention(attention))];
    Ok(with_two(m, kinds, |i| listed.get(i as usize) == Some(&1)))
}

/// Local layers with heads of keys of their own and sinks, one global in six. Values are narrower than keys: both have
/// the mean here, which is as many weights and products.
pub(super) fn mimo_v2(c: &Config) -> ModelResult {
    let mut m = c.decoder()?;
    let mean = |key: &str, value: &str, usual: u64| -> Result<u64, SpecError> {
        let key = c.or(&[key], usual)?;
        Ok((key + c.or(&[value], key)?) / 2)
    };
    let usual = m.hidden / m.heads.max(1);
    m.head_size = Some(mean("head_dim", "v_head_dim", usual)?);
    let heads = c.or(&["swa_num_attention_heads"], m.heads)?;
    let local = LayerKindSpec {
        heads: Some(heads).filter(|heads| *heads != m.heads),
        kv_heads: Some(c.or(&["swa_num_key_value_heads"], m.kv_heads.unwrap_or(m.heads))?),
        head_size: Some(mean("swa_head_dim", "swa_v_head_dim", usual)?)
            .filter(|size| Some(*size) != m.head_size),
        attention: Some(AttentionSpec {
            window: Some(c.count(&["sliding_window", "sliding_window_size"])?),
            sinks: c.flag("add_swa_attention_sink_bias", true),
            ..m.attention
        }),
        ..LayerKindSpec::default()
    };
    m.moe = Some(MoeSpec {
        shared_experts: c.or(&["n_shared_experts"], 0)?,
        first_dense_layers: first_dense(c, 1)?,
        router_bias: true,
        ..c.experts(Some(c.count(&["moe_intermediate_size"])?))?
    });
    let listed = c.numbers("hybrid_layer_pattern").unwrap_or_default();
    let kinds = [("global", LayerKindSpec::default()), ("local", local)];
    Ok(with_two(m, kinds, |i| listed.get(i as usize) == Some(&1)))
}
