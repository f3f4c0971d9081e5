//! Where a value comes from.

use serde::Serialize;

use stepsim_step::spec::rules::Layer;

/// The four classes of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum From {
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
pub struct Origin {
    /// Which class.
    pub from: From,
    /// In which words it is stated, or why it is taken.
    pub why: String,
}

impl Origin {
    /// Stated in these words.
    pub fn stated(words: impl Into<String>) -> Origin {
        Origin { from: From::Stated, why: words.into() }
    }

    /// Assumed for this reason.
    pub fn assumed(why: impl Into<String>) -> Origin {
        Origin { from: From::Assumed, why: why.into() }
    }

    /// What a rule of a layer says; `stated` are the words that it rests on, if all were stated.
    pub fn of_rule(layer: Layer, stated: Option<String>, why: &str) -> Origin {
        let from = match layer {
            Layer::Defaults => From::Assumed,
            Layer::Software => From::Software,
            Layer::Models => From::Model,
            Layer::Source => From::Stated,
            Layer::Columns | Layer::Devices | Layer::User if stated.is_some() => From::Stated,
            Layer::Columns | Layer::Devices | Layer::User => From::Assumed,
        };
        let why = match (from, stated) {
            (From::Stated, Some(words)) if layer != Layer::Source => words,
            _ => why.to_string(),
        };
        Origin { from, why }
    }
}
