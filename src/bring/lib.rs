//! What other people write, as a described run: columns of words, arguments, names of models and machines.
//!
//! It knows words, and what a workload is; it knows no terminal and no study.

pub mod describe;
