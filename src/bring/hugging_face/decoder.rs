//! Decoders with attention in every layer that are more than data.

use super::config::{Config, ModelResult, crossed, with_attention};
use super::table;
use stepsim_spec::model::{AttentionSpec, MoeSpec, QkNorm};

pub(super) fn llama4(c: &Config) -> ModelResult {
    let mut m = table::model(c, "llama4")?;
    let width = c.count(&["intermediate_size"])?;
    m.ffn = c.or(&["intermediate_size_mlp"], width)?;
    m.moe = Some(MoeSpec { shared_ffn: Some(width), ..c.experts(Some(width))? });
    let step = c.or(&["interleave_moe_layer_step"], 1)?.max(1);
    let listed = c.numbers("moe_layers");
    let sparse = |i: u64| match &listed {
        Some(list) => list.contains(&i),
        None => (i + 1).is_multiple_of(step),
    };
    let rotated = c.numbers("no_rope_layers").filter(|list| !list.is_empty());
    let plain = |i: u64| match &rotated {
        Some(list) => list.get(i as usize) == Some(&0),
        None => (i + 1).is_multiple_of(4),
    };
    let chunked = AttentionSpec { chunk: Some(c.or(&["attention_chunk_size"], 8192)?), ..m.attention };
    let nope = AttentionSpec { rotary: Some(false), qk_norm: QkNorm::None, ..m.attention };
    let names = ["chunked", "chunked_experts", "nope", "nope_experts"];
    Ok(crossed(m, names, [chunked, nope].map(with_attention), |i| [plain(i), sparse(i)]))
}

/// Dense, or with experts in every layer; lists have an entry a layer, all alike.
pub(super) fn hunyuan(c: &Config) -> ModelResult {
    let mut m = table::model(c, "hunyuan")?;
    let count = c.alike("num_experts")?.unwrap_or(1);
    if count > 1 {
        let width = c.alike("moe_intermediate_size")?.unwrap_or(m.ffn);
        let shared = c.alike("num_shared_expert")?.unwrap_or(1);
        let top_k = c.alike("moe_topk")?.unwrap_or(1);
        m.moe =
            Some(MoeSpec { ffn: Some(width), shared_ffn: Some(shared * m.ffn), ..MoeSpec::of(count, top_k) });
    }
    Ok(m)
}
