//! A Hugging Face `config.json` as a model file.
//!
//! Each architecture is named by `model_type`; what its class sets where the file is silent is part of the
//! architecture (transformers' configuration classes). A new one is an entry of `workloads/imports/hugging-face.json`
//! (`table`) and, where data cannot say it, a function that is listed in `FUNCTIONS`: `decoder` has those with
//! attention in every layer, `hybrid` those with other mixers, `recent` those whose layers differ one by one.
//!
//! Hazards:
//! * A configuration says nothing of the training; the sequence is what the file calls its longest, at most 4,096
//!   unless asked otherwise.
//! * Multi-token-prediction modules are left out, as papers count.

mod config;
mod decoder;
mod hybrid;
mod modules;
mod recent;
mod size;
mod table;

use serde_json::Value;

use stepsim_spec::SpecError;
use stepsim_spec::model::{ModelSpec, ModuleSpec};

use config::{Config, ModelResult};

/// Makes a model of a configuration.
type ModelReader = fn(&Config) -> ModelResult;

/// The architectures that are more than data.
const FUNCTIONS: [(&str, ModelReader); 7] = [
    ("hunyuan", decoder::hunyuan),
    ("llama4", decoder::llama4),
    ("kimi_linear", hybrid::kimi_linear),
    ("nemotron_h", hybrid::nemotron_h),
    ("jamba", hybrid::jamba),
    ("rwkv7", hybrid::rwkv7),
    ("nemotron_nas", recent::nemotron_nas),
];

/// True if a JSON document looks like such a configuration: it names an architecture as no model file of ours does.
pub fn is_config(value: &Value) -> bool {
    let names = |key| value.get(key).is_some();
    let trains = ["trainer", "lora", "output_dir"].into_iter().any(names);
    (names("model_type") || names("architectures")) && !names("layers") && !trains
}

/// A model file, or a config.json as one.
///
/// # Errors
/// As [`model`].
pub fn model_of(value: Value, file: &str) -> Result<Value, SpecError> {
    if !is_config(&value) {
        return Ok(value);
    }
    stepsim_located::to_value(model(&value, file)?).map_err(|e| SpecError::file(file, e.to_string()))
}

/// The model of a configuration read from `file`.
///
/// # Errors
/// An architecture that is not known, a field that is missing or of the wrong kind, or a shape that is none.
pub fn model(value: &Value, file: &str) -> Result<ModelSpec, SpecError> {
    let name = name_of(file);
    let model = Config::new(value, &name).and_then(|config| {
        let kind = config.model_type();
        let known = table::types().find(|(known, ..)| *known == kind);
        let (_, family, entry) = known.ok_or_else(|| unknown(value, &kind))?;
        let function = FUNCTIONS.iter().find(|(of, _)| entry.code && *of == family);
        let mut model = function.map_or_else(|| table::model(&config, family), |(_, of)| of(&config))?;
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
    let names: Vec<&str> = table::types().map(|(name, ..)| name).collect();
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
