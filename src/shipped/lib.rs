//! The files that the program carries: devices, machines, models, workloads, stacks, rules, tables of imports. The
//! front hands them in (`stepsim_spec::catalog::register`).
//!
//! Invariant: it is data and knows no crate, and no crate but the front knows it: a changed figure compiles nothing
//! else.

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
