//! Tests of the parts of this crate, one module a subject.

mod columns;
mod condition;
mod csv;
mod formula_map;
mod knee;
mod layout;
mod measure_words;
mod objective;
mod page;
mod plot;
mod reasons;
mod simulating;
mod space;
