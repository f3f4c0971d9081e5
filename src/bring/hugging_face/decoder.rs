//! Decoders with attention in every layer that are more than data.

use super::config::{Config, EXPERTS, ModelResult, crossed, with_attention};
use super::table;
use stepsim_spec::SpecError;
use stepsim_spec::model::{AttentionSpec, GroupScore, IndexerSpec, MlaSpec, MoeSpec, QkNorm};

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

/// Latent attention of a configuration.
pub(super) fn latent(c: &Config) -> Result<MlaSpec, SpecError> {
    Ok(MlaSpec {
        q_lora_rank: c.optional(&["q_lora_rank"])?,
        kv_lora_rank: c.count(&["kv_lora_rank"])?,
        qk_nope_head_size: c.count(&["qk_nope_head_dim"])?,
        qk_rope_head_size: c.count(&["qk_rope_head_dim"])?,
        v_head_size: c.count(&["v_head_dim"])?,
    })
}

pub(super) fn deepseek(c: &Config) -> ModelResult {
    let mut m = c.decoder()?;
    (m.kv_heads, m.head_size) = (None, None);
    m.mla = Some(latent(c)?);
    m.attention.qkv_biases = c.flag("attention_bias", false).then_some(true);
    m.attention.output_bias = m.attention.qkv_biases;
    if let Some(top_k) = c.optional(&["index_topk"])? {
        let (heads, head_size) = (c.or(&["index_n_heads"], 64)?, c.or(&["index_head_dim"], 128)?);
        m.attention.indexer = Some(IndexerSpec { heads, head_size, top_k });
    }
    if c.optional(EXPERTS)?.is_some() {
        let corrected = c.text("topk_method").map_or(c.model_type() != "deepseek_v2", |t| t == "noaux_tc");
        m.moe = Some(MoeSpec {
            shared_experts: c.or(&["n_shared_experts"], 0)?,
            first_dense_layers: c.or(&["first_k_dense_replace"], 0)?,
            every_layers: c.or(&["moe_layer_freq"], 1)?,
            router_bias: corrected,
            groups: c.or(&["n_group"], 1)?.max(1),
            group_limit: c.optional(&["topk_group"])?.filter(|_| c.or(&["n_group"], 1).is_ok_and(|n| n > 1)),
            group_score: if corrected { GroupScore::SumOfBestTwo } else { GroupScore::Best },
            ..c.experts(Some(c.count(&["moe_intermediate_size"])?))?
        });
    }
    Ok(m)
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
