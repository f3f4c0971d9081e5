//! Measured steps: profiles of real runs, prices learned from them, rows of published steps and how
//! far a simulation is from each.
//!
//! It knows a step and a profile; it knows no study and no terminal.

pub mod page;
pub mod profile;
pub mod replay;
pub mod score;
pub mod summary;
pub mod why;
