//! Parts of `study`, one module a file of it.

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
mod refine;
mod simulating;
mod space;
