//! The JSON files: their exact shape, how they are found, and what is said when one is wrong.
//!
//! Kinds of files: a [`Topology`] names its [`Device`] and perhaps its [`Collectives`], a workload its model and its
//! software [`StackSpec`]. A *name* means a shipped file ([`catalog`]), a *path* (with `/`, or ending in `.json`)
//! one on disk, relative to the file that refers to it; the content may also stand in place. Any file may name a
//! `base` and give only what differs.
//!
//! [`load()`] does it all: strict JSON (no key twice) → base → references → `--set` → types → [`Spec::validate`]. Every
//! error is a [`SpecError`] with file, JSON path, value, what is allowed and what to do. Sizes are bounded where they
//! are read ([`number`]), so that no later sum or product overflows.
//!
//! Hazard: unknown fields are refused (`deny_unknown_fields`), therefore a struct here cannot use serde's `flatten`,
//! and enums are externally tagged (`"switch": {…}`), which keeps the JSON path of an error exact.
//!
//! Invariant: it knows what a file says and not what follows from it: no layer, machine, price or plan; and no file of
//! other software ([`register`]), nor any of the shipped ones ([`catalog::register`]).

mod attached;
mod blame;
pub mod budget;
pub mod catalog;
pub mod collectives;
mod content;
pub mod cost;
mod dependents;
pub mod device;
mod dtype;
mod error;
pub mod expression;
pub mod facts;
pub mod files;
pub mod glob;
pub mod json;
pub mod kernel;
mod kind;
mod load;
mod machine_name;
pub mod machine_size;
pub mod model;
pub mod names;
pub mod number;
pub mod power;
pub mod problem;
pub mod quantity;
mod readers;
pub mod recipe;
mod reference;
pub mod reliability;
pub mod rules;
mod scale;
pub mod simple;
mod sources;
pub mod stack;
mod stack_defaults;
mod stated;
pub mod topology;
mod topology_builder;
mod topology_check;
mod variations;
pub mod words;
pub mod workload;

pub use attached::Attachment;
pub use blame::blame_setting;
pub use collectives::Collectives;
pub use content::hash;
pub use content::{Content, content_hash};
pub use device::Device;
pub use error::{SpecError, nearest};
pub use files::{Disk, Files};
pub use json::{merge, read as read_json, read_of_others, set as set_at, setting, typed as typed_json};
pub use kind::{Kind, Spec};
pub use load::{Draft, LoadedSpec, from_text, from_value, load, load_from};
pub use machine_name::is_called_like_a_file;
pub use model::ModelSpec;
pub use readers::{Readers, register};
pub use recipe::Recipe;
pub use reliability::Reliability;
pub use rules::RulesSpec;
pub use stack::{ModelSplit, StackSpec};
pub use topology::Topology;
pub use variations::Variations;
pub use workload::{Dtype, WorkloadSpec};

use serde_json::json;

use error::first;
use workload::ModelRef;

impl Spec for ModelSpec {
    const KIND: Kind = Kind::Model;

    fn validate(&self) -> Result<(), SpecError> {
        first(ModelSpec::validate(self, ""))
    }
}

impl Spec for WorkloadSpec {
    const KIND: Kind = Kind::Workload;

    /// Checks what the step shows without its machine; loading has put the model in its place.
    fn validate(&self) -> Result<(), SpecError> {
        match &self.model {
            ModelRef::Inline(model) => first(WorkloadSpec::validate(self, model)),
            ModelRef::Named(_) => Ok(()),
        }
    }
}

/// JSON Schema of the files of a kind that are laid over no base, but for the file itself.
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
    over_a_base(&mut schema, &format!("{} file", kind.name()));
    schema
}

/// JSON Schema of the files of a kind as people write them. A file or content with a `base` need not have the fields that
/// its base has.
pub fn schema_with_bases(kind: Kind) -> serde_json::Value {
    let mut schema = schema(kind);
    // Content that stands in the place of a name may be laid over a base, too.
    let contents: Vec<String> =
        schema["$defs"].as_object().into_iter().flatten().filter_map(in_place).collect();
    for content in contents {
        over_a_base(&mut schema["$defs"][&content], "file of its kind");
    }
    let mut listed = Vec::new();
    items(&schema, &mut listed);
    // A part of a file need not have either what a base has; an element of a list is laid over nothing.
    for (name, definition) in schema["$defs"].as_object_mut().into_iter().flatten() {
        if let Some(map) = definition.as_object_mut().filter(|map| map.contains_key("properties"))
            && !listed.contains(name)
        {
            map.shift_remove("required");
        }
    }
    schema
}

/// The definition of the content that a definition allows beside the name of a file.
fn in_place((name, definition): (&String, &serde_json::Value)) -> Option<String> {
    let content = definition["anyOf"][1]["$ref"].as_str().filter(|_| name.contains("Reference"))?;
    Some(content.strip_prefix("#/$defs/")?.into())
}

/// Names of the definitions that are elements of lists.
fn items(schema: &serde_json::Value, listed: &mut Vec<String>) {
    let element = schema["items"]["$ref"].as_str().and_then(|at| at.strip_prefix("#/$defs/"));
    listed.extend(element.map(String::from));
    let parts = schema.as_object().into_iter().flat_map(|map| map.values());
    parts.chain(schema.as_array().into_iter().flatten()).for_each(|part| items(part, listed));
}

/// Adds the field `base` to the schema of an object, which need not have the fields that its base has.
fn over_a_base(schema: &mut serde_json::Value, kind: &str) {
    let Some(map) = schema.as_object_mut().filter(|map| map.contains_key("properties")) else { return };
    let required = map.shift_remove("required").unwrap_or_else(|| json!([]));
    map.insert("anyOf".into(), json!([{"required": ["base"]}, {"required": required}]));
    let base = format!("Name or path of another {kind}, over which this one is laid.");
    map["properties"]["base"] = json!({"type": "string", "description": base});
}

/// JSON Schema of a type that a file holds.
fn schema_of<T: Spec>() -> serde_json::Value {
    schemars::schema_for!(T).to_value()
}
