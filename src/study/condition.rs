//! Conditions on points: `parallelism.tensor * parallelism.pipeline.size <= 16`, an [`Expression`] that is true or
//! false.
//!
//! A name is a field that the study varies, or else one of the workload.

use serde_json::Value;

use stepsim_step::spec::SpecError;
use stepsim_step::spec::expression::Expression;

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(text: &str) -> Result<bool, String> {
        let point = json!({"a": 4, "b.size": 8, "kind": "1f1b", "order": true, "none": null});
        let condition = RowCondition::parse(text).map_err(|e| e.to_string())?;
        condition.holds(&|path| point.get(path).cloned()).map_err(|e| e.to_string())
    }

    #[test]
    fn operators_bind_as_usual() {
        for text in [
            "a * b.size == 32",
            "a + b.size * 2 == 20 and not a > 4",
            "(a + b.size) * 2 == 24",
            "a - 1 - 1 == 2",
            "-a < 0 or nothing == 1",
            "kind == '1f1b' && b.size % a == 0",
            "order and none == null",
            "order or false and false",
            "not kind == \"gpipe\"",
        ] {
            assert_eq!(holds(text), Ok(true), "{text}");
        }
        assert_eq!(holds("a / b.size >= 1"), Ok(false));
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for (text, part) in [
            ("", "a value is missing"),
            ("a *", "a value is missing"),
            ("(a == 4", "a `)` is missing"),
            ("a == 4 b", "`b` follows"),
            ("a < b.size < 9", "`< 9` follows"),
            ("a + 1", "not true or false"),
            ("c == 1", "no field `c`"),
            ("kind > 3", "is no number"),
            ("1x == 3", "`1x` is no number"),
            ("kind == 'open", "a text without its end"),
        ] {
            let message = holds(text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
