//! One simulated step. It is played for its figures at first; its ops are kept once a table or a timeline asks for
//! them.

use std::ffi::OsString;
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use serde_json::json;
use stepsim::cli::run::{self as command, Args};
use stepsim::cli::{Failure, run_args};
use stepsim::read::analysis::report::{Extent, Report};
use stepsim::simulate::jump::{self, figures};
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::study::otherwise::{Depth, answer};

use crate::asked::Asked;
use crate::command::named;
use crate::error::{failed, json};
use crate::table::{Columns, Table};
use crate::tables;
use crate::watch::watched;

/// A step, and what has been found out of it.
#[pyclass(frozen, module = "stepsim._native")]
pub struct Run(Arc<Step>);

struct Step {
    args: Args,
    inputs: Inputs,
    options: Options,
    own: Own,
    played: OnceLock<Simulation>,
}

/// Loads a step from the words of `stepsim run`, with prices of kernels and times of collectives of one's own.
#[pyfunction]
#[pyo3(signature = (words, prices = None, collectives = None))]
pub fn run(
    py: Python<'_>,
    words: Vec<OsString>,
    prices: Option<Py<PyAny>>,
    collectives: Option<Py<PyAny>>,
) -> PyResult<Run> {
    let words = named(words);
    let asked = |argument, function: Option<Py<PyAny>>| function.map(|f| Arc::new(Asked::new(argument, f)));
    let own = Own { prices: asked("prices", prices), collectives: asked("collectives", collectives) };
    let step = watched(py, None, move |_| -> Result<Step, Failure> {
        let args = run_args(&words)?;
        let mut inputs = command::inputs(&args)?;
        if args.samples().is_some() {
            command::drawn(&inputs)?;
        }
        if let Some(prices) = own.prices.clone() {
            inputs = inputs.priced_by(prices);
        }
        if let Some(collectives) = own.collectives.clone() {
            inputs = inputs.timed_by(collectives);
        }
        Ok(Step { options: command::options(&args), args, inputs, own, played: OnceLock::new() })
    })?;
    step.map(|step| Run(Arc::new(step))).map_err(|e| failed(&e))
}

/// Functions of the caller's own.
struct Own {
    prices: Option<Arc<Asked>>,
    collectives: Option<Arc<Asked>>,
}

impl Own {
    fn raised(&self) -> Option<PyErr> {
        [&self.prices, &self.collectives].into_iter().flatten().find_map(|asked| asked.raised())
    }
}

impl Step {
    /// The step with its ops.
    fn played(&self) -> Result<&Simulation, Failure> {
        if self.played.get().is_none() {
            // Another thread that was quicker has played the same.
            let _ = self.played.set(Simulation::run(&self.inputs, &self.options)?);
        }
        self.played.get().ok_or_else(|| Failure::run("the step was not played"))
    }
    fn figures(&self) -> Result<String, Failure> {
        let found = figures(&self.inputs, &self.options, false)?;
        Ok(json!({
            "step_time_s": found.step_end.s(),
            "mfu": found.mfu,
            "tokens_per_s": found.tokens_per_s,
            "memory_peak_bytes": found.memory_peak_bytes,
        })
        .to_string())
    }
    fn report(&self) -> Result<Report, Failure> {
        let samples = match self.args.samples() {
            Some(count) => Some(self.played()?.sample(self.options.seed, count, &mut |_| {})?),
            None => None,
        };
        let report = match jump::report(&self.inputs, &self.options, Extent::Whole, false)
            .filter(|_| samples.is_none())
        {
            Some(report) => report,
            // Nobody may ask for the ops: they are not kept.
            None if self.played.get().is_none() => {
                Simulation::run(&self.inputs, &self.options)?.report(false)
            }
            None => self.played()?.report(false),
        };
        command::possible(&report)?;
        Ok(Report { samples, ..report })
    }
    /// The report with its answer. Functions of the caller's own are asked for this step alone, unless more is asked for.
    fn answered(&self, depth: Depth) -> Result<Report, Failure> {
        if depth == Depth::Answer && (self.own.prices.is_some() || self.own.collectives.is_some()) {
            let mut report = self.report()?;
            report.answer.not_asked =
                Some("What to set or to buy is not played with times of your own".to_owned());
            return Ok(report.answered());
        }
        Ok(answer(&self.inputs, &self.options, self.report()?, depth)?)
    }
}

impl Run {
    /// What some work on the step gives.
    fn find<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Step) -> Result<T, Failure> + Send + 'static,
    ) -> PyResult<T> {
        let step = Arc::clone(&self.0);
        let found = watched(py, None, move |_| work(&step))?;
        match self.0.own.raised() {
            Some(raised) => Err(raised),
            None => found.map_err(|e| failed(&e)),
        }
    }
    fn table(
        &self,
        py: Python<'_>,
        read: impl FnOnce(&Simulation) -> Result<Columns, Failure> + Send + 'static,
    ) -> PyResult<Table> {
        self.find(py, |step| read(step.played()?))?.table()
    }
}

#[pymethods]
impl Run {
    /// Hashes of the workload and the machine.
    fn hashes(&self) -> [String; 2] {
        [&self.0.inputs.workload.hash, &self.0.inputs.topology.hash].map(String::clone)
    }
    /// Seconds of the step, utilisation and memory, as JSON.
    fn figures(&self, py: Python<'_>) -> PyResult<String> {
        self.find(py, Step::figures)
    }
    /// The report as JSON; with candidates, what could be otherwise is played.
    fn report(&self, py: Python<'_>, candidates: bool) -> PyResult<String> {
        self.find(py, move |step| {
            Ok(json(&step.answered(if candidates { Depth::Tables } else { Depth::Answer })?))
        })
    }
    /// A page about the run: HTML that needs no network. The words are those of `stepsim run`.
    fn html(&self, py: Python<'_>, words: Vec<OsString>) -> PyResult<String> {
        self.find(py, move |step| {
            command::html(&run_args(&named(words))?, step.played()?, &step.answered(Depth::Tables)?)
        })
    }
    /// Writes the timeline that words of `stepsim run` ask for; returns what is to be said of its size.
    fn trace(&self, py: Python<'_>, words: Vec<OsString>) -> PyResult<Option<String>> {
        self.find(py, move |step| command::timeline(&run_args(&named(words))?, step.played()?, ""))
    }
    /// What functions were asked for with the seconds that they gave, kernels and collectives, as JSON.
    fn asked(&self) -> (Option<String>, Option<String>) {
        let Own { prices, collectives } = &self.0.own;
        (prices.as_ref().map(|asked| asked.known()), collectives.as_ref().map(|asked| asked.known()))
    }
    /// Ranks: where their time went.
    fn ranks(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, |run| Ok(tables::ranks(run)))
    }
    /// Every moment in which a compute stream stood still.
    fn stalls(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, |run| Ok(tables::stalls(run)))
    }
    /// Ops summed by name, phase and stream.
    fn kernels(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, |run| Ok(tables::kernels(run)))
    }
    /// Every op of some ranks: when it ran, with whom, and what held it up.
    fn slices(&self, py: Python<'_>, ranks: Option<Vec<u32>>) -> PyResult<Table> {
        self.table(py, |run| Ok(tables::slices(run, &tables::shown(run, ranks)?)))
    }
    /// How full the tiers were over time.
    fn memory(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, |run| Ok(tables::memory(run)))
    }
    /// What went through links, ports and tier bandwidths, busiest first.
    fn links(&self, py: Python<'_>) -> PyResult<Table> {
        self.table(py, |run| Ok(tables::links(run)))
    }
}
