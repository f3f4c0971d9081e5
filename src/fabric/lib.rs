//! Machines as graphs of links, and collectives on them.
//!
//! The rooms; each uses only the rooms before it: `topology` → `collective`
//!
//! Invariant: it knows no model, no schedule and no plan: bytes go between positions, whatever they mean.

pub mod collective;
pub mod topology;
