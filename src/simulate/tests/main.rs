//! Tests of the parts of this crate, one module a subject.

mod behaviour;
mod causes;
mod jump;
mod page_run;
mod records;
mod settings;
