//! A run described in anybody's words: the understood part, its origins, and the rest.
//!
//! [`describe()`] takes columns of words (a row of measurements, arguments, a sentence cut in pieces) and the
//! vocabulary ([`RuleBook`], `workloads/rules/*.json`), and gives a [`Description`]: every [`DescribedField`] of the
//! step with its value and [`ValueOrigin`] (stated, from the named model, the software's default, assumed), what was
//! not understood, and the workload and machine that follow. [`Description::inputs`] is what the simulator takes.
//!
//! Hazard: a word that is not understood drops nothing. It is a gap and stands beside the result; an error means that
//! devices, batch or model cannot be had.

mod book;
pub mod columns;
mod description;
mod encoders;
mod field_columns;
pub mod layout;
mod machine;
mod measurements;
pub mod model;
pub mod network;
mod origin;
mod relief;
pub mod shape;
mod shapes;
pub mod size;
pub mod stages;
mod tables;
mod workload;

pub use book::{RuleBook, Ruling};
pub use columns::{AssumedField, DescribedColumns};
pub use description::{DescribedField, Description, describe, inputs};
pub use layout::DescribedLayout;
pub use machine::MachineCase;
pub use model::{model_named, model_of_word, models_by_name, of_another_size};
pub use origin::{ValueClass, ValueOrigin};
pub use relief::{Relief, reliefs};
pub use shapes::Shapes;
pub(crate) use stages::split as split_of_stages;
