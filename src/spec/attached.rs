//! Lists that a workload keeps in files of their own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::SpecError;

/// The path of a JSON file, or its content in place. Loading puts the content in place of the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Attachment {
    /// A path, relative to the file that names it.
    Path(String),
    /// The content.
    Content(Value),
}

impl Attachment {
    /// The content.
    ///
    /// # Errors
    /// The path was not followed: the workload was not loaded, or names a file where content was expected.
    pub fn content(&self) -> Result<&Value, SpecError> {
        match self {
            Attachment::Content(value) => Ok(value),
            Attachment::Path(path) => Err(SpecError::at("", format!("`{path}` was not read"))
                .allowed("the content in place, or a path in a workload that is loaded")),
        }
    }
}

impl std::fmt::Display for Attachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Attachment::Path(path) => f.write_str(path),
            Attachment::Content(_) => f.write_str("the content given"),
        }
    }
}
