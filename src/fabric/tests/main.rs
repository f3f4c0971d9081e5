//! Tests of the parts of this crate, one module a subject.

mod spec_topology_builder;
mod topology;
mod topology_place;
