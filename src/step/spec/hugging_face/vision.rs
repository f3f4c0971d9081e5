//! The vision encoder of a multimodal configuration, where its shape decides parameters that releases count.

use serde_json::Value;

use super::config::Config;
use crate::step::spec::SpecError;
use crate::step::spec::model::VisionSpec;

/// The encoder that stands before a decoder of width `hidden`; `None` where there is none or its build is not known.
pub(super) fn encoder(file: &Value, kind: &str, hidden: u64) -> Result<Option<VisionSpec>, SpecError> {
    let Some(value) = file.get("vision_config").filter(|v| v.is_object()) else { return Ok(None) };
    let c = Config::new(value, "")?;
    let (width, ffn) = (c.or(&["hidden_size"], 1152)?, c.or(&["intermediate_size"], 4304)?);
    let vision = VisionSpec {
        layers: c.or(&["num_hidden_layers"], 27)?,
        hidden: width,
        ffn,
        image: c.or(&["image_size"], 896)?,
        patch: c.or(&["patch_size"], 14)?,
        patch_bias: false,
        class_token: false,
        outer_norms: 1,
        projector: Vec::new(),
        projector_norm: 0,
    };
    Ok(match kind {
        // SigLIP, pooled, one matrix behind a norm.
        "gemma3" | "gemma3_text" => Some(VisionSpec {
            patch_bias: true,
            projector: vec![[width, hidden]],
            projector_norm: width,
            ..vision
        }),
        // A norm before and behind; four patches become one token of 4,096 by two matrices.
        "llama4" | "llama4_text" => {
            let shuffled = c.or(&["projector_input_dim"], 4096)?;
            let out = c.or(&["projector_output_dim"], 4096)?;
            let ratio = (1.0 / c.ratio("pixel_shuffle_ratio", 0.5).powi(2)).round() as u64;
            let projector = vec![[width * ratio, shuffled], [shuffled, out], [out, hidden]];
            Some(VisionSpec { class_token: true, outer_norms: 2, projector, ..vision })
        }
        _ => None,
    })
}
