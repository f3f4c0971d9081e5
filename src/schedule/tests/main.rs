//! Tests of the parts of this crate, one module a subject.

mod interleaved;
mod layers;
mod sharding_exchange;
mod sharding_registry;
mod sides;
mod turns;
mod user;
