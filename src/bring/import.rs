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
    fn checked(self, file: &str) -> Result<Import, SpecError> {
        self.check(file).map(|()| self)
    }

    /// The workload must load; errors name the argument that a field came from.
    fn check(&self, file: &str) -> Result<(), SpecError> {
        let name = hugging_face::name_of(file);
        from_value::<WorkloadSpec>(self.workload.clone(), name, file.to_string(), &[]).map(drop).map_err(
            |mut e| {
                let from = self
                    .arguments
                    .iter()
                    .filter(|a| a.fields.iter().any(|f| !f.is_empty() && e.path.starts_with(f.as_str())));
                let names: Vec<&str> = from.map(|a| a.name.as_str()).collect();
                if !names.is_empty() && e.hint.is_empty() {
                    e.hint = format!("this field came from {}", names.join(", "));
                } else if e.hint.is_empty() {
                    e.hint = "give what the file does not say with --set, --model or --devices".to_string();
                }
                e
            },
        )
    }
}
