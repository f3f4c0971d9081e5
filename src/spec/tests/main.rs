//! Tests of the parts of this crate, one module a subject.

mod blame;
mod budget;
mod content;
mod dependents;
mod error;
mod expression;
mod files;
mod glob;
mod machine_name;
mod machine_size;
mod names;
mod power;
mod quantity;
mod spec;
mod stack;
mod stated;
mod variations;
mod words;
mod workload;
