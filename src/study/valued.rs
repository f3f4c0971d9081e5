//! Points of a sweep with what became of them.
//!
//! A point is known by a key: a hash of its resolved inputs, of how it is valued, and of the program's version. In
//! closed form, points that differ in the size of their batch alone are resolved, checked for everything else and
//! laid out once.

use serde_json::{Map, Value};

use super::base::StudyBase;
use super::columns::ReportColumns;
use super::outcome::{How, PointOutcome, reported};
use super::space::{Space, set_text};
use stepsim_simulate::{Inputs, SimulationError};
use stepsim_spec::{SpecError, hash};

/// The path in which points of one closed form may differ.
pub(super) const BATCH: &str = "batch.global";

/// A point.
pub(super) struct ValuedPoint {
    pub key: String,
    pub settings: Map<String, Value>,
    /// Its outcome, where it was asked for.
    pub outcome: Option<PointOutcome>,
}

/// How the points of a sweep are valued.
#[derive(Clone, Copy)]
pub(super) struct Valuer<'a> {
    pub base: &'a StudyBase,
    pub space: &'a Space,
    pub how: How,
    pub columns: &'a ReportColumns,
}

impl Valuer<'_> {
    /// Points that are valued together.
    pub fn groups(&self, points: &[usize]) -> Vec<Vec<usize>> {
        match self.how {
            How::ClosedForm if self.columns.formula().is_none() => self.space.groups(points, BATCH),
            _ => points.iter().map(|point| vec![*point]).collect(),
        }
    }

    /// The points of a group; those with a key that is `new` are valued.
    pub fn value(&self, group: &[usize], new: &dyn Fn(&str) -> bool) -> Vec<ValuedPoint> {
        let mut all = Vec::with_capacity(group.len());
        while all.len() < group.len() {
            let (valued, inputs) = self.alone(group[all.len()], new);
            all.push(valued);
            if let Ok(inputs) = inputs
                && all.len() < group.len()
            {
                self.of_batches(&inputs, &group[all.len()..], new, &mut all);
            }
        }
        all
    }

    /// A point by itself, and its inputs.
    fn alone(
        &self,
        point: usize,
        new: &dyn Fn(&str) -> bool,
    ) -> (ValuedPoint, Result<Box<Inputs>, SpecError>) {
        let settings = self.space.point(point);
        let sets: Vec<String> = settings.iter().map(|(path, value)| set_text(path, value)).collect();
        let inputs = self.base.inputs(&sets).map(Box::new);
        let key = match &inputs {
            Ok(inputs) => self.key(&inputs.workload.hash, inputs),
            // A point that cannot be resolved has no inputs: the message stands for them.
            Err(e) => self.key_of(&format!("{} {e}", sets.join(" "))),
        };
        let outcome = new(&key).then(|| match &inputs {
            Ok(inputs) => reported(&self.base.shared, inputs, self.how, self.columns),
            Err(e) => PointOutcome::of_fault(e.into()),
        });
        (ValuedPoint { key, settings, outcome }, inputs)
    }

    /// Points that differ from `inputs` in their batch, as long as nothing is wrong with one.
    fn of_batches(
        &self,
        inputs: &Inputs,
        group: &[usize],
        new: &dyn Fn(&str) -> bool,
        all: &mut Vec<ValuedPoint>,
    ) {
        let mut trial = inputs.workload.value.clone();
        let mut value_all = |form: &mut stepsim_form::analytic::ClosedForm<'_>| {
            for &point in group {
                let settings = self.space.point(point);
                let Some(global) = settings.get(BATCH).and_then(Value::as_u64) else { return };
                trial.batch.global = global;
                if !inputs.takes(&trial) {
                    return;
                }
                let batch = stepsim_located::to_value(trial.batch).unwrap_or_default();
                let key = self.key(&inputs.workload.content.with("batch", &batch).hash(), inputs);
                let valued = new(&key).then(|| PointOutcome::of_form(form, global, inputs.machine.devices()));
                let failed = |e| PointOutcome::of_fault((&SimulationError::from(e)).into());
                let outcome = valued.map(|valued| valued.unwrap_or_else(failed));
                all.push(ValuedPoint { key, settings, outcome });
            }
        };
        // Without a closed form each says so for itself.
        let _ = self.base.shared.estimators.of_any_batch(inputs, &mut value_all);
    }

    fn key(&self, workload: &str, inputs: &Inputs) -> String {
        self.key_of(&format!("{workload} {}", inputs.topology.hash))
    }
    fn key_of(&self, content: &str) -> String {
        let how = self.how;
        hash(&format!("{} {how:?}{} {content}", env!("CARGO_PKG_VERSION"), self.columns.key()))
    }
}
