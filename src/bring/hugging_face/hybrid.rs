//! Decoders whose layers mix tokens in different ways.

use super::config::{Config, ModelResult, crossed, mixed, mixer_and_mlp, with_kinds};
use super::table;
use stepsim_spec::SpecError;
use stepsim_spec::model::{
    KimiDeltaSpec, LayerRun, Mamba1Spec, Mamba2Spec, Mixer, MlpKind, ModelSpec, MoeSpec, Norm, Positions,
    Rwkv7Spec,
};

pub(super) fn kimi_linear(c: &Config) -> ModelResult {
    let m = table::model(c, "kimi_linear")?;
    let first_dense = m.moe.as_ref().map_or(0, |moe| moe.first_dense_layers);
    let linear = c.part("linear_attn_config").ok_or_else(|| {
        SpecError::at("linear_attn_config", "the field is missing")
            .allowed("heads, head size and layers of KDA")
    })?;
    let delta = KimiDeltaSpec {
        heads: linear.count(&["num_heads"])?,
        head_size: linear.count(&["head_dim"])?,
        convolution: linear.or(&["short_conv_kernel_size"], 4)?,
        chunk: 64,
    };
    linear.numbers("kda_layers"); // all others
    // Layers are counted from 1 there.
    let full = linear.numbers("full_attn_layers").unwrap_or_default();
    let names = ["linear_dense", "linear", "full_dense", "full"];
    let mixers = [Mixer::KimiDelta(delta), Mixer::Attention].map(mixed);
    Ok(crossed(m, names, mixers, |i| [full.contains(&(i + 1)), i >= first_dense]))
}

/// Mamba-2 as several configurations name its fields.
fn mamba2(c: &Config) -> Result<Mamba2Spec, SpecError> {
    Ok(Mamba2Spec {
        heads: c.or(&["mamba_num_heads", "mamba_n_heads"], 128)?,
        head_size: c.or(&["mamba_head_dim", "mamba_d_head"], 64)?,
        groups: c.or(&["mamba_n_groups", "n_groups"], 8)?,
        state: c.or(&["ssm_state_size", "mamba_d_state"], 128)?,
        convolution: c.or(&["conv_kernel", "mamba_d_conv"], 4)?,
        convolution_bias: c.flag("use_conv_bias", c.flag("mamba_conv_bias", true)),
        chunk: c.or(&["chunk_size", "mamba_chunk_size"], 256)?,
    })
}

/// The letters and names of its kinds of layers.
const KINDS: [(char, &str); 4] = [('M', "mamba"), ('*', "attention"), ('-', "mlp"), ('E', "experts")];

/// One letter a layer: M a state space, * attention, - an MLP, E experts.
pub(super) fn nemotron_h(c: &Config) -> ModelResult {
    let listed = c.list_length("layers_block_type").unwrap_or(0);
    let class = (listed > 0).then_some(("num_hidden_layers", listed));
    let mut m = ModelSpec { gated_mlp: false, ..c.decoder_of_class(class)? };
    let biased = c.flag("attention_bias", false).then_some(true);
    (m.attention.qkv_biases, m.attention.output_bias) = (biased, biased);
    m.attention.rotary = Some(false);
    m.mlp_biases = c.flag("mlp_bias", false).then_some(true);
    if c.optional(&["n_routed_experts"])?.is_some() {
        m.moe = Some(MoeSpec {
            shared_ffn: c.optional(&["moe_shared_expert_intermediate_size"])?,
            shared_experts: c.or(&["n_shared_experts"], 0)?,
            router_bias: true,
            latent: c.optional(&["moe_latent_size"])?,
            ..c.experts(Some(c.count(&["moe_intermediate_size"])?))?
        });
    }
    c.or(&["expand"], 2)?; // heads and their width say it
    let words = c.words("layers_block_type").unwrap_or_default();
    let words = words.iter().map(|word| if *word == "moe" { "experts" } else { word });
    let letters = words.map(|word| KINDS.iter().find(|kind| kind.1 == word).map_or('?', |kind| kind.0));
    let pattern = c.text("hybrid_override_pattern").map_or_else(|| letters.collect(), str::to_owned);
    let layers = pattern.chars().map(|letter| {
        let known = KINDS.iter().find(|kind| kind.0 == letter).map(|kind| kind.1);
        let problem = || SpecError::at("hybrid_override_pattern", format!("'{letter}' is no kind of layer"));
        known.ok_or_else(|| problem().allowed("M, *, - and E"))
    });
    let layers: Vec<&'static str> = layers.collect::<Result<_, _>>()?;
    if layers.len() as u64 != m.layers {
        let problem = format!("{} letters for {} layers", layers.len(), m.layers);
        return Err(SpecError::at("hybrid_override_pattern", problem).allowed("one letter a layer"));
    }
    let kinds = [
        ("mamba", mixer_and_mlp(Mixer::Mamba2(mamba2(c)?), MlpKind::None)),
        ("attention", mixer_and_mlp(Mixer::Attention, MlpKind::None)),
        ("mlp", mixer_and_mlp(Mixer::None, MlpKind::Dense)),
        ("experts", mixer_and_mlp(Mixer::None, MlpKind::Experts)),
    ];
    Ok(with_kinds(layers.into_iter(), kinds, m))
}

pub(super) fn jamba(c: &Config) -> ModelResult {
    let m = table::model(c, "jamba")?;
    let rank = m.hidden.div_ceil(16);
    let mamba = Mamba1Spec {
        inner: c.or(&["mamba_expand"], 2)? * m.hidden,
        state: c.or(&["mamba_d_state"], 16)?,
        dt_rank: c.or(&["mamba_dt_rank"], rank)?,
        convolution: c.or(&["mamba_d_conv"], 4)?,
        inner_norms: true,
    };
    let every = |period: &str, offset: &str, p: u64, o: u64| -> Result<_, SpecError> {
        Ok((c.or(&[period], p)?.max(1), c.or(&[offset], o)?))
    };
    let attention = every("attn_layer_period", "attn_layer_offset", 8, 4)?;
    let sparse = every("expert_layer_period", "expert_layer_offset", 2, 1)?;
    let names = ["mamba_dense", "mamba_experts", "attention_dense", "attention_experts"];
    let mixers = [Mixer::Mamba1(mamba), Mixer::Attention].map(mixed);
    Ok(crossed(m, names, mixers, |i| [i % attention.0 == attention.1, i % sparse.0 == sparse.1]))
}

/// RWKV-7 in every layer, the first without a value residual. Ranks follow from the width as in the layers of
/// flash-linear-attention; the MLP squares its ReLU and has no gate.
pub(super) fn rwkv7(c: &Config) -> ModelResult {
    if c.part("attn").is_some() {
        return Err(SpecError::at("attn", "layers of attention among those of RWKV-7").allowed("null"));
    }
    let hidden = c.count(&["hidden_size"])?;
    let head_size = c.or(&["head_dim"], 64)?.max(1);
    let heads = hidden / head_size;
    let ratio = c.or(&["hidden_ratio"], 4)?;
    let decoder = c.decoder_of_class([("num_attention_heads", heads)])?;
    let ffn = c.or(&["intermediate_size"], ratio * hidden)?;
    let mut m = ModelSpec { ffn, gated_mlp: false, positions: Positions::None, extra_norms: 1, ..decoder };
    m.norm = if c.flag("norm_bias", true) { Norm::Layer } else { Norm::LayerNoBias };
    let wide = head_size as f64 / 64.0;
    let usual = |factor: f64| ((factor * (hidden as f64).sqrt() / 32.0).round() as u64 * 32).max(32);
    let first = Rwkv7Spec {
        heads,
        head_size,
        decay_rank: c.or(&["decay_low_rank_dim"], usual(2.5 * wide))?,
        rate_rank: c.or(&["a_low_rank_dim"], usual(2.5 * wide))?,
        value_rank: None,
        gate_rank: c.or(&["gate_low_rank_dim"], usual(5.0))?,
        chunk: 16,
    };
    let later = Rwkv7Spec { value_rank: Some(c.or(&["v_low_rank_dim"], usual(1.7 * wide))?), ..first };
    m.layer_kinds = [("first", first), ("later", later)]
        .map(|(name, spec)| (name.to_owned(), mixed(Mixer::Rwkv7(spec))))
        .into();
    m.layer_pattern =
        vec![LayerRun("first".to_owned(), 1), LayerRun("later".to_owned(), m.layers.saturating_sub(1))];
    Ok(m)
}
