//! Tests of the parts of this crate, one module a subject.

mod cost;
mod cost_clock;
mod cost_measured_written;
mod documents_dynamic;
mod documents_expected;
mod documents_lengths;
mod model;
mod moe;
