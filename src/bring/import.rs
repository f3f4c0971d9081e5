//! Files of training software as workloads that load.

use crate::hugging_face;
use crate::imports::{Beside, Import, translate, translate_model};
use stepsim_spec::{SpecError, WorkloadSpec, from_value};

/// Reads a file of a format ([`crate::imports::FormatTable`]).
///
/// # Errors
/// No such format, a text that is not of its syntax, or arguments that make no workload.
pub fn import(format: &str, text: &str, file: &str, beside: &Beside) -> Result<Import, SpecError> {
    translate(format, text, file, beside).and_then(|made| made.checked(file))
}

/// A run of software from its model alone and the files beside it.
///
/// # Errors
/// No such format, or a model that makes no workload.
pub fn import_model(format: &str, file: &str, beside: &Beside) -> Result<Import, SpecError> {
    translate_model(format, file, beside).and_then(|made| made.checked(file))
}

impl Import {
    /// The workload must load; errors name the argument that a field came from.
    fn checked(self, file: &str) -> Result<Import, SpecError> {
        let name = hugging_face::name_of(file);
        let made = from_value::<WorkloadSpec>(self.workload.clone(), name, file.to_string(), &[]);
        let Err(error) = made else { return Ok(self) };
        let comes = |field: &String| !field.is_empty() && error.path.starts_with(field.as_str());
        let from = self.arguments.iter().filter(|argument| argument.fields.iter().any(comes));
        let names: Vec<&str> = from.map(|argument| argument.name.as_str()).collect();
        let hint = match (error.hint.as_str(), names.as_slice()) {
            ("", []) => "give what the file does not say with --set, --model or --devices".to_string(),
            ("", names) => format!("this field came from {}", names.join(", ")),
            (hint, _) => hint.to_string(),
        };
        Err(error.hint(hint))
    }
}
