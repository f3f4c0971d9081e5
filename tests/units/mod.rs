//! Tests of parts: they stand here, so that no crate is compiled a second time for its tests.

mod bring;
mod core;
mod form;
mod measure;
mod read;
mod simulate;
mod step;
mod study;
