//! Tests of the parts of this crate, one module a subject.

mod launch;
mod schedules;
#[allow(dead_code, reason = "shared with the tests of the whole program")]
#[path = "../../../tests/slow.rs"]
mod slow;
