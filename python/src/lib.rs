//! The compiled half of the Python package `stepsim`: names, JSON texts and columns cross the border, nothing else.
//!
//! Every function takes texts (the words of a command; a name, a path or the content of a file; `path=value`
//! settings) and returns JSON or Arrow tables; the Python half gives them types. Work is done without the
//! interpreter's lock, on a thread of its own, and is called off by an interrupt.

mod asked;
mod command;
mod error;
mod run;
mod study;
mod table;
mod tables;
mod watch;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    stepsim::register_shipped().map_err(|e| PyValueError::new_err(e.to_string()))?;
    stepsim::bring::read_other_software();
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<run::Run>()?;
    m.add_class::<table::Table>()?;
    m.add_function(wrap_pyfunction!(command::main, m)?)?;
    m.add_function(wrap_pyfunction!(command::answer, m)?)?;
    m.add_function(wrap_pyfunction!(command::commands, m)?)?;
    m.add_function(wrap_pyfunction!(run::run, m)?)?;
    m.add_function(wrap_pyfunction!(study::sweep, m)?)?;
    m.add_function(wrap_pyfunction!(study::count, m)?)?;
    m.add_function(wrap_pyfunction!(study::missing, m)?)?;
    m.add_function(wrap_pyfunction!(study::search, m)?)?;
    Ok(())
}
