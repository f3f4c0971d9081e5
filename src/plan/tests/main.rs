//! Tests of the parts of this crate, one module a subject.

#[path = "../../../tests/draws.rs"]
mod draws;
mod launch;
mod schedules;
