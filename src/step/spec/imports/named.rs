//! A model that is named: by the file, by the configuration that it begins with, or by the function that makes it.

use serde_json::Value;

use super::{Beside, Draft};
use crate::spec::{hugging_face, names};

/// Quantities that may name a model, the most particular first; behind them stands the file's own name.
const NAMES: [&str; 3] = ["model_words", "model_name", "recipe_words"];

impl Draft {
    /// The names that a file gives its model; a name without a number says no size.
    pub(super) fn model_names(&self, file: &str) -> Vec<String> {
        let flavor = self.variables.get("model_flavor").and_then(Value::as_str).unwrap_or_default();
        let name = |variable: &&str| {
            let text = self.variables.get(*variable)?.as_str()?;
            let flavor = if *variable == "model_name" { flavor } else { "" };
            Some(format!("{text} {flavor}").trim().to_string())
        };
        let all = NAMES.iter().filter_map(name).chain([hugging_face::name_of(file)]);
        all.filter(|name| name.contains(|c: char| c.is_ascii_digit())).collect()
    }

    /// The model that a name says, and the name; in the spelling of programs, too.
    pub(super) fn named_model(&self, beside: &Beside, file: &str) -> Option<(Value, String)> {
        let spellings = |text: String| [names::spelled(&text), text];
        self.model_names(file).into_iter().flat_map(spellings).find_map(|text| {
            let shipped = names::shipped(&text).map(Value::from);
            let known = shipped.or_else(|| beside.models.and_then(|models| models(&text)));
            known.map(|model| (model, text))
        })
    }
}
