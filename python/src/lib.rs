//! The compiled half of the Python package `stepsim`: names, JSON texts and columns cross the border, nothing else.
//!
//! Every function takes texts (a name, a path or the content of a file; `path=value` settings) and returns JSON or Arrow
//! tables; the Python half gives them types. The interpreter's lock is released while anything is simulated.

mod error;
mod run;
mod study;
mod table;

use pyo3::prelude::*;

use stepsim::lab::compare::workload as compared;
use stepsim::lab::simulate::{Inputs, SimulationError};
use stepsim::read::profile::{self, Classes, Window};
use stepsim::step::spec::{Kind, catalog};

use error::{json, raised};

/// The closed form of a step, as JSON.
#[pyfunction]
fn estimate(py: Python<'_>, workload: &str, topology: Option<&str>, sets: Vec<String>) -> PyResult<String> {
    let found = py.detach(|| -> Result<String, SimulationError> {
        let inputs = Inputs::load(workload, topology, &sets)?;
        Ok(json(&compared::closed_form(&inputs)?.report()))
    });
    found.map_err(|e| raised((&e).into()))
}

/// Closed form and simulation term by term, as JSON.
#[pyfunction]
fn compare(py: Python<'_>, workload: &str, topology: Option<&str>, sets: Vec<String>) -> PyResult<String> {
    let found =
        py.detach(|| compared::compare(workload, topology, &sets, &mut |_| {}).map(|found| json(&found.0)));
    found.map_err(|e| raised((&e).into()))
}

/// Profiles of real steps, as JSON.
#[pyfunction]
fn analyze(py: Python<'_>, traces: Vec<std::path::PathBuf>, linked: bool) -> PyResult<String> {
    py.detach(|| {
        let (classes, mut profiles, mut unread) = (Classes::shipped(), Vec::new(), Vec::new());
        for path in &traces {
            match profile::read(path, &classes) {
                Ok(read) => profiles.extend(read),
                Err(e) => unread.push(e),
            }
        }
        match unread.first() {
            Some(e) if profiles.is_empty() => return Err(e.into()),
            _ => {}
        }
        let mut report = profile::report(&mut profiles, if linked { Window::Linked } else { Window::All });
        report.unread = unread.iter().map(|e| format!("{}: {}", e.file, e.problem)).collect();
        Ok(json(&report))
    })
    .map_err(raised)
}

/// Names of the files that the package carries.
#[pyfunction]
fn names(kind: &str) -> PyResult<Vec<&'static str>> {
    let kind = match kind {
        "workloads" => Kind::Workload,
        "topologies" => Kind::Topology,
        "devices" => Kind::Device,
        "models" => Kind::Model,
        "stacks" => Kind::Stack,
        other => {
            let problem = stepsim::step::spec::SpecError::file("names", format!("there are no `{other}`"))
                .value(other)
                .allowed("workloads, topologies, devices, models, stacks");
            return Err(raised((&problem).into()));
        }
    };
    Ok(catalog::names(kind).collect())
}

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<run::Run>()?;
    m.add_class::<table::Table>()?;
    m.add_function(wrap_pyfunction!(run::run, m)?)?;
    m.add_function(wrap_pyfunction!(estimate, m)?)?;
    m.add_function(wrap_pyfunction!(compare, m)?)?;
    m.add_function(wrap_pyfunction!(analyze, m)?)?;
    m.add_function(wrap_pyfunction!(names, m)?)?;
    m.add_function(wrap_pyfunction!(study::sweep, m)?)?;
    m.add_function(wrap_pyfunction!(study::count, m)?)?;
    m.add_function(wrap_pyfunction!(study::missing, m)?)?;
    m.add_function(wrap_pyfunction!(study::search, m)?)?;
    Ok(())
}
