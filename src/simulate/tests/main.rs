//! Tests of the parts of this crate, one module a subject.

mod behaviour;
mod jump;
mod page_run;
mod settings;
