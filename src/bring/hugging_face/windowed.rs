//! Decoders of local and global layers: a sliding window in most, all tokens in every few.

use super::config::{Config, ModelResult, with_attention, with_two};
use super::decoder::{experts, gemma, llama};
use stepsim_spec::SpecError;
use stepsim_spec::model::{AttentionSpec, LayerKindSpec, ModelSpec, MoeSpec, Norm, QkNorm};

/// Local and global layers: by `layer_types`, else every `period`-th is global.
fn local_and_global(c: &Config, m: ModelSpec, window: Option<u64>, period: u64) -> ModelSpec {
    if window.is_none() {
        return m;
    }
    let words = c.words("layer_types");
    let is_local = |i: u64| match &words {
        Some(words) => words.get(i as usize).is_some_and(|w| w.contains("sliding") || w.contains("local")),
        None => !(i + 1).is_multiple_of(period.max(1)),
    };
    let of_window = with_attention(AttentionSpec { window, ..m.attention });
    with_two(m, [("global", LayerKindSpec::default()), ("local", of_window)], is_local)
}

pub(super) fn cohere(c: &Config) -> ModelResult {
    let mut m = ModelSpec {
        norm: Norm::LayerNoBias,
        parallel_block: true,
        tied_embeddings: c.tied(true),
        ..llama(c)?
    };
    let window = m.attention.window.take();
    let period = c.or(&["sliding_window_pattern"], 4)?;
    Ok(local_and_global(c, m, window, period))
}

pub(super) fn gemma2(c: &Config) -> ModelResult {
    let mut m = ModelSpec { norms: Some(4), ..gemma(c)? };
    m.attention.window = None;
    let window = Some(c.or(&["sliding_window"], 4096)?);
    Ok(local_and_global(c, m, window, 2))
}

/// The class's own figures stand in for what multimodal releases leave out.
pub(super) fn gemma3(c: &Config) -> ModelResult {
    let class = [
        ("hidden_size", 2304),
        ("num_hidden_layers", 26),
        ("num_attention_heads", 8),
        ("num_key_value_heads", 4),
        ("head_dim", 256),
        ("intermediate_size", 9216),
        ("vocab_size", 262_208),
    ];
    let filled = c.decoder_of_class(&class)?;
    let mut m = ModelSpec { tied_embeddings: c.tied(true), norms: Some(4), ..filled };
    m.attention.qk_norm = QkNorm::Head;
    let window = Some(c.or(&["sliding_window"], 4096)?);
    let period = c.or(&["sliding_window_pattern", "_sliding_window_pattern"], 6)?;
    Ok(local_and_global(c, m, window, period))
}

pub(super) fn olmo2(c: &Config) -> ModelResult {
    let mut m = llama(c)?;
    let window = m.attention.window.take();
    m.attention.qk_norm = QkNorm::Full;
    Ok(local_and_global(c, m, window, 4))
}

pub(super) fn gpt_oss(c: &Config) -> ModelResult {
    let mut m = c.decoder()?;
    m.head_size = Some(c.or(&["head_dim"], 64)?).filter(|d| d * m.heads != m.hidden);
    let biased = Some(c.flag("attention_bias", true));
    m.attention = AttentionSpec { sinks: true, qkv_biases: biased, output_bias: biased, ..m.attention };
    m.moe = Some(MoeSpec { expert_biases: true, router_bias: true, ..experts(c, None)? });
    let window = Some(c.or(&["sliding_window"], 128)?);
    Ok(local_and_global(c, m, window, 2))
}

/// Norms behind each part alone; layers that see everything are not rotated.
pub(super) fn exaone4(c: &Config) -> ModelResult {
    let mut m = llama(c)?;
    let window = m.attention.window.take();
    m.attention.qk_norm = QkNorm::Head;
    // A number, or a letter a layer: LLLG.
    let period = match c.text("sliding_window_pattern") {
        Some(letters) => letters.len() as u64,
        None => c.or(&["sliding_window_pattern"], 4)?,
    };
    let mut m = local_and_global(c, m, window, period);
    if let Some(global) = m.layer_kinds.get_mut("global") {
        global.attention = Some(AttentionSpec { rotary: Some(false), ..m.attention });
    }
    Ok(m)
}

/// Global layers have wider heads, and fewer of keys; an MLP stands beside the experts. Their values are the keys,
/// which is not known here: they are counted as if they had a projection of their own.
pub(super) fn gemma4(c: &Config) -> ModelResult {
    if c.or(&["hidden_size_per_layer_input"], 0)? > 0 {
        let problem = "embeddings of single layers are not known";
        return Err(SpecError::at("hidden_size_per_layer_input", problem)
            .allowed("0")
            .hint("write a model file without them by hand: stepsim schema model"));
    }
    c.or(&["vocab_size_per_layer_input"], 0)?; // without such embeddings it says nothing
    let mut m = ModelSpec { tied_embeddings: c.tied(true), norms: Some(4), ..c.decoder()? };
    m.attention.qk_norm = QkNorm::Head;
    if c.flag("enable_moe_block", c.optional(&["num_experts"])?.is_some()) {
        let top_k = c.count(&["top_k_experts", "num_experts_per_tok"])?;
        let width = Some(c.count(&["moe_intermediate_size"])?);
        let shared_ffn = Some(m.ffn);
        m.moe = Some(MoeSpec { ffn: width, shared_ffn, ..MoeSpec::of(c.count(&["num_experts"])?, top_k) });
    }
    let window = Some(c.or(&["sliding_window"], 512)?);
    let mut m = local_and_global(c, m, window, 6);
    if let Some(global) = m.layer_kinds.get_mut("global") {
        global.head_size = Some(c.or(&["global_head_dim"], 512)?);
        global.kv_heads =
            c.optional(&["num_global_key_value_heads"])?.filter(|_| c.flag("attention_k_eq_v", true));
    }
    Ok(m)
}
