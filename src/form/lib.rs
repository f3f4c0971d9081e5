//! The closed form of a step, what it and a simulation say of the same step, and the formulas of others.
//!
//! It knows a step and what a simulation reported of it; nothing here plays one.

pub mod analytic;
pub mod compare;
