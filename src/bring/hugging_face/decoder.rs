//! Decoders with attention in every layer.

use super::config::{Config, ModelResult, crossed, with_attention, with_two};
use stepsim_spec::SpecError;
use stepsim_spec::model::{
    AttentionSpec, GroupScore, IndexerSpec, LayerKindSpec, MlaSpec, MlpKind, ModelSpec, MoeSpec, Norm, QkNorm,
};

const EXPERTS: &[&str] = &["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"];
const TOP_K: &[&str] =
    &["num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_top_k", "moe_k"];

/// Experts without anything shared.
pub(super) fn experts(c: &Config, ffn: Option<u64>) -> Result<MoeSpec, SpecError> {
    Ok(MoeSpec { ffn, ..MoeSpec::of(c.count(EXPERTS)?, c.count(TOP_K)?) })
}

pub(super) fn llama(c: &Config) -> ModelResult {
    let mut m = c.decoder()?;
    let biased = c.flag("attention_bias", false);
    m.attention.qkv_biases = biased.then_some(true);
    m.attention.output_bias = biased.then_some(true);
    m.mlp_biases = c.flag("mlp_bias", false).then_some(true);
    m.attention.window = window(c, true)?;
    Ok(m)
}

/// Llama 3.2 Vision: some layers attend to the tokens of images, with norms of queries and keys and gates on both
/// parts; the embedding has eight rows more than the head. A file of the whole model says how many tokens an image
/// has.
pub(super) fn mllama(c: &Config) -> ModelResult {
    let m = ModelSpec { extra_rows: 8, ..c.decoder()? };
    let listed = c.numbers("cross_attention_layers").unwrap_or_else(|| vec![3, 8, 13, 18, 23, 28, 33, 38]);
    let attention = AttentionSpec {
        causal: false,
        rotary: Some(false),
        qk_norm: QkNorm::Head,
        image_tokens: Some(0),
        ..m.attention
    };
    let cross = LayerKindSpec { gates: Some(true), ..with_attention(attention) };
    Ok(with_two(m, [("text", LayerKindSpec::default()), ("cross", cross)], |i| listed.contains(&i)))
}

/// The sliding window, where one is set and in use.
pub(super) fn window(c: &Config, used: bool) -> Result<Option<u64>, SpecError> {
    Ok(c.optional(&["sliding_window"])?.filter(|_| c.flag("use_sliding_window", used)))
}

pub(super) fn smollm3(c: &Config) -> ModelResult {
    let m = ModelSpec { tied_embeddings: c.tied(true), ..llama(c)? };
    let every = c.or(&["no_rope_layer_interval"], 4)?;
    let nope = with_attention(AttentionSpec { rotary: Some(false), ..m.attention });
    Ok(with_two(m, [("rope", LayerKindSpec::default()), ("nope", nope)], unrotated(c, every)))
}

/// True if a layer, counted from 0, is not rotated: a list has 0 there, or it ends a period.
fn unrotated(c: &Config, every: u64) -> impl Fn(u64) -> bool {
    let rotated = c.numbers("no_rope_layers").filter(|list| !list.is_empty());
    move |i| match &rotated {
        Some(list) => list.get(i as usize) == Some(&0),
        None => (i + 1).is_multiple_of(every.max(1)),
    }
}

pub(super) fn stablelm(c: &Config) -> ModelResult {
    let mut m = ModelSpec {
        norm: Norm::Layer,
        parallel_block: c.flag("use_parallel_residual", false),
        ..c.decoder()?
    };
    m.attention.qkv_biases = c.flag("use_qkv_bias", false).then_some(true);
    Ok(m)
}

pub(super) fn starcoder2(c: &Config) -> ModelResult {
    let mut m = ModelSpec {
        norm: Norm::Layer,
        gated_mlp: false,
        biases: c.flag("use_bias", true),
        tied_embeddings: c.tied(true),
        ..c.decoder()?
    };
    m.attention.window = window(c, true)?;
    Ok(m)
}

pub(super) fn qwen2(c: &Config) -> ModelResult {
    let mut m = c.decoder()?;
    m.attention.qkv_biases = Some(c.flag("attention_bias", true));
    m.attention.output_bias = c.flag("attention_out_bias", false).then_some(true);
    m.mlp_biases = c.flag("mlp_bias", false).then_some(true);
    let window = window(c, false)?;
    if window.is_none() {
        return Ok(m);
    }
    // Layers below max_window_layers see everything.
    let full = c.or(&["max_window_layers"], m.layers)?;
    let local = with_attention(AttentionSpec { window, ..m.attention });
    Ok(with_two(m, [("local", local), ("global", LayerKindSpec::default())], |i| i < full))
}

/// The model with experts in every `decoder_sparse_step`-th layer but those listed as dense.
fn with_sparse_layers(c: &Config, m: ModelSpec) -> ModelResult {
    let step = c.or(&["decoder_sparse_step"], 1)?.max(1);
    let dense = c.numbers("mlp_only_layers").unwrap_or_default();
    if step == 1 && dense.is_empty() {
        return Ok(m);
    }
    let sparse = |i: u64| !dense.contains(&i) && (i + 1).is_multiple_of(step);
    let kind = |mlp| LayerKindSpec { mlp: Some(mlp), ..LayerKindSpec::default() };
    Ok(with_two(m, [("dense", kind(MlpKind::Dense)), ("experts", kind(MlpKind::Experts))], sparse))
}

pub(super) fn qwen2_moe(c: &Config) -> ModelResult {
    let mut m = qwen2(c)?;
    let shared = c.or(&["shared_expert_intermediate_size"], 5632)?;
    let moe = experts(c, Some(c.count(&["moe_intermediate_size"])?))?;
    m.moe = Some(MoeSpec { shared_ffn: Some(shared), shared_gate: true, ..moe });
    with_sparse_layers(c, m)
}

pub(super) fn qwen3(c: &Config) -> ModelResult {
    let mut m = llama(c)?;
    m.attention.window = window(c, false)?;
    m.attention.qk_norm = QkNorm::Head;
    m.head_size = Some(c.or(&["head_dim"], 128)?).filter(|d| d * m.heads != m.hidden);
    Ok(m)
}

pub(super) fn qwen3_moe(c: &Config) -> ModelResult {
    let mut m = qwen3(c)?;
    // This class takes hidden / heads where the file gives no head size.
    m.head_size = c.optional(&["head_dim"])?.filter(|d| d * m.heads != m.hidden);
    m.moe = Some(experts(c, Some(c.count(&["moe_intermediate_size"])?))?);
    with_sparse_layers(c, m)
}

pub(super) fn gemma(c: &Config) -> ModelResult {
    let mut m = ModelSpec { tied_embeddings: c.tied(true), ..llama(c)? };
    m.head_size = Some(c.or(&["head_dim"], 256)?).filter(|d| d * m.heads != m.hidden);
    Ok(m)
}

/// Norms without weights.
pub(super) fn olmo(c: &Config) -> ModelResult {
    Ok(ModelSpec { norm: Norm::Plain, ..llama(c)? })
}

pub(super) fn olmoe(c: &Config) -> ModelResult {
    let mut m = llama(c)?;
    m.attention.qk_norm = QkNorm::Full;
    m.moe = Some(experts(c, None)?);
    Ok(m)
}

pub(super) fn mixtral(c: &Config) -> ModelResult {
    let mut m = llama(c)?;
    m.moe = Some(experts(c, None)?);
    Ok(m)
}

pub(super) fn minimax_m2(c: &Config) -> ModelResult {
    let mut m = llama(c)?;
    if c.flag("use_qk_norm", true) {
        m.attention.qk_norm = QkNorm::Full;
    }
    m.moe = Some(MoeSpec { router_bias: c.flag("use_routing_bias", true), ..experts(c, None)? });
    Ok(m)
}

/// Norms before and behind both parts.
pub(super) fn glm4(c: &Config) -> ModelResult {
    let mut m = llama(c)?;
    m.norms = Some(4);
    m.attention.output_bias = None;
    Ok(m)
}

pub(super) fn glm4_moe(c: &Config) -> ModelResult {
    let mut m = llama(c)?;
    m.attention.output_bias = None;
    if c.flag("use_qk_norm", false) {
        m.attention.qk_norm = QkNorm::Head;
    }
    m.moe = Some(MoeSpec {
        shared_experts: c.or(&["n_shared_experts"], 1)?,
        first_dense_layers: c.or(&["first_k_dense_replace"], 1)?,
        router_bias: true,
        ..experts(c, Some(c.count(&["moe_intermediate_size"])?))?
    });
    Ok(m)
}

pub(super) fn dots1(c: &Config) -> ModelResult {
    let mut m = glm4_moe(c)?;
    m.attention.qk_norm = QkNorm::Head;
    Ok(m)
}

pub(super) fn llama4(c: &Config) -> ModelResult {
    let mut m = llama(c)?;
    let width = c.count(&["intermediate_size"])?;
    m.ffn = c.or(&["intermediate_size_mlp"], width)?;
    m.moe = Some(MoeSpec { shared_ffn: Some(width), ..experts(c, Some(width))? });
    if c.flag("use_qk_norm", true) {
        m.attention.qk_norm = QkNorm::Weightless;
    }
    let step = c.or(&["interleave_moe_layer_step"], 1)?.max(1);
    let listed = c.numbers("moe_layers");
    let sparse = |i: u64| match &listed {
        Some(list) => list.contains(&i),
        None => (i + 1).is_multiple_of(step),
    };
    let plain = unrotated(c, 4);
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
            ..experts(c, Some(c.count(&["moe_intermediate_size"])?))?
        });
    }
    Ok(m)
}

/// An MLP without a gate, norms of queries and keys.
pub(super) fn apertus(c: &Config) -> ModelResult {
    let mut m = ModelSpec { gated_mlp: false, ..llama(c)? };
    m.attention.qk_norm = QkNorm::Head;
    Ok(m)
}

/// The square of a ReLU.
pub(super) fn arcee(c: &Config) -> ModelResult {
    Ok(ModelSpec { gated_mlp: false, ..llama(c)? })
}

pub(super) fn ernie(c: &Config) -> ModelResult {
    Ok(ModelSpec { tied_embeddings: c.tied(true), biases: c.flag("use_bias", false), ..c.decoder()? })
}

pub(super) fn ernie_moe(c: &Config) -> ModelResult {
    let mut m = ernie(c)?;
    m.moe = Some(MoeSpec {
        shared_experts: c.or(&["moe_num_shared_experts"], 2)?,
        first_dense_layers: c.or(&["moe_layer_start_index"], 1)?,
        every_layers: c.or(&["moe_layer_interval"], 1)?,
        router_bias: true,
        ..experts(c, Some(c.count(&["moe_intermediate_size"])?))?
    });
    Ok(m)
}

/// Dense, or with experts in every layer; lists have an entry a layer, all alike.
pub(super) fn hunyuan(c: &Config) -> ModelResult {
    let mut m = llama(c)?;
    m.attention.qk_norm = QkNorm::Head;
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
