//! Checks a model's number of parameters against the stated one.

use std::fmt;

use super::book::Ruling;
use super::origin::ValueClass;
use stepsim_price::model::{ParameterCount, module_parameters};
use stepsim_spec::{ModelSpec, names};

/// A fraction off that is told.
pub const WARNED: f64 = 0.03;

/// A fraction off at which a guess is dropped.
pub const DROPPED: f64 = 0.10;

/// Parameters of a model beside those that are stated.
#[derive(Clone, Debug, PartialEq)]
pub struct Off {
    /// Fraction by which they differ, the rounding of a name left out.
    pub by: f64,
    counted: f64,
    stated: f64,
    words: String,
}

impl fmt::Display for Off {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} says {:.4} B parameters, the model has {:.4} B", self.words, self.stated, self.counted)
    }
}

/// How far a model is from what a description says of its size; `None` where it says nothing of this model's, or
/// where the vocabulary knows that the model's name says something else (column `size_in_name`).
pub fn off(ruling: &Ruling, model: &ModelSpec) -> Option<Off> {
    let c = &ruling.columns;
    let column =
        c.origin("params_b").filter(|o| o.from == ValueClass::Stated && o.why.starts_with("params_b"));
    let (stated, rounding, words) = match column.and_then(|o| Some((c.number("params_b")?, o))) {
        Some((stated, origin)) => (stated, 0.0, origin.why),
        None if cut_down(ruling, model) || c.has("size_in_name") => return None,
        None => {
            let name = c.text("model");
            let stated = names::billions(&name)?;
            (stated, half_a_unit(stated), format!("the name {name:?}"))
        }
    };
    // Some names count the encoders, some do not.
    let text = ParameterCount::of(model).total();
    let whole = text + model.modules.iter().map(module_parameters).sum::<u64>();
    let off = |parameters: &f64| (parameters - stated).abs();
    let counted = [text, whole].map(|parameters| parameters as f64 / 1e9).into_iter();
    let counted = counted.min_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or_default();
    let by = ((counted - stated).abs() - rounding).max(0.0) / stated;
    Some(Off { by, counted, stated, words })
}

/// True if fewer layers are stated than the named model has: its size differs from the name's.
fn cut_down(ruling: &Ruling, model: &ModelSpec) -> bool {
    let named = ruling.shape.get("layers").and_then(serde_json::Value::as_u64);
    let name = ruling.columns.text("model").to_lowercase();
    named.is_some_and(|layers| layers != model.layers)
        || ["truncated", "proxy", "reduced", "cut", "layers"].iter().any(|word| name.contains(word))
}

/// Half of the last figure of a size in a name: `1B` is anything from 0.5 to 1.5, `6.7B` from 6.65 to 6.75.
pub fn half_a_unit(billions: f64) -> f64 {
    let mut unit = 1.0;
    while unit > 1e-3 && ((billions / unit).round() * unit - billions).abs() > 1e-9 {
        unit /= 10.0;
    }
    unit / 2.0
}
