//! A Hugging Face `config.json` as a model file.
//!
//! Each architecture is named by `model_type`; what its class sets where the file is silent is part of the
//! architecture (transformers' configuration classes). Architectures of one build share a function: `decoder` has
//! those with attention in every layer, `windowed` those whose layers are local and global, `hybrid` those with other
//! mixers, `early` the first generation with biases and learned positions. A new one is one line in `FAMILIES` and,
//! where it differs, a function.
//!
//! Hazards:
//! * A configuration says nothing of the training; the sequence is what the file calls its longest, at most 4,096
//!   unless asked otherwise.
//! * Multi-token-prediction modules are left out, as papers count.

mod config;
mod decoder;
mod early;
mod hybrid;
mod modules;
mod recent;
mod size;
mod windowed;

use serde_json::Value;

use stepsim_spec::SpecError;
use stepsim_spec::model::{ModelSpec, ModuleSpec};

use config::{Config, ModelResult};

/// Makes a model of a configuration.
type ModelReader = fn(&Config) -> ModelResult;

/// The architectures known, by their `model_type`s.
const FAMILIES: &[(&[&str], ModelReader)] = &[
    (&["llama"], decoder::llama),
    (&["mllama", "mllama_text_model"], decoder::mllama),
    (&["mistral", "ministral", "mistral3", "ministral3"], decoder::llama),
    (&["apertus"], decoder::apertus),
    (&["arcee"], decoder::arcee),
    (&["exaone4"], windowed::exaone4),
    (&["ernie4_5"], decoder::ernie),
    (&["ernie4_5_moe"], decoder::ernie_moe),
    (&["hunyuan_v1_dense", "hunyuan_v1_moe"], decoder::hunyuan),
    (&["smollm3"], decoder::smollm3),
    (&["seed_oss"], decoder::qwen2),
    (&["granite", "phi3"], decoder::llama),
    (&["stablelm"], decoder::stablelm),
    (&["starcoder2"], decoder::starcoder2),
    (&["cohere", "cohere2"], windowed::cohere),
    (&["qwen2", "mimo", "qwen2_5_vl", "qwen2_5_vl_text"], decoder::qwen2),
    (&["qwen2_moe"], decoder::qwen2_moe),
    (&["qwen3"], decoder::qwen3),
    (&["qwen3_moe"], decoder::qwen3_moe),
    (&["qwen3_vl", "qwen3_vl_text"], decoder::qwen3),
    (&["qwen3_vl_moe", "qwen3_vl_moe_text"], decoder::qwen3_moe),
    (&["gemma"], decoder::gemma),
    (&["gemma2"], windowed::gemma2),
    (&["gemma3", "gemma3_text"], windowed::gemma3),
    (&["gemma4", "gemma4_text"], windowed::gemma4),
    (&["olmo"], decoder::olmo),
    (&["olmo2", "olmo3"], windowed::olmo2),
    (&["olmoe"], decoder::olmoe),
    (&["mixtral"], decoder::mixtral),
    (&["minimax_m2"], decoder::minimax_m2),
    (&["gpt_oss"], windowed::gpt_oss),
    (&["glm4"], decoder::glm4),
    (&["glm4_moe"], decoder::glm4_moe),
    (&["llama4", "llama4_text"], decoder::llama4),
    (&["deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa"], decoder::deepseek),
    (&["dots1"], decoder::dots1),
    (&["qwen3_next"], hybrid::qwen3_next),
    (&["qwen3_5", "qwen3_5_text"], hybrid::qwen3_5),
    (&["qwen3_5_moe", "qwen3_5_moe_text"], hybrid::qwen3_next),
    (&["kimi_linear"], hybrid::kimi_linear),
    (&["nemotron_h"], hybrid::nemotron_h),
    (&["granitemoehybrid"], hybrid::granite),
    (&["jamba"], hybrid::jamba),
    (&["lfm2"], hybrid::lfm2),
    (&["rwkv7"], hybrid::rwkv7),
    (&["minimax", "minimax_text_01", "minimax_m1"], hybrid::minimax),
    (&["nemotron_nas", "deci"], recent::nemotron_nas),
    (&["minimax_m3", "minimax_m3_text", "minimax_m3_vl"], recent::minimax_m3),
    (&["mimo_v2_flash", "mimo_v2"], recent::mimo_v2),
    (&["step3p5", "step3p7"], recent::step3),
    (&["nemotron"], early::nemotron),
    (&["gpt2"], early::gpt2),
    (&["gpt_neox"], early::gpt_neox),
    (&["gptj"], early::gptj),
    (&["phi"], early::phi),
    (&["falcon"], early::falcon),
    (&["bloom"], early::bloom),
    (&["opt"], early::opt),
];

/// Every `model_type` with its family.
fn architectures() -> impl Iterator<Item = (&'static str, ModelReader)> {
    FAMILIES.iter().flat_map(|(names, family)| names.iter().map(|name| (*name, *family)))
}

/// True if a JSON document looks like such a configuration: it names an architecture as no model file of ours does.
pub fn is_config(value: &Value) -> bool {
    let names = |key| value.get(key).is_some();
    (names("model_type") || names("architectures")) && !names("layers")
}

/// A model file, or a config.json as one.
///
/// # Errors
/// As [`model`].
pub fn model_of(value: Value, file: &str) -> Result<Value, SpecError> {
    if !is_config(&value) {
        return Ok(value);
    }
    serde_json::to_value(model(&value, file)?).map_err(|e| SpecError::file(file, e.to_string()))
}

/// The model of a configuration read from `file`.
///
/// # Errors
/// An architecture that is not known, a field that is missing or of the wrong kind, or a shape that is none.
pub fn model(value: &Value, file: &str) -> Result<ModelSpec, SpecError> {
    let name = name_of(file);
    let model = Config::new(value, &name).and_then(|config| {
        let kind = config.model_type();
        let known = architectures().find(|(known, _)| *known == kind);
        let (_, family) = known.ok_or_else(|| unknown(value, &kind))?;
        let mut model = family(&config)?;
        config.all_sizes_are_read()?;
        model.modules = modules::of(value, model.hidden)?;
        let own = value.get("_name_or_path").and_then(Value::as_str).unwrap_or_default();
        size::check(&model, &[name.as_str(), own])?;
        let image = |m: &ModuleSpec| m.input.used_positions(m.sequence) / m.merge.max(1);
        Ok(match model.modules.first().map(image).filter(|_| model.has_cross()) {
            Some(tokens) => model.with_images(tokens),
            None => model,
        })
    });
    let model = model.map_err(|e| e.in_file(file))?;
    match model.validate("").into_iter().next() {
        Some(problem) => Err(SpecError::at(problem.path.clone(), format!("{problem}"))
            .hint("the configuration gives a shape that no transformer has")
            .in_file(file)),
        None => Ok(model),
    }
}

fn unknown(value: &Value, kind: &str) -> SpecError {
    let classes = value.get("architectures").map_or(String::new(), |a| format!(" (architectures: {a})"));
    let names: Vec<&str> = architectures().map(|(name, _)| name).collect();
    SpecError::at("model_type", format!("\"{kind}\" is no architecture known here{classes}"))
        .allowed(names.join(", "))
        .hint("write a model file by hand: docs/start/model.md has examples (stepsim schema model)")
}

/// The name of a model after its file: the file's stem, or the folder's name for a `config.json`.
pub fn name_of(file: &str) -> String {
    let path = std::path::Path::new(file);
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = path.parent().and_then(|p| p.file_name()).map(|s| s.to_string_lossy().into_owned());
    match folder {
        Some(folder) if stem == "config" => folder,
        _ if file == "-" => "model".to_owned(),
        _ => stem,
    }
}
