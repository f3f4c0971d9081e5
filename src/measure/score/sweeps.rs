//! The price of a full device among the outcomes of a score.

use std::collections::BTreeMap;

use super::full_memory::{FilledStep, FullMemory};
use super::outcome::RowOutcome;

/// Layouts of one model and software that make a sweep.
const SWEEP: usize = 100;

impl FullMemory {
    /// The price among outcomes of sweeps, those on `without` devices left out.
    pub fn of_outcomes(outcomes: &[&RowOutcome], without: Option<f64>) -> Option<FullMemory> {
        let mut sweeps: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let cases = || outcomes.iter().filter(|o| o.fits()).filter_map(|o| Some((o, o.case.as_ref()?)));
        cases().for_each(|(_, case)| {
            *sweeps.entry((case.family.as_str(), case.model.as_str())).or_default() += 1
        });
        let left = cases().filter(|(_, case)| without.is_none() || case.devices != without);
        let steps: Vec<FilledStep> = left
            .filter(|(_, case)| sweeps[&(case.family.as_str(), case.model.as_str())] >= SWEEP)
            .filter_map(|(o, case)| {
                Some(FilledStep {
                    share: o.memory_share?,
                    slots: o.slots?,
                    simulated_s: o.predicted_s?,
                    measured_s: case.measured_s,
                })
            })
            .collect();
        FullMemory::of(&steps)
    }
}
