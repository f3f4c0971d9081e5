//! Questions and their answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stepsim::simulate::{Fault, SimulationError};
use stepsim::spec::SpecError;

use super::known;
use super::planned::{self, Plan};
use super::played::{self, Step};

/// Texts of files that were dropped or pasted, by name.
pub(crate) type Texts = BTreeMap<String, String>;

/// What the page asks for.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Question {
    /// The names that the library knows.
    Known,
    /// The names of models that no file is shipped of: they take longer to find.
    FurtherModels,
    /// What a model, a script or a recipe on a machine means: `stepsim plan`.
    Plan(Plan),
    /// What of a step one screen shows: `stepsim run`.
    Figures(Step),
    /// The page about a step: `stepsim run --html`.
    Page {
        /// The step.
        #[serde(flatten)]
        step: Step,
        /// Whether what could be otherwise is played too.
        #[serde(default)]
        why: bool,
    },
    /// What a step hangs on: the sentence of `stepsim run`.
    HangsOn(Step),
    /// The report of a step: `stepsim run --report`.
    Report(Step),
    /// The timeline of a step: `stepsim run -o`.
    Timeline {
        /// The step.
        #[serde(flatten)]
        step: Step,
        /// The name of the file, which tells the format.
        file: String,
    },
    /// How many ops are played for a step, before it is.
    Size(Step),
    /// Two steps side by side: `stepsim diff --html`.
    Difference {
        /// The first.
        a: Step,
        /// The second.
        b: Step,
    },
    /// All that could be otherwise: `stepsim whatif --report`.
    Whatif(Step),
    /// The best layouts: `stepsim search --report`.
    Search(Step),
}

/// Answers a question; a text, or the bytes of a timeline.
///
/// # Errors
/// As the command says that would do the same.
pub fn answer(question: &[u8]) -> Result<Vec<u8>, Box<Fault>> {
    stepsim::register_shipped().map_err(defect)?;
    stepsim::bring::read_other_software();
    match serde_json::from_slice(question).map_err(defect)? {
        Question::Known => json(&known::known()),
        Question::FurtherModels => json(&known::further_models()),
        Question::Plan(plan) => json(&planned::answer(&plan)?),
        Question::Figures(step) => json(&played::figures(&step)?),
        Question::Page { step, why } => played::page(&step, why).map(String::into_bytes),
        Question::HangsOn(step) => json(&played::hangs_on(&step)?),
        Question::Report(step) => played::report(&step),
        Question::Timeline { step, file } => played::timeline(&step, &file),
        Question::Size(step) => json(&played::size(&step)?),
        Question::Difference { a, b } => played::difference(&a, &b).map(String::into_bytes),
        Question::Whatif(step) => json(&played::whatif(&step)?),
        Question::Search(step) => json(&planned::search(&step)?),
    }
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, Box<Fault>> {
    serde_json::to_vec(value).map_err(defect)
}

/// What cannot be said as data.
pub(crate) fn defect(error: impl std::fmt::Display) -> Box<Fault> {
    Box::new(Fault { message: error.to_string(), ..Fault::default() })
}

pub(crate) fn of_spec(error: SpecError) -> Box<Fault> {
    Box::new(Fault::from(&error))
}

pub(crate) fn of_run(error: SimulationError) -> Box<Fault> {
    Box::new(Fault::from(&error))
}
