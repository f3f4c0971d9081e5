//! The kinds of files.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::SpecError;

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
