//! Words of other software that no table knows: harmless ones, and those that change the sizes of a model.
//!
//! `workloads/imports/words.json` has them as patterns. A word that is neither may change the step, which is said.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use stepsim_spec::catalog;
use stepsim_spec::glob::fits;

/// Patterns of names, in small letters with underscores.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vocabulary {
    #[serde(rename = "description")]
    _description: String,
    /// Arguments that lie outside of a step: logs, paths of data, learning rates, checkpoints.
    harmless: Vec<String>,
    /// Switches that software has on by itself: off, they may change the step.
    #[serde(default)]
    on_by_itself: Vec<String>,
    /// Last parts of names that change a step whatever section they stand in.
    stirs: Vec<String>,
    /// Arguments that change the sizes of a model.
    sizes: Vec<String>,
    /// Keys of a config.json that change the sizes of a model.
    model_sizes: Vec<String>,
    /// Keys that fit those patterns and change no weight.
    model_harmless: Vec<String>,
}

impl Vocabulary {
    /// The shipped one.
    pub fn shipped() -> &'static Vocabulary {
        static SHIPPED: LazyLock<Vocabulary> =
            LazyLock::new(|| catalog::table("workloads/imports/words.json"));
        &SHIPPED
    }
    /// True if an argument lies outside of a step, by its whole name or its last part.
    pub fn is_harmless(&self, name: &str) -> bool {
        any(&self.harmless, name)
    }
    /// True if a value leaves off, or empty, what nobody here knows: a step without it is what is planned.
    pub fn is_off(&self, name: &str, value: &Value) -> bool {
        let off = value == &Value::Bool(false) || value.as_array().is_some_and(Vec::is_empty);
        off && !any(&self.on_by_itself, name)
    }
    /// True if the last part of a name changes a step, where its value is not off.
    pub fn stirs(&self, name: &str, value: &Value) -> bool {
        let last = name.rsplit('.').next().unwrap_or_default().trim_start_matches('_');
        any(&self.stirs, last) && !self.is_harmless(last) && !self.is_off(last, value)
    }
    /// True if an argument changes the sizes of a model.
    pub fn is_size(&self, name: &str) -> bool {
        any(&self.sizes, name) && !name.contains("recompute")
    }
    /// True if a key of a config.json with this value changes the sizes of a model.
    pub fn is_model_size(&self, key: &str, value: &Value) -> bool {
        let counts = |value: &Value| value.as_f64().is_some_and(|n| n >= 1.0);
        let says = counts(value) || value.as_array().is_some_and(|list| list.iter().any(counts));
        says && any(&self.model_sizes, key) && !any(&self.model_harmless, key)
    }
}

fn any(patterns: &[String], name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let last = name.rsplit('.').next().unwrap_or_default();
    patterns.iter().any(|pattern| fits(pattern, &name) || fits(pattern, last))
}
