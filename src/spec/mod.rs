//! The JSON files: their exact shape and their validation.

pub mod model;
pub mod problem;
pub mod workload;
