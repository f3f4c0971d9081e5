//! Conditions on points: `parallelism.tensor * parallelism.pipeline.size <= 16`, an [`Expression`] that is true or
//! false.
//!
//! A name is a field that the study varies, or else one of the workload.

use serde_json::Value;

use stepsim_spec::SpecError;
use stepsim_spec::expression::Expression;

/// Bytes of a condition.
const MOST_BYTES: usize = 4096;

/// A condition that has been read.
#[derive(Clone, Debug, PartialEq)]
pub struct RowCondition {
    option: &'static str,
    text: String,
    root: Expression,
}

impl RowCondition {
    /// Reads a condition that a point must meet.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<RowCondition, SpecError> {
        RowCondition::of("--where", text)
    }

    /// Reads a condition that was given to `option`.
    ///
    /// # Errors
    /// It is none.
    pub fn of(option: &'static str, text: &str) -> Result<RowCondition, SpecError> {
        if text.len() > MOST_BYTES {
            let problem = format!("{} bytes are too many", text.len());
            return Err(SpecError::file(option, problem).allowed(format!("at most {MOST_BYTES}")));
        }
        let wrong = |problem: String| {
            SpecError::file(format!("{option} {text}"), problem)
                .allowed("comparisons of numbers, texts in '' and fields, joined by + - * / % and or not ( )")
                .hint("for example --where 'parallelism.tensor * parallelism.pipeline.size <= 16'")
        };
        let root = Expression::parse(text).map_err(wrong)?;
        Ok(RowCondition { option, text: text.to_string(), root })
    }

    /// The paths that it names.
    pub(super) fn paths(&self) -> Vec<String> {
        self.root.names()
    }

    /// True if it holds, where `field` gives the value of a path.
    ///
    /// # Errors
    /// A path that has no value, or operands that do not go together.
    pub fn holds(&self, field: &dyn Fn(&str) -> Option<Value>) -> Result<bool, SpecError> {
        let wrong = |problem| SpecError::file(format!("{} {}", self.option, self.text), problem);
        match self.root.value(field).map_err(wrong)? {
            Value::Bool(holds) => Ok(holds),
            other => Err(wrong(format!("it gives {other}, not true or false"))
                .hint("compare it with something: `batch.global >= 64`")),
        }
    }
}
