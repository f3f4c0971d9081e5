//! How far simulated steps were off measured ones, by class of device and software stack: what a report can honestly
//! say about its own figure. Shipped as `workloads/score/bands.json`, which `stepsim score --bands` writes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::outcome::Outcome;
use super::statistics::quantile;
use crate::lab::simulate::Inputs;
use crate::step::spec::{Kind, StackSpec, catalog, load};

/// With fewer rows than this nothing is said.
const FEWEST: usize = 5;

/// The bands of a score.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bands {
    /// When the rows were scored.
    pub date: String,
    /// One for each class of device and stack with enough rows.
    pub bands: Vec<Band>,
}

/// Errors of the middle four fifths of rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// Class of device.
    pub device: String,
    /// Names of the devices in it.
    pub names: Vec<String>,
    /// Software stack.
    pub stack: String,
    /// Rows that were simulated.
    pub rows: usize,
    /// Where they come from.
    pub sources: Vec<String>,
    /// One in ten errors (predicted over measured, less one) is below.
    pub p10: f64,
    /// One in ten is above.
    pub p90: f64,
}

impl Bands {
    /// The shipped bands; none if the file is missing.
    pub fn shipped() -> Bands {
        let text = catalog::file("workloads/score/bands.json").unwrap_or_default();
        serde_json::from_str(text).unwrap_or_default()
    }

    /// The bands of outcomes.
    pub fn of(outcomes: &[Outcome], date: &str) -> Bands {
        let mut groups: BTreeMap<(&str, &str), Vec<(&Outcome, f64)>> = BTreeMap::new();
        for outcome in outcomes {
            if let (Some(case), Some(error)) = (&outcome.case, outcome.error()) {
                groups.entry((&case.class, &case.stack)).or_default().push((outcome, error));
            }
        }
        let bands = groups.into_iter().filter(|(_, list)| list.len() >= FEWEST);
        Bands {
            date: date.to_string(),
            bands: bands.map(|((device, stack), list)| Band::of(device, stack, &list)).collect(),
        }
    }

    /// One sentence about steps like this one.
    pub fn sentence(&self, inputs: &Inputs) -> String {
        let device = &inputs.machine.device(crate::core::ids::DeviceId(0)).name;
        let stack = stack_name(inputs.workload.value.stack());
        let found = self.bands.iter().find(|b| b.names.contains(device) && Some(&b.stack) == stack.as_ref());
        match (found, stack) {
            (Some(band), _) => format!(
                "accuracy: simulated steps like this ({}, {}) were within {:+.0} … {:+.0} % of {} measured ones ({}; scored {})\n",
                band.device,
                band.stack,
                100.0 * band.p10,
                100.0 * band.p90,
                band.rows,
                band.sources.join(", "),
                self.date,
            ),
            (None, Some(stack)) => {
                format!(
                    "accuracy: not known; no measured step of the stack {stack} on {device} has been scored\n"
                )
            }
            (None, None) => {
                "accuracy: not known; the workload names no software (`stack`), whose kernels and launches \
                             decide how far off this is\n"
                    .to_string()
            }
        }
    }
}

impl Band {
    fn of(device: &str, stack: &str, list: &[(&Outcome, f64)]) -> Band {
        let distinct = |f: &dyn Fn(&Outcome) -> String| {
            let mut names: Vec<String> = list.iter().map(|(o, _)| f(o)).collect();
            names.sort();
            names.dedup();
            names
        };
        let mut errors: Vec<f64> = list.iter().map(|(_, e)| *e).collect();
        errors.sort_by(f64::total_cmp);
        let part = |p| (quantile(&errors, p).unwrap_or_default() * 1000.0).round() / 1000.0;
        Band {
            device: device.to_string(),
            names: distinct(&|o| o.device.clone()),
            stack: stack.to_string(),
            rows: list.len(),
            sources: distinct(&|o| o.source.clone()),
            p10: part(0.1),
            p90: part(0.9),
        }
    }
}

/// The shipped stack that a workload has, told by its description; a stack of the user's own has no name.
fn stack_name(stack: &StackSpec) -> Option<String> {
    let same =
        |name: &&str| load::<StackSpec>(name, &[]).is_ok_and(|s| s.value.description == stack.description);
    catalog::names(Kind::Stack).filter(|_| !stack.description.is_empty()).find(same).map(str::to_string)
}
