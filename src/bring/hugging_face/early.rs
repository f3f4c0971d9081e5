//! The first generation: layer norms, biases, MLPs without gates, learned or no positions.

use super::config::{Config, ModelResult};
use stepsim_spec::SpecError;
use stepsim_spec::model::{ModelSpec, Norm, Positions};

/// The part that they have in common.
fn plain(c: &Config) -> ModelResult {
    let m = c.decoder()?;
    Ok(ModelSpec { gated_mlp: false, norm: Norm::Layer, biases: true, tied_embeddings: c.tied(true), ..m })
}

pub(super) fn gpt2(c: &Config) -> ModelResult {
    let sequence = c.or(&["n_positions", "n_ctx"], 1024)?;
    Ok(ModelSpec { positions: Positions::Learned, sequence, ..plain(c)? })
}

/// The table of positions has two rows more than the sequence; the MLP of the 350M model is projected, which is
/// refused.
pub(super) fn opt(c: &Config) -> ModelResult {
    let m = plain(c)?;
    let projected = c.or(&["word_embed_proj_dim"], m.hidden)?;
    if projected != m.hidden {
        return Err(SpecError::at("word_embed_proj_dim", format!("{projected}, narrower than hidden_size"))
            .allowed(m.hidden.to_string()));
    }
    let sequence = c.or(&["max_position_embeddings"], 2048)? + 2;
    Ok(ModelSpec { positions: Positions::Learned, sequence, ..m })
}

pub(super) fn bloom(c: &Config) -> ModelResult {
    Ok(ModelSpec { positions: Positions::None, extra_norms: 1, ..plain(c)? })
}

/// Attention and MLP read two norms of the same input.
pub(super) fn gpt_neox(c: &Config) -> ModelResult {
    let m = ModelSpec { tied_embeddings: c.tied(false), biases: c.flag("attention_bias", true), ..plain(c)? };
    let parallel = c.flag("use_parallel_residual", true);
    Ok(ModelSpec { mlp_biases: Some(true), parallel_block: parallel, norms: parallel.then_some(2), ..m })
}

pub(super) fn gptj(c: &Config) -> ModelResult {
    let mut m =
        ModelSpec { tied_embeddings: c.tied(false), parallel_block: true, head_bias: true, ..plain(c)? };
    m.biases = false;
    m.mlp_biases = Some(true);
    Ok(m)
}

pub(super) fn phi(c: &Config) -> ModelResult {
    Ok(ModelSpec { tied_embeddings: c.tied(false), parallel_block: true, head_bias: true, ..plain(c)? })
}

pub(super) fn nemotron(c: &Config) -> ModelResult {
    let biases = c.flag("attention_bias", false);
    let m = ModelSpec { tied_embeddings: c.tied(false), biases, ..plain(c)? };
    Ok(ModelSpec { mlp_biases: Some(c.flag("mlp_bias", false)), ..m })
}

/// Two norms from 40B on, one key–value head and one norm in the 7B.
pub(super) fn falcon(c: &Config) -> ModelResult {
    let mut m = ModelSpec { biases: c.flag("bias", false), ..plain(c)? };
    let groups = c.flag("new_decoder_architecture", false);
    m.parallel_block = groups || c.flag("parallel_attn", true);
    if c.flag("alibi", false) {
        m.positions = Positions::None;
    }
    m.kv_heads = match (groups, c.flag("multi_query", true)) {
        (true, _) => m.kv_heads,
        (false, true) => Some(1),
        (false, false) => None,
    };
    if groups {
        m.norms = Some(c.or(&["num_ln_in_parallel_attn"], 2)?);
    }
    Ok(m)
}
