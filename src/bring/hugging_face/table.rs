//! Architectures as data: `workloads/imports/hugging-face.json`.
//!
//! An architecture lies over the one that it is `of`, or over a decoder of today. What it sets is a piece of a model
//! file, in which an object whose first key begins with `$` stands for what a configuration says:
//! `{"$count": "a|b", "or": 1}` is a number under one of two names (`or` null: none; without `or` it must be there),
//! `{"$flag": "a", "or": false, "then": x, "else": y}` a choice, or without both a truth; `$has`,
//! `$above` and `$text` choose likewise. What a choice leaves out
//! stays as it was; null takes away. Modules before a language model are of the same kind, with numbers of their own by
//! name (`{"$model": "merge"}`, `{"$times": [3, "patch", "patch"]}`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::config::{Config, ModelResult, with_two};
use stepsim_spec::model::{LayerKindSpec, MlpKind, ModelSpec};
use stepsim_spec::{SpecError, catalog, json};

/// An architecture.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Architecture {
    /// Its `model_type`s; its own name where none are listed.
    types: Option<Vec<String>>,
    /// The architecture that it lies over.
    of: Option<String>,
    /// True if a function makes the rest of it.
    pub code: bool,
    /// A note for readers: its particulars.
    #[serde(rename = "why")]
    _why: String,
    /// Counts of its class that releases leave out.
    class: BTreeMap<String, u64>,
    /// Counts that say nothing here.
    heeds: Vec<String>,
    /// Counts that must be this where they are said, and why.
    refuses: BTreeMap<String, (Value, String)>,
    /// A piece of a model file.
    set: Map<String, Value>,
    /// Its layers, where they are of two kinds.
    layers: Option<TwoKindsOfLayers>,
    /// True if only some layers may have experts.
    sparse: bool,
}

/// TwoKindsOfLayers of two kinds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TwoKindsOfLayers {
    /// Null: they are alike.
    #[serde(default, rename = "if")]
    condition: Value,
    /// Their names and what they have; attention lies over the model's.
    kinds: [(String, Value); 2],
    /// Tests for the second kind: the first that the configuration answers counts.
    second: Vec<LayerTest>,
}

/// A question about a layer, counted from 0.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum LayerTest {
    /// A list has, in its place, a word with one of these in it.
    Words(String, Vec<String>),
    /// A list has its number; the class's own list.
    Listed(String, Vec<u64>),
    /// A list has this number in its place.
    Marked(String, u64),
    /// It ends a period of so many.
    Every(Value),
    /// It does not.
    NotEvery(Value),
    /// Its number is below this.
    Before(Value),
}

/// True of a layer, counted from 0, that is of the second kind.
type IsSecond<'a> = Box<dyn Fn(u64) -> bool + 'a>;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArchitectureTable {
    #[serde(rename = "description")]
    _description: String,
    #[serde(rename = "source")]
    _source: String,
    architectures: Map<String, Value>,
    modules: BTreeMap<String, ModuleEntry>,
}

/// The modules before a language model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModuleEntry {
    /// The entry that it lies over.
    of: Option<String>,
    /// `model_type`s of the whole configuration.
    #[serde(default)]
    pub types: Vec<String>,
    /// Its part of the configuration.
    #[serde(default)]
    pub part: String,
    /// A note for readers: its particulars.
    #[serde(default, rename = "why")]
    _why: String,
    /// Numbers by names for those behind them and for the module.
    #[serde(default)]
    names: Map<String, Value>,
    /// A piece of a module of a model file.
    #[serde(default)]
    module: Map<String, Value>,
}

impl ModuleEntry {
    /// The module of a configuration before a language model of width `text`.
    pub(super) fn module(&self, c: &Config, text: u64) -> Result<Value, SpecError> {
        let bases = std::iter::successors(Some(self), |entry| modules().get(entry.of.as_ref()?));
        let all: Vec<&ModuleEntry> = bases.collect();
        let (mut names, mut made) =
            (Value::Object(Map::from_iter([("text".to_string(), text.into())])), Value::Null);
        // A number of the entry itself counts before those that it lies over.
        for (name, given) in all.iter().flat_map(|entry| &entry.names) {
            if names.get(name).is_none() {
                names[name] = value(c, &names, given)?.unwrap_or_default();
            }
        }
        for entry in all.iter().rev() {
            json::merge(&mut made, fields(c, &names, &entry.module)?.unwrap_or_default());
        }
        Ok(made)
    }
}

/// All modules by their names.
pub(super) fn modules() -> &'static BTreeMap<String, ModuleEntry> {
    &TABLE.modules
}

const FILE: &str = "workloads/imports/hugging-face.json";

/// The file; a part of it that cannot be read is a defect, and no model is made without it.
static TABLE: LazyLock<ArchitectureTable> = LazyLock::new(|| catalog::table(FILE));

/// All architectures by their names, in the order of the file.
fn all() -> &'static [(String, Architecture)] {
    static ALL: LazyLock<Vec<(String, Architecture)>> = LazyLock::new(|| {
        let one = |(name, value): (&String, &Value)| {
            let read = stepsim_located::typed(value);
            (name.clone(), read.unwrap_or_else(|e| panic!("{FILE}: architectures.{name}.{e}")))
        };
        TABLE.architectures.iter().map(one).collect()
    });
    &ALL
}

/// Every `model_type` with its architecture.
pub(super) fn types() -> impl Iterator<Item = (&'static str, &'static str, &'static Architecture)> {
    all().iter().flat_map(|(name, architecture)| {
        let types = architecture.types.as_deref().unwrap_or(std::slice::from_ref(name));
        types.iter().map(move |kind| (kind.as_str(), name.as_str(), architecture))
    })
}

/// The model of an architecture, as far as it is data.
pub(super) fn model(c: &Config, name: &str) -> ModelResult {
    let found = all().iter().find(|(other, _)| other == name);
    let (_, entry) = found.ok_or_else(|| SpecError::at("model_type", format!("{name} has no entry")))?;
    let base = match &entry.of {
        Some(of) => model(c, of)?,
        None => c.decoder_of_class(entry.class.iter().map(|(key, count)| (key.as_str(), *count)))?,
    };
    for key in &entry.heeds {
        c.or(&[key], 0)?;
    }
    let mut whole = json_of(&base)?;
    for (key, (only, why)) in &entry.refuses {
        let only = value(c, &whole, only)?.unwrap_or_default();
        if let Some(said) = c.optional(&[key])?.filter(|said| only != *said) {
            return Err(SpecError::at(key, format!("{said}: {why}")).allowed(only.to_string()).hint(
                "write a model file by hand: docs/start/model.md has examples (stepsim schema model)",
            ));
        }
    }
    if let Some(set) = fields(c, &whole, &entry.set)? {
        json::merge(&mut whole, set);
    }
    let mut made: ModelSpec = json::typed(&whole)?;
    if let Some(layers) = &entry.layers {
        made = layers.of(c, made, &whole)?;
    }
    if entry.sparse { with_sparse_layers(c, made) } else { Ok(made) }
}

fn json_of(value: &impl serde::Serialize) -> Result<Value, SpecError> {
    stepsim_located::to_value(value).map_err(|e| SpecError::at("", e.to_string()))
}

/// A piece of a model file in which everything is said.
fn fields(c: &Config, model: &Value, given: &Map<String, Value>) -> Result<Option<Value>, SpecError> {
    let mut made = Map::new();
    for (name, given) in given {
        made.extend(value(c, model, given)?.map(|value| (name.clone(), value)));
    }
    Ok(Some(made.into()))
}

/// The meaning of a value of the table; nothing where a choice leaves it out.
fn value(c: &Config, model: &Value, given: &Value) -> Result<Option<Value>, SpecError> {
    let map = match given {
        Value::Object(map) => map,
        Value::Array(list) => {
            let list = list.iter().map(|given| Ok(value(c, model, given)?.unwrap_or_default()));
            return Ok(Some(list.collect::<Result<Vec<Value>, SpecError>>()?.into()));
        }
        plain => return Ok(Some(plain.clone())),
    };
    let Some((word, about)) = map.iter().next().filter(|(word, _)| word.starts_with('$')) else {
        return fields(c, model, map);
    };
    let part = |name: &str| map.get(name).map_or(Ok(None), |given| value(c, model, given));
    let text = about.as_str().unwrap_or_default();
    let names: Vec<&str> = text.split('|').collect();
    let is = about.as_bool() == Some(true);
    let choice = |is: bool| match map.contains_key("then") || map.contains_key("else") {
        true => part(if is { "then" } else { "else" }),
        false => Ok(Some(is.into())),
    };
    let listed = || about[0].as_str().and_then(|name| c.numbers(name));
    // Numbers, and names of numbers that the model has.
    let by = |with: fn(u64, u64) -> u64| -> Result<Option<Value>, SpecError> {
        let number = |given: &Value| match given.as_str() {
            Some(name) => Ok(model[name].as_u64()),
            None => Ok(value(c, model, given)?.and_then(|n| n.as_u64())),
        };
        let all: Option<Vec<u64>> =
            about.as_array().into_iter().flatten().map(number).collect::<Result<_, SpecError>>()?;
        Ok(all.and_then(|all| all.into_iter().reduce(with)).map(Value::from))
    };
    Ok(match word.as_str() {
        "$count" => {
            let usual = part("or")?;
            let count = match usual.as_ref().map(Value::as_u64) {
                None => Some(c.count(&names)?),
                Some(usual) => c.optional(&names)?.or(usual),
            };
            let plus = map.get("plus").and_then(Value::as_u64).unwrap_or(0);
            Some(count.map(|count| count + plus).into())
        }
        "$flag" => {
            let usual = part("or")? == Some(true.into());
            choice(c.flag(text, usual))?
        }
        "$text" => choice(c.text(text).map_or(map["or"] == true, |said| said == map["is"]))?,
        "$above" => {
            let count = about[0].as_str().map_or(Ok(None), |name| c.optional(&[name]))?;
            choice(count.unwrap_or(0) > about[1].as_u64().unwrap_or(0))?
        }
        "$letters" => match c.text(text) {
            Some(letters) => Some(letters.len().into()),
            None => part("or")?,
        },
        "$has" => choice(c.optional(&names)?.is_some())?,
        "$tied" => Some(c.tied(is).into()),
        "$window" => Some(c.window(is)?.into()),
        "$model" => model.get(text).cloned(),
        "$times" => by(u64::saturating_mul)?,
        "$plus" => by(u64::saturating_add)?,
        "$over" => by(|a, b| a / b.max(1))?,
        "$multiple" => by(|a, b| a.next_multiple_of(b.max(1)))?,
        "$least" => by(u64::min)?,
        "$list" => Some(listed().map_or_else(|| about[1].clone(), Value::from)),
        "$product" => {
            Some(listed().map_or_else(|| about[1].clone(), |list| list.iter().product::<u64>().into()))
        }
        "$length" => match names.iter().find_map(|name| c.list_length(name)) {
            Some(length) => Some(length.into()),
            None => part("or")?,
        },
        "$leading" => match c.numbers(text) {
            Some(list) => Some(list.iter().take_while(|n| **n == 0).count().into()),
            None => part("or")?,
        },
        "$ratio" => Some((c.ratio(text, map["or"].as_f64().unwrap_or(1.0)) as u64).max(1).into()),
        "$inverse-square" => {
            let ratio = c.ratio(text, map["or"].as_f64().unwrap_or(1.0));
            Some(((1.0 / ratio.powi(2)).round() as u64).into())
        }
        "$head-size" => {
            let size = |name: &str| model[name].as_u64().unwrap_or_default();
            let said = c.optional(&["head_dim"])?.or(about.as_u64());
            Some(said.filter(|d| d.saturating_mul(size("heads")) != size("hidden")).into())
        }
        "$experts" => {
            let mut experts = json_of(&c.experts(None)?)?;
            json::merge(&mut experts, value(c, model, about)?.unwrap_or_default());
            Some(experts)
        }
        _ => None,
    })
}

impl TwoKindsOfLayers {
    fn of(&'static self, c: &Config, m: ModelSpec, whole: &Value) -> ModelResult {
        let mut second: Option<IsSecond> = None;
        for test in &self.second {
            let test = test.of(c, whole)?;
            second = second.or(test);
        }
        let alike = value(c, whole, &self.condition)? == Some(Value::Null) && !self.condition.is_null();
        if alike {
            return Ok(m);
        }
        let kind = |(name, given): &'static (String, Value)| -> Result<_, SpecError> {
            let mut made = value(c, whole, given)?.unwrap_or_default();
            if let Some(made) = made.as_object_mut() {
                made.retain(|name, said| whole[name.as_str()] != *said);
            }
            if let Some(over) = made.get_mut("attention") {
                let mut attention = json_of(&m.attention)?;
                json::merge(&mut attention, over.take());
                *over = attention;
            }
            Ok((name.as_str(), json::typed::<LayerKindSpec>(&made)?))
        };
        let kinds = [kind(&self.kinds[0])?, kind(&self.kinds[1])?];
        Ok(with_two(m, kinds, |i| second.as_ref().is_some_and(|second| second(i))))
    }
}

impl LayerTest {
    fn of(&'static self, c: &Config, model: &Value) -> Result<Option<IsSecond<'static>>, SpecError> {
        let count = |given: &Value| -> Result<u64, SpecError> {
            Ok(value(c, model, given)?.and_then(|n| n.as_u64()).unwrap_or_default())
        };
        Ok(match self {
            LayerTest::Words(key, parts) => c.words(key).map(|words| {
                let has = |word: &&str| parts.iter().any(|part| word.contains(part.as_str()));
                let has: Vec<bool> = words.iter().map(has).collect();
                Box::new(move |i: u64| has.get(i as usize) == Some(&true)) as IsSecond
            }),
            LayerTest::Listed(key, usual) => {
                let list = c.numbers(key).unwrap_or_else(|| usual.clone());
                Some(Box::new(move |i: u64| list.contains(&i)))
            }
            LayerTest::Marked(key, mark) => c
                .numbers(key)
                .filter(|list| !list.is_empty())
                .map(|list| Box::new(move |i: u64| list.get(i as usize) == Some(mark)) as IsSecond),
            LayerTest::Every(every) => {
                let every = count(every)?.max(1);
                Some(Box::new(move |i: u64| (i + 1).is_multiple_of(every)))
            }
            LayerTest::NotEvery(every) => {
                let every = count(every)?.max(1);
                Some(Box::new(move |i: u64| !(i + 1).is_multiple_of(every)))
            }
            LayerTest::Before(end) => {
                let end = count(end)?;
                Some(Box::new(move |i: u64| i < end))
            }
        })
    }
}

/// The model with experts in every `decoder_sparse_step`-th layer but those listed as dense.
fn with_sparse_layers(c: &Config, m: ModelSpec) -> ModelResult {
    let step = c.or(&["decoder_sparse_step"], 1)?.max(1);
    let dense = c.numbers("mlp_only_layers").unwrap_or_default();
    if step == 1 && dense.is_empty() {
        return Ok(m);
    }
    let sparse = |i: u64| !dense.contains(&i) && (i + 1).is_multiple_of(step);
    let kind = |mlp| LayerKindSpec { mlp: Some(mlp), ..LayerKindSpec::default() };
    Ok(with_two(m, [("dense", kind(MlpKind::Dense)), ("experts", kind(MlpKind::Experts))], sparse))
}
