//! Tests of the parts of this crate, one module a subject.

mod collective;
mod fabrics;
mod messages;
mod rings;
mod spec_topology_builder;
mod topology;
mod topology_place;
mod uplinks;
