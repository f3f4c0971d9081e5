//! A model that is named: by the file, by the configuration that it begins with, or by the function that makes it.

use serde_json::Value;

use super::{Beside, WorkloadDraft};
use crate::hugging_face;
use stepsim_spec::{Kind, catalog, names};

/// Quantities that may name a model, the most particular first; where there are none a module of Python may by its own.
const NAMES: [&str; 3] = ["model_name", "model_words", "recipe_words"];

impl WorkloadDraft {
    /// The names that a file gives its model; a name without a number says no size, unless a hub has it.
    pub(super) fn model_names(&self, file: &str) -> Vec<String> {
        let flavor = self.variables.get("model_flavor").and_then(Value::as_str).unwrap_or_default();
        let name = |variable: &&str| {
            let text = self.variables.get(*variable)?.as_str()?;
            let flavor = if *variable == "model_name" { flavor } else { "" };
            let text =
                [".yaml", ".yml", ".json"].iter().find_map(|end| text.strip_suffix(end)).unwrap_or(text);
            // ModelScope writes folders with three strokes for a point.
            Some(format!("{text} {flavor}").trim().replace("___", "."))
        };
        let sized = |name: &String| name.contains(|c: char| c.is_ascii_digit());
        let component = self.variables.get("component").and_then(Value::as_str).map(of_component);
        let components = component.into_iter().flatten();
        let hub = |name: &String| name.split('/').count() == 2 && !name.starts_with(['.', '/']);
        let is_name = |name: &String| sized(name) || hub(name);
        let said: Vec<String> = NAMES.iter().filter_map(name).chain(components).filter(is_name).collect();
        // A module of recipes is called after its model; any other file as somebody likes.
        let module = self.variables.contains_key("recipe_words")
            && file.split_once(".py").is_some_and(|(_, behind)| !behind.contains('.'));
        let unsized_yet = module && !said.iter().any(sized);
        let file = Some(hugging_face::name_of(file)).filter(|file| unsized_yet && sized(file));
        said.into_iter().chain(file).collect()
    }

    /// A model by a name: a shipped one as it stands, or one of the names that are known.
    pub(super) fn known_model(&self, beside: &Beside, text: &str) -> Option<Value> {
        let shipped = names::shipped_exactly(text).and_then(|name| catalog::text(Kind::Model, name));
        let shipped = shipped.and_then(|text| serde_json::from_str(text).ok());
        shipped.or_else(|| beside.models.and_then(|models| models(text)))
    }

    /// The model that a name says, and the name; in the spelling of programs, too. A shipped model that is only a part
    /// of a name is meant where both say the same size.
    pub(super) fn named_model(&self, beside: &Beside, file: &str) -> Option<(Value, String)> {
        let spellings = |said: String| [(names::spelled(&said), said.clone()), (said.clone(), said)];
        self.model_names(file).into_iter().flat_map(spellings).find_map(|(text, said)| {
            let size = names::billions(&text);
            let fits = |name: &&str| size.is_none() || names::billions(name) == size;
            let shipped = names::shipped_exactly(&text).or_else(|| names::shipped(&text).filter(fits));
            let known = shipped.map(Value::from).or_else(|| beside.models.and_then(|models| models(&text)));
            let name = |model: &Value| model["name"].as_str().or(model.as_str()).and_then(names::billions);
            // A model of another size is not meant, however its name begins.
            let is_other =
                |model: &Value| size.zip(name(model)).is_some_and(|(a, b)| a < b / 2.0 || a > b * 2.0);
            known.filter(|model| !is_other(model)).map(|model| (model, said))
        })
    }
}

/// `torchtune.models.llama3_1.lora_llama3_1_8b` as names of a model: Llama 3.1 8B, and with the point elsewhere, since
/// a version and a size are written alike (`qwen2_5_7b`, `qwen2_1_5b`).
pub fn of_component(path: &str) -> Vec<String> {
    let name = path.rsplit('.').next().unwrap_or_default();
    let heads = ["qlora_", "lora_", "qdora_", "dora_"];
    let name = heads.iter().find_map(|head| name.strip_prefix(head)).unwrap_or(name);
    let all: Vec<char> = name.chars().collect();
    let digit = |at: usize| all.get(at).is_some_and(char::is_ascii_digit);
    let points: Vec<usize> = (1..all.len())
        .filter(|at| all[*at] == '_' && digit(at - 1) && digit(at + 1))
        .take(MOST_POINTS)
        .collect();
    let of = |points: Vec<usize>| {
        (0..all.len()).map(|at| if points.contains(&at) { '.' } else { all[at] }).collect()
    };
    let choices = 1usize << points.len();
    (0..choices)
        .map(|choice| {
            points.iter().enumerate().filter(|(i, _)| choice >> i & 1 == 1).map(|(_, at)| *at).collect()
        })
        .filter(|chosen: &Vec<usize>| chosen.windows(2).all(|pair| pair[0] + 2 < pair[1]))
        .map(of)
        .collect()
}

/// Places of a name where a point may be meant.
const MOST_POINTS: usize = 3;
