//! Failures as Python exceptions: the parts of a fault become attributes.

use pyo3::prelude::*;
use stepsim::lab::simulate::{Fault, Status};

/// A value as JSON.
pub fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The exception of `stepsim.errors` that stands for a fault.
pub fn raised(fault: Fault) -> PyErr {
    let status = match fault.status {
        Status::Invalid => "invalid",
        Status::OutOfMemory => "out_of_memory",
        Status::Deadlock => "deadlock",
        _ => "failed",
    };
    Python::attach(|py| {
        let made = PyModule::import(py, "stepsim.errors")
            .and_then(|errors| errors.getattr("of_fault")?.call1((status, json(&fault))));
        made.map_or_else(|e| e, PyErr::from_value)
    })
}
