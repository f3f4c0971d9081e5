//! Formulas of others, held term by term beside the closed form and the simulation.
//!
//! A formula is a file: a name, a source, quantities of its own, and terms, each an expression
//! ([`stepsim_spec::expression`]) over the named quantities of a step
//! ([`crate::analytic::ClosedForm::quantities`]), over fields of the workload by their path
//! (`parallelism.pipeline.schedule`), and over what stands before it. A term that it lacks is zero. As CSV the file
//! has a line for each: `name,expression`; a name that is no term's is a quantity.
//!
//! Shipped ([`SHIPPED`]) are published ones, so that a reader sees which holds where.

mod file;
mod reading;

pub use file::{Formula, SHIPPED, schema};
pub use reading::{FormulaReading, FormulaTerm, quantities};
