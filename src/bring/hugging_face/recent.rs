//! Decoders whose layers differ one by one, as a search found them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::config::{Config, ModelResult};
use stepsim_spec::SpecError;
use stepsim_spec::model::{LayerKindSpec, LayerRun, Mixer, MlpKind, ModelSpec};

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
    if [attention, ffn].iter().any(|part| part["replace_with_linear"] == true) {
        return Err("replace_with_linear is not known".to_owned());
    }
    let mut kind = LayerKindSpec::default();
    let mut name = String::new();
    if attention["no_op"] == true {
        kind.mixer = Some(Mixer::None);
        name += "none";
    } else {
        let group = attention["n_heads_in_group"].as_u64().filter(|n| *n > 0 && m.heads.is_multiple_of(*n));
        let group = group.ok_or_else(|| "n_heads_in_group is missing".to_string())?;
        kind.kv_heads = Some(m.heads / group);
        name += &format!("heads{}", m.heads / group);
    }
    if ffn["no_op"] == true {
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
