//! What is said beside a file.

use serde_json::Value;

use super::invocation::Counts;

/// The facts beside the file.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// The model instead of the file's: a name, a path, or itself.
    pub model: Option<Value>,
    /// Devices instead of the file's.
    pub devices: Option<u64>,
    /// The machine.
    pub topology: Option<String>,
    /// Nodes of the machine and devices of each, for a script that asks.
    pub counts: Option<Counts>,
    /// The name of its devices.
    pub device: Option<String>,
    /// Fields that are stated beside the file, whatever it says.
    pub stated: Vec<String>,
    /// `path=value` texts over what the file says.
    pub sets: Vec<String>,
    /// Further files of the same software with their texts; each lies over those before.
    pub more: Vec<(String, String)>,
    /// Sequences of a step instead of the file's.
    pub batch: Option<u64>,
    /// Sequences of a step where neither says it.
    pub usual_batch: Option<u64>,
    /// Finds a model by a name in anybody's spelling, where none that is shipped has it.
    pub models: Option<fn(&str) -> Option<Value>>,
}
