//! Parts of `study`, one module a file of it.

mod columns;
mod condition;
mod csv;
mod formula_map;
mod knee;
mod layout;
mod measure_words;
mod objective;
mod otherwise_gap;
mod page;
mod plot;
mod reasons;
mod refine;
mod simulating;
mod space;
