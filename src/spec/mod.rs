//! The JSON files: their exact shape, how they are found, and what is said when one is wrong.
//!
//! Kinds of files: a [`Topology`] names its [`Device`] and perhaps its [`Collectives`], a workload its model and
//! its software [`StackSpec`]. A *name* means a file that the
//! binary carries, a *path* (with `/`, or ending in `.json`) one on disk, relative to the file that refers to it; the
//! content may also stand in place. Any file may name a `base` and give only what differs.
//!
//! [`load()`] does it all: strict JSON (no key twice) → base → references → `--set` → types → [`Spec::validate`]. Every
//! error is a [`SpecError`] with file, JSON path, value, what is allowed and what to do. Sizes are bounded where they
//! are read ([`number`]), so that no later sum or product overflows.
//!
//! Hazard: unknown fields are refused (`deny_unknown_fields`), therefore a struct here cannot use serde's `flatten`,
//! and enums are externally tagged (`"switch": {…}`), which keeps the JSON path of an error exact.

mod attached;
pub mod catalog;
pub mod collectives;
pub mod cost;
pub mod device;
mod error;
mod files;
pub mod hugging_face;
pub mod imports;
pub(crate) mod json;
pub mod kernel;
mod load;
pub mod model;
pub mod nccl_tests;
pub mod number;
pub mod problem;
pub mod recipe;
pub mod reliability;
pub mod rules;
mod scale;
pub mod simple;
pub mod stack;
#[cfg(test)]
mod tests;
pub mod topology;
mod topology_builder;
mod topology_check;
pub mod workload;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

pub use attached::Attached;
pub use collectives::Collectives;
pub use device::Device;
pub use error::{SpecError, nearest};
pub use files::{Disk, Files};
pub(crate) use json::{merge, read as read_json, typed as typed_json};
pub(crate) use load::hash;
pub use load::{Draft, Loaded, blame_setting, content_hash, from_text, from_value, load, load_from};
pub use model::ModelSpec;
pub use recipe::Recipe;
pub use reliability::Reliability;
pub use rules::RulesSpec;
pub use stack::StackSpec;
pub use topology::Topology;
pub use workload::{Dtype, WorkloadSpec};

use problem::Problem;
use workload::ModelRef;

/// The kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A machine.
    Topology,
    /// A device class.
    Device,
    /// A training step.
    Workload,
    /// A model.
    Model,
    /// A training software.
    Stack,
    /// A precision recipe.
    Recipe,
    /// Rules and measured times of collectives.
    Collectives,
    /// Rules from rows of measurements to workloads.
    Rules,
    /// Interruptions, restarts and checkpoints of a job.
    Reliability,
}

/// A type that a file of its own holds.
pub trait Spec: DeserializeOwned + Serialize + JsonSchema {
    /// Which kind of file.
    const KIND: Kind;

    /// Checks what no single field can: sums, products, names. Ranges of single fields are checked as they are read.
    ///
    /// # Errors
    /// The first thing that is wrong, with its path.
    fn validate(&self) -> Result<(), SpecError>;
}

impl Spec for ModelSpec {
    const KIND: Kind = Kind::Model;

    fn validate(&self) -> Result<(), SpecError> {
        first(ModelSpec::validate(self, ""))
    }
}

impl Spec for WorkloadSpec {
    const KIND: Kind = Kind::Workload;

    /// What the step shows without its machine; loading has put the model in its place.
    fn validate(&self) -> Result<(), SpecError> {
        match &self.model {
            ModelRef::Inline(model) => first(WorkloadSpec::validate(self, model)),
            ModelRef::Named(_) => Ok(()),
        }
    }
}

/// The first of several problems as an error.
fn first(problems: Vec<Problem>) -> Result<(), SpecError> {
    problems.into_iter().next().map_or(Ok(()), |problem| Err(problem.into()))
}

impl From<Problem> for SpecError {
    fn from(problem: Problem) -> SpecError {
        SpecError::at(problem.path, format!("{} is not allowed", problem.value))
            .value(problem.value)
            .allowed(problem.allowed)
            .hint(problem.hint)
    }
}

/// JSON Schema of the files of a kind. A file with a `base` need not have the fields that its base has.
pub fn schema(kind: Kind) -> serde_json::Value {
    let mut schema = match kind {
        Kind::Topology => schema_of::<Topology>(),
        Kind::Device => schema_of::<Device>(),
        Kind::Workload => schema_of::<WorkloadSpec>(),
        Kind::Model => schema_of::<ModelSpec>(),
        Kind::Stack => schema_of::<StackSpec>(),
        Kind::Recipe => schema_of::<Recipe>(),
        Kind::Collectives => schema_of::<Collectives>(),
        Kind::Rules => schema_of::<RulesSpec>(),
        Kind::Reliability => schema_of::<Reliability>(),
    };
    let Some(map) = schema.as_object_mut() else { return schema };
    let required = map.shift_remove("required").unwrap_or_else(|| json!([]));
    map.insert("anyOf".into(), json!([{"required": ["base"]}, {"required": required}]));
    let base = format!("Name or path of another {} file, over which this one is laid.", kind.word());
    map["properties"]["base"] = json!({"type": "string", "description": base});
    schema
}

/// JSON Schema of a type that a file holds.
fn schema_of<T: Spec>() -> serde_json::Value {
    schemars::schema_for!(T).to_value()
}
