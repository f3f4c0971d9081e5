//! The modules of a multimodal configuration: encoders of images and sound, with their projectors.
//!
//! The defaults of transformers' classes, where a file is silent, stand here by `model_type` of the whole
//! configuration. Native resolution has no usual image: 1,024 patches (448 × 448 pixels of patches of 14) are taken.

use serde_json::Value;

use super::config::Config;
use stepsim_spec::SpecError;
use stepsim_spec::model::{DeepstackSpec, ModuleInputSpec, ModuleSpec, Norm, ProjectorSpec, TokenNorm};

/// Patches of an image of native resolution.
const PATCHES: u64 = 1024;

/// The modules that stand before a language model of width `hidden`; none where there are none or their build is not
/// known.
pub(super) fn of(file: &Value, hidden: u64) -> Result<Vec<ModuleSpec>, SpecError> {
    let kind = file.get("model_type").and_then(Value::as_str).unwrap_or_default().replace('-', "_");
    let part = |name: &str| file.get(name).filter(|v| v.is_object());
    let (vision, audio) = (part("vision_config"), part("audio_config"));
    let module = match (kind.as_str(), vision, audio) {
        ("gemma3", Some(vision), _) => gemma3(&Config::new(vision, "")?, &Config::new(file, "")?, hidden)?,
        ("llama4", Some(vision), _) => llama4(&Config::new(vision, "")?, hidden)?,
        ("qwen2_5_vl", Some(vision), _) => qwen2_5_vl(&Config::new(vision, "")?, hidden)?,
        ("qwen3_vl" | "qwen3_vl_moe", Some(vision), _) => {
            qwen3_vl(&Config::new(vision, "")?, hidden, vec![8, 16, 24])?
        }
        ("qwen3_5" | "qwen3_5_moe", Some(vision), _) => {
            qwen3_vl(&Config::new(vision, "")?, hidden, Vec::new())?
        }
        ("internvl_chat", Some(vision), _) => {
            internvl(&Config::new(vision, "")?, &Config::new(file, "")?, hidden)?
        }
        ("mllama", Some(vision), _) => mllama(&Config::new(vision, "")?, hidden)?,
        ("kimi_vl", Some(vision), _) => kimi_vl(&Config::new(vision, "")?, hidden)?,
        ("qwen2_audio", _, Some(audio)) => whisper(&Config::new(audio, "")?, hidden)?,
        _ => return Ok(Vec::new()),
    };
    Ok(vec![module])
}

/// Tokens of an image of edges that patches divide.
fn patches(c: &Config, edge: u64, patch: u64) -> Result<(u64, u64), SpecError> {
    let (edge, patch) = (c.or(&["image_size"], edge)?, c.or(&["patch_size"], patch)?);
    let along = edge / patch.max(1);
    Ok((along * along, patch))
}

/// A vision transformer of today's usual build: layer norms, biases, two matrices in the MLP.
struct Vit {
    layers: u64,
    hidden: u64,
    heads: u64,
    ffn: u64,
    patch: u64,
    patches: u64,
}

impl Vit {
    fn module(&self, merge: u64, projector: ProjectorSpec) -> ModuleSpec {
        ModuleSpec {
            name: "vision".into(),
            input: ModuleInputSpec {
                matrices: vec![[3 * self.patch * self.patch, self.hidden]],
                biases: true,
                ..ModuleInputSpec::default()
            },
            layers: self.layers,
            hidden: self.hidden,
            heads: self.heads,
            ffn: self.ffn,
            norm: Norm::Layer,
            sequence: self.patches,
            merge,
            projector,
            ..ModuleSpec::default()
        }
    }
}

/// Reads the sizes of a vision transformer, each under its usual name, or what the class sets.
fn vit(c: &Config, class: Vit) -> Result<Vit, SpecError> {
    Ok(Vit {
        layers: c.or(&["num_hidden_layers", "depth"], class.layers)?,
        hidden: c.or(&["hidden_size"], class.hidden)?,
        heads: c.or(&["num_attention_heads", "num_heads"], class.heads)?,
        ffn: c.or(&["intermediate_size"], class.ffn)?,
        patch: c.or(&["patch_size"], class.patch)?,
        ..class
    })
}

/// SigLIP; the mean of 16 patches is normalised and goes through one matrix.
fn gemma3(c: &Config, whole: &Config, hidden: u64) -> Result<ModuleSpec, SpecError> {
    let (patches, patch) = patches(c, 896, 14)?;
    let vit = vit(c, Vit { layers: 27, hidden: 1152, heads: 16, ffn: 4304, patch, patches })?;
    let tokens = (whole.outer_ratio("mm_tokens_per_image", 256.0) as u64).clamp(1, patches.max(1));
    let projector = ProjectorSpec {
        norms: 1,
        token_norm: Some(TokenNorm { width: vit.hidden, norm: Norm::Rms }),
        matrices: vec![[vit.hidden, hidden]],
        ..ProjectorSpec::default()
    };
    let mut module = vit.module(patches / tokens, projector);
    module.input.position_rows = patches;
    Ok(module)
}

/// A class token, norms before and behind, rotated; four patches become one token by three matrices.
fn llama4(c: &Config, hidden: u64) -> Result<ModuleSpec, SpecError> {
    let (patches, patch) = patches(c, 336, 14)?;
    let vit = vit(c, Vit { layers: 34, hidden: 1408, heads: 16, ffn: 5632, patch, patches })?;
    let (shuffled, out) = (c.or(&["projector_input_dim"], 4096)?, c.or(&["projector_output_dim"], 4096)?);
    let merge = (1.0 / c.ratio("pixel_shuffle_ratio", 0.5).powi(2)).round() as u64;
    let matrices = vec![[vit.hidden * merge, shuffled], [shuffled, out], [out, hidden]];
    let mut module = vit.module(merge, ProjectorSpec { norms: 1, matrices, ..ProjectorSpec::default() });
    let input = &mut module.input;
    (input.biases, input.position_rows, input.extra_tokens, input.norms) = (false, patches + 1, 1, 1);
    module.rotary = true;
    Ok(module)
}

/// Two frames side by side make a patch, a square of patches becomes one token by two matrices (Qwen-VL).
fn of_frames(c: &Config, vit: &Vit, hidden: u64) -> Result<ModuleSpec, SpecError> {
    let along = c.or(&["spatial_merge_size"], 2)?;
    let (merge, frames) = (along * along, c.or(&["temporal_patch_size"], 2)?);
    let wide = vit.hidden * merge;
    let matrices = vec![[wide, wide], [wide, c.or(&["out_hidden_size"], hidden)?]];
    let projector = ProjectorSpec { norms: 1, matrices, biases: true, ..ProjectorSpec::default() };
    let mut module = vit.module(merge, projector);
    module.input.matrices = vec![[frames * 3 * vit.patch * vit.patch, vit.hidden]];
    Ok(module)
}

/// RMS norms, a gated MLP, windows with a full layer now and then; two frames side by side make a patch.
fn qwen2_5_vl(c: &Config, hidden: u64) -> Result<ModuleSpec, SpecError> {
    let class = Vit { layers: 32, hidden: 1280, heads: 16, ffn: 3420, patch: 14, patches: PATCHES };
    let vit = vit(c, class)?;
    let mut module = of_frames(c, &vit, hidden)?;
    module.input.biases = false;
    (module.norm, module.gated_mlp, module.rotary) = (Norm::Rms, true, true);
    let edge = c.or(&["window_size"], 112)? / vit.patch.max(1);
    module.window = Some(edge * edge);
    module.full_every = full_every(c, vit.layers)?;
    Ok(module)
}

/// SigLIP 2 with rotation and a learned table of positions; two frames side by side make a patch. Four patches become
/// one token by two matrices, behind the last layer and behind some others (`deep`, where the file names none): there
/// the four side by side are normalised, else each.
fn qwen3_vl(c: &Config, hidden: u64, deep: Vec<u64>) -> Result<ModuleSpec, SpecError> {
    let class = Vit { layers: 27, hidden: 1152, heads: 16, ffn: 4304, patch: 16, patches: PATCHES };
    let vit = vit(c, class)?;
    let mut module = of_frames(c, &vit, hidden)?;
    let token_norm = Some(TokenNorm { width: vit.hidden * module.merge, norm: Norm::Layer });
    let layers = c.numbers("deepstack_visual_indexes").unwrap_or(deep);
    let deep = ProjectorSpec { norms: 0, token_norm, ..module.projector.clone() };
    module.input.position_rows = c.or(&["num_position_embeddings"], 2304)?;
    module.rotary = true;
    module.deepstack = (!layers.is_empty()).then_some(DeepstackSpec { layers, projector: deep });
    Ok(module)
}

/// Every so many-th layer of a list of full ones, which must be evenly spaced.
fn full_every(c: &Config, layers: u64) -> Result<Option<u64>, SpecError> {
    let full = c.numbers("fullatt_block_indexes").unwrap_or_else(|| vec![7, 15, 23, 31]);
    let Some(every) = full.first().map(|first| first + 1) else { return Ok(None) };
    let even: Vec<u64> = (1..=layers / every).map(|i| i * every - 1).collect();
    if full == even {
        return Ok(Some(every));
    }
    Err(SpecError::at("vision_config.fullatt_block_indexes", format!("{full:?} are not evenly spaced"))
        .allowed("every so many-th layer, as 7, 15, 23, 31 of 32")
        .hint("write a model file by hand: docs/start/model.md has examples (stepsim schema model)"))
}

/// Llama 3.2 Vision: local layers, then gated global ones, over all tiles of an image; a class token for each tile,
/// whose positions are padded to a multiple of 8; learned tables of positions, of tiles and of both for every aspect
/// ratio, three of them scaled by a learned number. The inputs of some local layers stand beside the output of the
/// last; all positions become tokens by one matrix.
fn mllama(c: &Config, hidden: u64) -> Result<ModuleSpec, SpecError> {
    let (tile, patch) = patches(c, 448, 14)?;
    let tiles = c.or(&["max_num_tiles"], 4)?;
    let class = Vit { layers: 32, hidden: 1280, heads: 16, ffn: 5120, patch, patches: tile * tiles };
    let mut vit = vit(c, class)?;
    vit.heads = c.or(&["attention_heads", "num_attention_heads"], 16)?;
    let global = c.or(&["num_global_layers"], 8)?;
    vit.layers += global;
    let beside_layers = c.numbers("intermediate_layers_indices").unwrap_or_else(|| vec![3, 7, 15, 23, 30]);
    let wide = c.or(&["vision_output_dim"], 7680)?;
    let matrices = vec![[wide, hidden]];
    let projector = ProjectorSpec { matrices, biases: true, beside_layers, ..ProjectorSpec::default() };
    let ratios = 1 + c.list_length("supported_aspect_ratios").unwrap_or(8);
    let rows = tile + 1 + ratios * tiles * (tile + 1) + 2 * ratios * tiles;
    let mut module = vit.module(1, projector);
    module.input = ModuleInputSpec {
        biases: false,
        position_rows: rows,
        extra_tokens: 1,
        extra_become_tokens: true,
        tile: Some(tile),
        pad_to: 8,
        gates: 3,
        norms: 2,
        ..module.input
    };
    (module.attention_biases, module.gated_layers) = (Some(false), global);
    Ok(module)
}

/// InternViT: learned scales, a class token; four patches, normalised, become one token by two matrices.
fn internvl(c: &Config, whole: &Config, hidden: u64) -> Result<ModuleSpec, SpecError> {
    let (patches, patch) = patches(c, 448, 14)?;
    let vit = vit(c, Vit { layers: 24, hidden: 1024, heads: 16, ffn: 4096, patch, patches })?;
    let merge = (1.0 / whole.outer_ratio("downsample_ratio", 0.5).powi(2)).round() as u64;
    let wide = vit.hidden * merge;
    let projector = ProjectorSpec {
        token_norm: Some(TokenNorm { width: wide, norm: Norm::Layer }),
        matrices: vec![[wide, hidden], [hidden, hidden]],
        biases: true,
        ..ProjectorSpec::default()
    };
    let mut module = vit.module(merge, projector);
    (module.input.position_rows, module.input.extra_tokens, module.layer_scale) = (patches + 1, 1, true);
    Ok(module)
}

/// MoonViT: a learned table of positions and rotation; four patches become one token by two matrices.
fn kimi_vl(c: &Config, hidden: u64) -> Result<ModuleSpec, SpecError> {
    let class = Vit { layers: 27, hidden: 1152, heads: 16, ffn: 4304, patch: 14, patches: PATCHES };
    let vit = vit(c, class)?;
    let merge = c.numbers("merge_kernel_size").unwrap_or_else(|| vec![2, 2]).iter().product();
    let wide = vit.hidden * merge;
    // The last norm of the encoder, and the projector's own.
    let matrices = vec![[wide, wide], [wide, hidden]];
    let projector = ProjectorSpec { norms: 2, matrices, biases: true, ..ProjectorSpec::default() };
    let mut module = vit.module(merge, projector);
    let rows = c.or(&["init_pos_emb_height"], 64)? * c.or(&["init_pos_emb_width"], 64)?;
    (module.input.position_rows, module.rotary) = (rows, true);
    Ok(module)
}

/// Whisper's encoder: two convolutions over mel frames, the second of stride 2; the mean of two positions is a token.
fn whisper(c: &Config, hidden: u64) -> Result<ModuleSpec, SpecError> {
    let (width, positions) = (c.or(&["d_model"], 1280)?, c.or(&["max_source_positions"], 1500)?);
    let vit = Vit {
        layers: c.or(&["encoder_layers", "num_hidden_layers"], 32)?,
        hidden: width,
        heads: c.or(&["encoder_attention_heads"], 20)?,
        ffn: c.or(&["encoder_ffn_dim"], 5120)?,
        patch: 1,
        patches: positions,
    };
    let projector =
        ProjectorSpec { norms: 1, matrices: vec![[width, hidden]], biases: true, ..ProjectorSpec::default() };
    let mut module = vit.module(2, projector);
    module.name = "audio".into();
    module.input.matrices = vec![[3 * c.or(&["num_mel_bins"], 128)?, width], [3 * width, width]];
    (module.input.stride, module.input.position_rows, module.key_biases) = (2, positions, false);
    Ok(module)
}
