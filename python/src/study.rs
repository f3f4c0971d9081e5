//! Sweeps and searches.

use std::path::PathBuf;

use pyo3::prelude::*;
use stepsim::simulate::Fault;
use stepsim::spec::SpecError;
use stepsim::study::{
    How, Objective, ReportColumns, SearchOptions, Space, Study, StudyAxis, StudyBase, StudyError,
    SweepOptions, SweepShard,
};

use crate::error::{json, raised};
use crate::watch::watched;

/// A study from the JSON of its file.
fn read(study: &str) -> Result<(StudyBase, Space, ReportColumns), SpecError> {
    let value = serde_json::from_str(study).map_err(|e| SpecError::file("study", e.to_string()))?;
    let study = Study::from_value(&value).map_err(|e| e.in_file("study"))?;
    let base = StudyBase::load(&study.workload, study.topology.as_deref(), &study.sets())?;
    let space = Space::of(study.axes()?, &study.choice()?, &base)?;
    let columns = study.columns()?;
    Ok((base, space, columns))
}

/// Number of points of a study.
#[pyfunction]
pub fn count(py: Python<'_>, study: &str) -> PyResult<usize> {
    py.detach(|| read(study).map(|found| found.1.count())).map_err(|e| raised(&(&e).into()))
}

/// Numbers of the points of a study that have no row yet in a result file.
#[pyfunction]
#[pyo3(signature = (study, closed_form, output))]
pub fn missing(
    py: Python<'_>,
    study: &str,
    closed_form: bool,
    output: Option<PathBuf>,
) -> PyResult<Vec<usize>> {
    let how = if closed_form { How::ClosedForm } else { How::Simulated };
    let found: Result<Vec<usize>, StudyError> = py.detach(|| {
        let (base, space, columns) = read(study)?;
        match output {
            Some(path) => stepsim::study::missing(&base, &space, (how, &columns), &path),
            None => Ok((0..space.count()).collect()),
        }
    });
    found.map_err(|e| raised(&Fault::from(&e)))
}

/// Every point of a study as JSON lines.
#[pyfunction]
#[pyo3(signature = (study, closed_form, shard, threads, output, resume, progress))]
#[expect(clippy::too_many_arguments, reason = "the Python half names them")]
pub fn sweep(
    py: Python<'_>,
    study: &str,
    closed_form: bool,
    shard: (usize, usize),
    threads: Option<usize>,
    output: Option<PathBuf>,
    resume: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let (number, of) = shard;
    if number < 1 || number > of {
        let problem = SpecError::file("shard", format!("{number} of {of} is no part"));
        let problem = problem.value(format!("({number}, {of})")).allowed("(i, n) with i from 1 to n");
        return Err(raised(&(&problem).into()));
    }
    let how = if closed_form { How::ClosedForm } else { How::Simulated };
    let shard = SweepShard { number, of };
    let study = study.to_owned();
    let found = watched(py, progress, move |progress| -> Result<String, StudyError> {
        let (base, space, columns) = read(&study)?;
        let options = SweepOptions { how, columns, shard, threads, output, resume };
        let rows = stepsim::study::sweep(&base, &space, &options, &mut |done| progress.at(done))?;
        Ok(rows.iter().map(stepsim::study::Row::line).collect())
    })?;
    found.map_err(|e| raised(&Fault::from(&e)))
}

/// The best layout: the report, and the workload (or nothing where none fits), as JSON.
#[pyfunction]
#[pyo3(signature = (workload, topology, fix, vary, options, progress))]
pub fn search(
    py: Python<'_>,
    workload: &str,
    topology: Option<&str>,
    fix: Vec<String>,
    vary: Vec<(String, Vec<String>)>,
    options: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Option<String>)> {
    let asked: serde_json::Value = serde_json::from_str(options).unwrap_or_default();
    let parse = |text: &String| serde_json::from_str(text).unwrap_or_default();
    let axis = |(path, values): &(String, Vec<String>)| {
        StudyAxis::of(vec![path.clone()], values.iter().map(|text| vec![parse(text)]).collect())
    };
    let usual = SearchOptions::default();
    let whole = |name: &str, usual: usize| asked[name].as_u64().map_or(usual, |n| n as usize);
    let options = SearchOptions {
        fix,
        vary: vary.iter().map(axis).collect(),
        max_memory_bytes: asked["max_memory_bytes"].as_f64(),
        head_room: usual.head_room,
        objective: match asked["objective"].as_str() {
            None => Objective::default(),
            Some(name) => Objective::named(name).ok_or_else(|| {
                let names = Objective::NAMED.map(|(name, _)| name).join(", ");
                let problem = SpecError::file("objective", format!("`{name}` is none"));
                raised(&(&problem.value(name).allowed(names)).into())
            })?,
        },
        deadline_s: asked["deadline_s"].as_f64(),
        devices: asked["devices"][0].as_u64().zip(asked["devices"][1].as_u64()),
        top: whole("top", usual.top),
        most_passes: usual.most_passes,
        most_ops: usual.most_ops,
        first_played: usual.first_played,
        hear: None,
        answers: usual.answers,
        most_simulated: whole("most_simulated", usual.most_simulated),
        margin: asked["margin"].as_f64().unwrap_or(usual.margin),
        prove: asked["prove"].as_bool().unwrap_or(usual.prove),
        budget_s: asked["budget_s"].as_f64(),
        stop: usual.stop,
        offload: asked["offload"].as_bool().unwrap_or(usual.offload),
        placement: asked["placement"].as_bool().unwrap_or(usual.placement),
        threads: asked["threads"].as_u64().map(|n| n as usize),
    };
    let (workload, topology) = (workload.to_owned(), topology.map(str::to_owned));
    let found = watched(py, progress, move |progress| {
        let tell = &mut |done| progress.at(done);
        stepsim::study::search(&workload, topology.as_deref(), &options, tell)
    })?;
    let found = found.map_err(|e| raised(&Fault::from(&e)))?;
    Ok((json(&found.report), found.best.map(|best| json(&best))))
}
