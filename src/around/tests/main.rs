//! Tests of the parts of this crate, one module a subject.

mod calculon;
