//! The modules of a multimodal configuration: encoders of images and sound, with their projectors.
//!
//! Their builds, and the defaults of transformers' classes, stand in the table, by `model_type` of the whole
//! configuration. Native resolution has no usual image: 1,024 patches (448 × 448 pixels of patches of 14) are
//! taken.

use serde_json::Value;

use super::config::Config;
use super::table;
use stepsim_spec::model::ModuleSpec;
use stepsim_spec::{SpecError, json};

/// The modules that stand before a language model of width `hidden`; none where there are none or their build is not
/// known.
pub(super) fn of(file: &Value, hidden: u64) -> Result<Vec<ModuleSpec>, SpecError> {
    let kind = file.get("model_type").and_then(Value::as_str).unwrap_or_default().replace('-', "_");
    let found = table::modules().values().find(|entry| entry.types.contains(&kind));
    let part = found.and_then(|entry| Some((entry, Config::of_part(file.get(&entry.part)?, file)?)));
    let Some((entry, c)) = part else { return Ok(Vec::new()) };
    let mut module: ModuleSpec = json::typed(&entry.module(&c, hidden)?)?;
    module.deepstack = module.deepstack.filter(|deep| !deep.layers.is_empty());
    if module.window.is_some() {
        module.full_every = full_every(&c, module.layers)?;
    }
    Ok(vec![module])
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
