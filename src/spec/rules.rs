//! Rules that turn a row of published measurements into a workload on a machine. Files: `workloads/rules/*.json`.
//!
//! A row has columns; what its source does not print is null. A rule says *when* it holds (patterns of columns) and
//! what follows: columns that are *filled* where they are null, fields of the workload and of its model, the machine,
//! how FLOPs were counted, or that the row cannot be mapped. Rules are for sources, software, devices and models, never
//! for one row.
//!
//! Two passes: nulls are filled from the most particular layer to the most general ([`Layer`]), the first rule that
//! fills a column wins; then workload, model and machine are laid together from the most general layer to the most
//! particular, so that a later rule lies over an earlier one; entries of a list that begin with `+` are added to the
//! entries of the rules before. A text that begins with `=` adds products of columns and numbers: `"=n_devices/tp/pp"`,
//! left out if it does not come out whole, and rounded behind `=~`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Kind, Spec, SpecError, WorkloadSpec, json as raw};

/// Rules of one layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RulesSpec {
    /// The subject of these rules, one sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// How particular they are.
    pub layer: Layer,
    /// Other names of columns: column → names that are read where it is null.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub aliases: BTreeMap<String, Vec<String>>,
    /// Columns that say nothing of how a step is run; any other that nothing is made of is told (`not_understood`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<String>,
    /// Columns that are lists of phrases (`async TP, torch.compile`): a phrase that no rule knows is told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<String>,
    /// The rules, in order.
    pub rules: Vec<RuleSpec>,
}

/// How particular rules are, the most general first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// The usual guess where nothing is said.
    Defaults,
    /// The behaviour of a software unless a row says otherwise.
    Software,
    /// The meaning of a device's name.
    Devices,
    /// The meaning of a model's name.
    Models,
    /// The meaning of columns and their spellings.
    Columns,
    /// Facts of a source about all its rows, outside of its tables.
    Source,
    /// Rules of the user (`--rules FILE`).
    User,
}

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RuleSpec {
    /// Column → pattern; all must fit the whole text or one of its phrases (between commas, semicolons, slashes and
    /// plus signs). Of several columns, with `|` between them, one must fit. Case, dashes and underscores do not count;
    /// `*` stands for anything, `~` before words
    /// means that they stand anywhere as whole words, `@` that the text says this name of a model, `|` parts
    /// alternatives, ` but ` stands before what must not fit, an empty pattern is null, a leading `!` turns the whole
    /// around; `<N`, `<=N`, `>N`, `>=N` compare numbers.
    pub when: BTreeMap<String, String>,
    /// Why: where it is written, or what speaks for the guess.
    pub why: String,
    /// Columns that are filled where they are null.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub fill: Map<String, Value>,
    /// A shipped model whose dimensions fill the columns that are null.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    /// Fields of the workload.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub workload: Map<String, Value>,
    /// Fields of the model.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub model: Map<String, Value>,
    /// The machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineRule>,
    /// How the source counts the FLOPs behind its `tflops_per_device`, `mfu` and `hfu`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flops: Option<FlopsCount>,
    /// The work that the printed time of a step spans.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// The row cannot be mapped, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip: Option<String>,
}

/// A machine by its parts: a shipped description, resized to the row's number of devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MachineRule {
    /// The description: name or path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
    /// Another device in it: name or path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Most devices of one scale-up domain, where `devices_per_node` counts servers and not domains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<u64>,
    /// Class that scores are kept by (`A100`, `H100`, …).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// `path=value` settings of the topology.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
}

/// The FLOPs that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlopsCount {
    /// Matrix products of forward and backward, attention in full.
    Model,
    /// The same with attention by half where the mask is causal.
    ModelCausal,
    /// Matrix products of forward, backward and a second forward of every layer (Narayanan et al. 2021, equation 2).
    WithRecomputation,
    /// Six for each parameter and token.
    SixPerParameter,
}

/// The work that the printed time of a step spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// From the start of the first rank to the end of the last.
    Step,
    /// The longest span of one rank: steps follow each other without a barrier (zero-bubble schedules).
    LongestRank,
}

impl Spec for RulesSpec {
    const KIND: Kind = Kind::Rules;

    fn validate(&self) -> Result<(), SpecError> {
        for (i, rule) in self.rules.iter().enumerate() {
            let at = |field: &str| format!("rules[{i}].{field}");
            if rule.why.trim().is_empty() {
                return Err(SpecError::at(at("why"), "a rule says why")
                    .hint("add the source, or what the guess rests on"));
            }
            for (column, pattern) in &rule.when {
                check_pattern(pattern).map_err(|e| e.under(&at(&format!("when.{column}"))))?;
            }
            for text in rule.fill.values().filter_map(Value::as_str).filter(|t| t.starts_with('=')) {
                check_product(text).map_err(|e| e.under(&at("fill")))?;
            }
            check_fields(&rule.workload, &rule.model).map_err(|e| match e.path.strip_prefix("model.") {
                Some(path) => SpecError { path: at(&format!("model.{path}")), ..e },
                None => e.under(&at("workload")),
            })?;
        }
        Ok(())
    }
}

fn check_pattern(pattern: &str) -> Result<(), SpecError> {
    let body = pattern.strip_prefix('!').unwrap_or(pattern);
    let number = body.trim_start_matches(['<', '>', '=']);
    if body.starts_with(['<', '>']) && number.trim().parse::<f64>().is_err() {
        return Err(SpecError::at("", format!("{pattern:?} compares with no number"))
            .allowed("<N, <=N, >N, >=N with a number, or a text in which * stands for anything"));
    }
    Ok(())
}

/// Products of columns and numbers with `*` and `/` between them, added up.
fn check_product(text: &str) -> Result<(), SpecError> {
    let word = |w: &str| !w.is_empty() && w.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    let whole = text[1..].trim_start_matches('~').split(['*', '/', '+']).all(|w| word(w.trim()));
    let allowed = "columns and numbers with *, / and + between them, like \"=n_devices/tp/pp\"";
    whole.then_some(()).ok_or_else(|| SpecError::at("", format!("{text:?} is no product")).allowed(allowed))
}

/// Checks that the fields exist and have their types: laid over the smallest workload there is.
fn check_fields(workload: &Map<String, Value>, model: &Map<String, Value>) -> Result<(), SpecError> {
    let mut whole = json!({
        "model": {"name": "m", "layers": 1, "hidden": 1, "heads": 1, "ffn": 1, "vocabulary": 1, "sequence": 1},
        "batch": {"global": 1},
    });
    let (mut fields, mut shape) = (Value::Object(workload.clone()), Value::Object(model.clone()));
    numbers_for_products(&mut fields)?;
    numbers_for_products(&mut shape)?;
    raw::merge(&mut whole["model"], shape);
    raw::merge(&mut whole, fields);
    raw::typed::<WorkloadSpec>(&whole).map(|_| ())
}

/// Puts a one in the place of every product, and takes the sign from what is added to a list.
fn numbers_for_products(value: &mut Value) -> Result<(), SpecError> {
    match value {
        Value::String(text) if text.starts_with('=') => {
            check_product(text)?;
            *value = 1.into();
        }
        Value::String(text) if text.starts_with('+') => *value = text[1..].into(),
        Value::Array(list) => list.iter_mut().try_for_each(numbers_for_products)?,
        Value::Object(map) => map.values_mut().try_for_each(numbers_for_products)?,
        _ => {}
    }
    Ok(())
}
