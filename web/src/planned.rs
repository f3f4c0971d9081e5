//! Answers of `stepsim plan` and `stepsim search`.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stepsim::bring::describe::DescribedField;
use stepsim::simulate::jump::figures;
use stepsim::simulate::{Fault, Options, RunStatus, SimulationError};
use stepsim::spec::files::lend;
use stepsim::study::plan::{LayoutSource, Proposal, Request, RunPlan};
use stepsim::study::{SearchOptions, SearchReport, StudyError, search as best};

use super::answer::{Texts, defect, of_spec};
use super::border::tell;
use super::played::Step;

/// What is to be planned.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Plan {
    words: Vec<String>,
    files: Texts,
    on: Option<String>,
    batch: Option<u64>,
    sequence: Option<u64>,
    stack: Option<String>,
    sets: Vec<String>,
    search: bool,
}

/// A run as it was understood.
#[derive(Debug, Serialize)]
pub(crate) struct Understood {
    /// The machine, as it was asked for.
    on: String,
    /// Settings of the machine, behind `topology.`.
    machine_sets: Vec<String>,
    /// The workload with its layout.
    workload: Value,
    /// Whether the layout was searched.
    searched: bool,
    /// What was understood, and where each value comes from.
    fields: Vec<DescribedField>,
    /// Words that were not understood, or have no counterpart and matter.
    not_understood: Vec<String>,
    /// What would make the step fit, where it does not as it is stated.
    proposal: Option<Proposed>,
}

/// What would make a step fit; nothing is changed unless it is taken.
#[derive(Debug, Serialize)]
struct Proposed {
    gives_up: String,
    sets: Vec<String>,
    step_s: f64,
}

impl From<Proposal> for Proposed {
    fn from(Proposal { gives_up, sets, step_s }: Proposal) -> Proposed {
        Proposed { gives_up, sets, step_s }
    }
}

pub(crate) fn answer(plan: &Plan) -> Result<Understood, Box<Fault>> {
    let request = Request {
        words: plan.words.clone(),
        on: plan.on.clone(),
        batch: plan.batch,
        sequence: plan.sequence,
        stack: plan.stack.clone(),
        sets: plan.sets.clone(),
        search: plan.search,
    };
    lend(plan.files.clone());
    let mut run = request.read().map_err(of_spec)?;
    let searched = run.layout == LayoutSource::Searched;
    run.laid_out(&mut told).map_err(of_study)?;
    let proposal = proposal(&run)?;
    let half = run.half_settled().cloned().collect::<Vec<_>>();
    Ok(Understood {
        on: run.on,
        machine_sets: run.machine_sets,
        workload: run.workload,
        searched,
        fields: run.fields,
        not_understood: [run.not_understood, half].concat(),
        proposal,
    })
}

/// What would make a run fit that does not as it is stated.
fn proposal(run: &RunPlan) -> Result<Option<Proposed>, Box<Fault>> {
    let played =
        run.inputs().map_err(SimulationError::from).and_then(|i| figures(&i, &Options::default(), false));
    match played.map_err(|error| Fault::from(&error)) {
        Ok(_) => Ok(None),
        Err(fault) if fault.status == RunStatus::OutOfMemory => {
            Ok(run.proposal(&mut told).map_err(of_study)?.map(Proposed::from))
        }
        Err(fault) => Err(Box::new(fault)),
    }
}

/// The best layouts of a workload on its machine.
pub(crate) fn search(step: &Step) -> Result<SearchReport, Box<Fault>> {
    let options = SearchOptions { fix: step.sets.clone(), top: 5, ..SearchOptions::default() };
    lend(step.files.clone());
    let found = best(&step.workload, step.on.as_deref(), &options, &mut told).map_err(of_study)?;
    Ok(found.report)
}

fn told(count: u64) -> ControlFlow<()> {
    tell(count);
    ControlFlow::Continue(())
}

fn of_study(error: StudyError) -> Box<Fault> {
    match error {
        StudyError::Spec(error) => of_spec(error),
        other => defect(other),
    }
}
