//! The kinds of files.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::SpecError;
use stepsim_core::declare::named;

named! {
    /// The kinds of files.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Kind {
        /// A machine.
        Topology = "topology",
        /// A device class.
        Device = "device",
        /// A training step.
        Workload = "workload",
        /// A model.
        Model = "model",
        /// A training software.
        Stack = "stack",
        /// A precision recipe.
        Recipe = "recipe",
        /// Rules and measured times of collectives.
        Collectives = "collectives",
        /// Rules from rows of measurements to workloads.
        Rules = "rules",
        /// Interruptions, restarts and checkpoints of a job.
        Reliability = "reliability",
    }
}

/// A type that a file of its own holds.
pub trait Spec: DeserializeOwned + Serialize + JsonSchema {
    /// The kind of file.
    const KIND: Kind;

    /// Checks what no single field can: sums, products, names. Ranges of single fields are checked as they are read.
    ///
    /// # Errors
    /// The first thing that is wrong, with its path.
    fn validate(&self) -> Result<(), SpecError>;
}
