//! Where a value comes from.

use serde::Serialize;

use stepsim_spec::rules::Layer;

/// The four classes of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ValueClass {
    /// The description says so.
    Stated,
    /// The named model has it.
    Model,
    /// The software does so unasked.
    Software,
    /// Nothing says so; it is the usual guess.
    Assumed,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ValueOrigin {
    /// The class.
    pub from: ValueClass,
    /// In which words it is stated, or why it is taken.
    pub why: String,
}

impl ValueOrigin {
    /// Stated in these words.
    pub fn stated(words: impl Into<String>) -> ValueOrigin {
        ValueOrigin { from: ValueClass::Stated, why: words.into() }
    }

    /// Assumed for this reason.
    pub fn assumed(why: impl Into<String>) -> ValueOrigin {
        ValueOrigin { from: ValueClass::Assumed, why: why.into() }
    }

    /// The origin of a rule's value; `stated` are the words that it rests on, if all were stated.
    pub fn of_rule(layer: Layer, stated: Option<String>, why: &str) -> ValueOrigin {
        let from = match layer {
            Layer::Defaults => ValueClass::Assumed,
            Layer::Software => ValueClass::Software,
            Layer::Models => ValueClass::Model,
            Layer::Source => ValueClass::Stated,
            Layer::Columns | Layer::Devices | Layer::User if stated.is_some() => ValueClass::Stated,
            Layer::Columns | Layer::Devices | Layer::User => ValueClass::Assumed,
        };
        let why = match (from, stated) {
            (ValueClass::Stated, Some(words)) if layer != Layer::Source => words,
            _ => why.to_string(),
        };
        ValueOrigin { from, why }
    }
}
