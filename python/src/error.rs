//! Failures as Python exceptions: the parts of a fault become attributes.

use std::any::Any;

use pyo3::prelude::*;
use stepsim::cli::Failure;
use stepsim::simulate::{Fault, RunStatus};

/// A value as JSON.
pub fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The exception of `stepsim.errors` that stands for a fault.
pub fn raised(fault: &Fault) -> PyErr {
    let status = match fault.status {
        RunStatus::Invalid => "invalid",
        RunStatus::OutOfMemory => "out_of_memory",
        RunStatus::Deadlock => "deadlock",
        _ => "failed",
    };
    Python::attach(|py| {
        let made = PyModule::import(py, "stepsim.errors")
            .and_then(|errors| errors.getattr("of_fault")?.call1((status, json(fault))));
        made.map_or_else(|e| e, PyErr::from_value)
    })
}

/// That of a command that failed.
pub fn failed(failure: &Failure) -> PyErr {
    raised(failure.fault())
}

/// What is raised where work has panicked with a reason.
pub fn defect(reason: Option<Box<dyn Any + Send>>) -> PyErr {
    let words = |reason: &Box<dyn Any + Send>| {
        let text = reason.downcast_ref::<&str>().map(ToString::to_string);
        text.or_else(|| reason.downcast_ref::<String>().cloned())
    };
    let why = reason.as_ref().and_then(words).unwrap_or_default();
    let message = format!("a defect of stepsim: {why}\n  what to do: please report it, with what was called");
    raised(&Fault { status: RunStatus::Failed, message, ..Fault::default() })
}
