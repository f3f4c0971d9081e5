//! Errors of lowering.

use thiserror::Error;

use super::unsupported::UnsupportedAlgorithm;

/// A collective that cannot be lowered.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CollectiveError {
    /// Two members have no route between them.
    #[error("the group is not connected: {0}")]
    NotConnected(String),
    /// The algorithm asked for cannot run on the group, or none can.
    #[error(transparent)]
    Unsupported(#[from] UnsupportedAlgorithm),
    /// A group without members, or with a member twice.
    #[error("{0}")]
    BadGroup(String),
}
