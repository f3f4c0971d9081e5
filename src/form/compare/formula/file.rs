//! A formula as a file.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::analytic::{KEYS, Terms};
use stepsim_spec::expression::Expression;
use stepsim_spec::files::Files;
use stepsim_spec::{Disk, SpecError};

/// Formulas that the program carries: a name, and the file.
pub const SHIPPED: [(&str, &str); 4] = [
    ("calculon", include_str!("../../formulas/calculon.json")),
    ("megatron-3d", include_str!("../../formulas/megatron-3d.json")),
    ("pipeline-bubbles", include_str!("../../formulas/pipeline-bubbles.json")),
    ("scaling-book", include_str!("../../formulas/scaling-book.json")),
];

/// Quantities of every step, and what each is; besides them `own.TERM`, the closed form's seconds of a term.
const GIVEN: &str = include_str!("../../formulas/given.json");

/// The JSON Schema of a file, with the names of terms and of quantities.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(FormulaFile).to_value();
    for (key, (meaning, _)) in KEYS.into_iter().zip(Terms::default().named()) {
        let term = json!({"type": ["number", "string"], "description": format!("Seconds of: {meaning}.")});
        schema["properties"]["terms"]["properties"][key] = term;
    }
    schema["$defs"]["given"] = serde_json::from_str(GIVEN).unwrap_or_default();
    schema
}

/// A formula: an expression for each term of a step. Expressions name the quantities in `$defs.given`, `own.TERM`
/// (seconds of the closed form), those that stand before them, and fields of the workload by their path.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Formula")]
struct FormulaFile {
    /// Its name.
    name: String,
    /// Where it is published, and what was left out.
    #[serde(default)]
    source: String,
    /// Quantities of its own: numbers or expressions over what stands before them.
    #[serde(default)]
    quantities: Map<String, Value>,
    /// Terms of the step in seconds: numbers or expressions.
    terms: Map<String, Value>,
}

/// A formula that has been read.
#[derive(Clone, Debug)]
pub struct Formula {
    /// Its name.
    pub name: String,
    /// Where it is published.
    pub source: String,
    file: String,
    /// The file as it was read: equal texts are one formula.
    text: String,
    quantities: Vec<(String, Expression)>,
    terms: Vec<(usize, Expression)>,
}

/// Two formulas are equal if their files say the same.
impl PartialEq for Formula {
    fn eq(&self, other: &Formula) -> bool {
        (&self.name, &self.text) == (&other.name, &other.text)
    }
}

impl Formula {
    /// A shipped formula by name, or a file.
    ///
    /// # Errors
    /// There is none, or a term or an expression is wrong.
    pub fn load(name: &str) -> Result<Formula, SpecError> {
        if let Some((name, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            return Formula::parse(name, text);
        }
        let text = Disk.read(Path::new(name)).map_err(|e| {
            let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
            SpecError::file(name, format!("cannot be read as a formula: {e}"))
                .allowed(format!("{}, or a file", names.join(", ")))
        })?;
        Formula::parse(name, &text)
    }

    /// Reads the JSON text of a file.
    ///
    /// # Errors
    /// A term or an expression is wrong.
    pub fn parse(file: &str, text: &str) -> Result<Formula, SpecError> {
        let FormulaFile { name, source, quantities, terms } = serde_json::from_str(text).map_err(|e| {
            SpecError::file(file, format!("is no formula: {e}"))
                .hint(r#"{"name": "mine", "terms": {"bubble": "(pipeline - 1) * (forward_s + backward_s)"}}"#)
        })?;
        let listed = |list: Map<String, Value>| list.into_iter().map(|(name, value)| (name, text_of(value)));
        let read = Formula::new((file, name, source), listed(quantities).collect(), listed(terms).collect())?;
        Ok(Formula { text: text.to_string(), ..read })
    }

    fn new(
        (file, name, source): (&str, String, String),
        quantities: Vec<(String, String)>,
        terms: Vec<(String, String)>,
    ) -> Result<Formula, SpecError> {
        let read = |at: String, text: &str| {
            Expression::parse(text).map_err(|problem| {
                SpecError::at(at, format!("`{text}`: {problem}")).in_file(file).allowed(
                    "numbers, names, + - * / %, comparisons, and or not, if min max ceil floor sqrt log2 \
                     exp pow",
                )
            })
        };
        let quantity = |(name, text): (String, String)| {
            let expression = read(format!("quantities.{name}"), &text)?;
            Ok::<_, SpecError>((name, expression))
        };
        let term = |(name, text): (String, String)| {
            let place = KEYS.iter().position(|key| *key == name).ok_or_else(|| {
                SpecError::at(format!("terms.{name}"), "there is no such term")
                    .in_file(file)
                    .allowed(KEYS.join(", "))
            })?;
            Ok::<_, SpecError>((place, read(format!("terms.{name}"), &text)?))
        };
        Ok(Formula {
            name,
            source,
            file: file.to_string(),
            text: String::new(),
            quantities: quantities.into_iter().map(quantity).collect::<Result<_, SpecError>>()?,
            terms: terms.into_iter().map(term).collect::<Result<_, SpecError>>()?,
        })
    }

    /// The text of its file, by which formulas are told apart.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The seconds of its terms, in the order of [`KEYS`], of a step with these quantities and this workload.
    ///
    /// # Errors
    /// An expression names what there is not, or gives no number.
    pub fn terms(
        &self,
        quantities: &BTreeMap<String, f64>,
        workload: &Value,
    ) -> Result<[f64; KEYS.len()], SpecError> {
        let mut own: BTreeMap<&str, f64> = BTreeMap::new();
        let number = |at: String, expression: &Expression, own: &BTreeMap<&str, f64>| {
            let named = |name: &str| {
                let known = own.get(name).or_else(|| quantities.get(name)).map(|value| Value::from(*value));
                known.or_else(|| workload.pointer(&format!("/{}", name.replace('.', "/"))).cloned())
            };
            let value = expression.value(&named).map_err(|problem| self.wrong(&at, problem, quantities))?;
            value.as_f64().ok_or_else(|| self.wrong(&at, format!("gives {value}, no number"), quantities))
        };
        for (name, expression) in &self.quantities {
            let value = number(format!("quantities.{name}"), expression, &own)?;
            own.insert(name, value);
        }
        let mut terms = [0.0; KEYS.len()];
        for (place, expression) in &self.terms {
            terms[*place] = number(format!("terms.{}", KEYS[*place]), expression, &own)?;
        }
        Ok(terms)
    }

    fn wrong(&self, at: &str, problem: String, quantities: &BTreeMap<String, f64>) -> SpecError {
        let names: Vec<&str> = quantities.keys().map(String::as_str).collect();
        SpecError::at(at.to_string(), problem)
            .in_file(&self.file)
            .allowed(format!("{}, and fields of the workload by their path", names.join(", ")))
    }
}

/// An expression, or a number as one.
fn text_of(value: Value) -> String {
    match value {
        Value::String(text) => text,
        number => number.to_string(),
    }
}
