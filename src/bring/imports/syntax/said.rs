//! The contents of a file of arguments.

use serde_json::Value;

/// The statements of a text.
#[derive(Debug, Default)]
pub struct TextStatements {
    /// Names and values, in order.
    pub arguments: Vec<(String, Value)>,
    /// The values that a script leaves to the line that runs it.
    pub open: Vec<Open>,
}

/// A variable of a script that nothing sets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Open {
    pub variable: String,
    /// Arguments whose value it is.
    pub arguments: Vec<String>,
    /// Values that conditions compare it with.
    pub choices: Vec<String>,
    /// True for a variable; else what is asked of a machine: a file, an output.
    pub is_variable: bool,
}

impl Open {
    /// A variable that one argument hangs on.
    pub fn variable(variable: &str, argument: &str) -> Open {
        let (variable, arguments) = (variable.to_string(), vec![argument.to_string()]);
        Open { variable, arguments, is_variable: true, ..Open::default() }
    }
}
