//! How far simulated steps were off measured ones, by class of device, software stack and kind of model: what a report can honestly
//! say about its own figure. Shipped as `workloads/score/bands.json`, which `stepsim score --bands` writes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::outcome::Outcome;
use super::statistics::quantile;
use stepsim_simulate::Inputs;
use stepsim_step::spec::{Kind, StackSpec, catalog, load};

/// Of fewer rows than this all are told, not the middle four fifths.
const FEW: usize = 5;
/// Most stacks that are named to choose from.
const MANY: usize = 3;

/// The bands of a score.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bands {
    /// When the rows were scored.
    pub date: String,
    /// One for each class of device, stack and kind of model that has rows.
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
    /// Whether the models have experts.
    pub experts: bool,
    /// Rows that were simulated.
    pub rows: usize,
    /// Where they come from.
    pub sources: Vec<String>,
    /// One in ten errors (predicted over measured, less one) is below; of fewer than five rows none is.
    pub p10: f64,
    /// One in ten is above; of fewer than five rows none is.
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
        let mut groups: BTreeMap<_, Vec<(&Outcome, f64)>> = BTreeMap::new();
        for outcome in outcomes {
            if let (Some(case), Some(error)) = (&outcome.case, outcome.error())
                && !case.layer
            {
                groups
                    .entry((case.class.as_str(), case.stack.as_str(), case.moe))
                    .or_default()
                    .push((outcome, error));
            }
        }
        Bands {
            date: date.to_string(),
            bands: groups.into_iter().map(|(kind, list)| Band::of(kind, &list)).collect(),
        }
    }

    /// One sentence about a step of so many seconds.
    pub fn sentence(&self, inputs: &Inputs, step_s: f64) -> String {
        format!("accuracy: {}\n", self.range(inputs, step_s))
    }

    /// Between which seconds a step would be that is off as measured ones of its software on its device were.
    pub fn range(&self, inputs: &Inputs, step_s: f64) -> String {
        let device = &inputs.machine.device(stepsim_core::ids::DeviceId(0)).name;
        let named = stack_name(inputs.workload.value.stack()).filter(|stack| stack != "simple");
        let Some(stack) = named else {
            return format!(
                "not known; fused kernels and free launches (no `stack`) bound no real step; {}",
                self.advice(device)
            );
        };
        let experts = inputs.model.moe.is_some();
        let Some((band, alike)) = self.nearest(device, &stack, experts) else {
            return format!("not known; no measured step of the stack {stack} has been scored");
        };
        // Few rows that were off alike do not rule out the step as it is simulated.
        let few = band.rows < FEW;
        let (p10, p90) = if few { (band.p10.min(0.0), band.p90.max(0.0)) } else { (band.p10, band.p90) };
        let (low, high) = (step_s / (1.0 + p90), step_s / (1.0 + p10));
        let steps = if band.rows == 1 { "step" } else { "steps" };
        let part = if few { "all" } else { "four fifths" };
        let kind = if band.experts { "with experts" } else { "without experts" };
        format!(
            "{} to {} s; as far off as {part} of {} measured {steps} {kind} of {} on {}{} ({}; scored {})",
            digits(low),
            digits(high),
            band.rows,
            band.stack,
            band.device,
            if alike { "" } else { ", the nearest that there are" },
            band.sources.join(", "),
            self.date,
        )
    }

    /// Which software can be named: the stacks of most sources of measured steps on the device, or all that there are.
    fn advice(&self, device: &str) -> String {
        let mut here: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for band in self.bands.iter().filter(|band| band.names.iter().any(|n| n == device)) {
            let (sources, rows) = here.entry(&band.stack).or_default();
            (*sources, *rows) = (*sources + band.sources.len(), *rows + band.rows);
        }
        let mut stacks: Vec<&str> = here.keys().copied().collect();
        stacks.sort_by_key(|stack| std::cmp::Reverse(here[stack]));
        stacks.truncate(MANY);
        match stacks.split_last() {
            None => "name it: `stepsim list stacks`".to_owned(),
            Some((last, [])) => format!("name it: --set stack={last} (measured there)"),
            Some((last, others)) => {
                format!("name it: --set stack={} or {last} (measured there)", others.join(", "))
            }
        }
    }

    /// The band of a stack's steps and whether it is of the same device and kind of model; else that of the stack which has
    /// most rows, of the same device before the same kind.
    fn nearest(&self, device: &str, stack: &str, experts: bool) -> Option<(&Band, bool)> {
        let likeness = |band: &Band| (band.names.iter().any(|n| n == device), band.experts == experts);
        let of_stack = self.bands.iter().filter(|band| band.stack == stack);
        let found = of_stack.max_by_key(|band| (likeness(band), band.rows))?;
        Some((found, likeness(found) == (true, true)))
    }
}

/// A time in seconds, in three digits.
fn digits(seconds: f64) -> String {
    let decimals = if seconds < 1.0 { 3 } else { usize::from(seconds < 10.0) + 1 };
    format!("{seconds:.decimals$}")
}

impl Band {
    fn of((device, stack, experts): (&str, &str, bool), list: &[(&Outcome, f64)]) -> Band {
        let distinct = |f: &dyn Fn(&Outcome) -> String| {
            let names: BTreeSet<String> = list.iter().map(|(o, _)| f(o)).collect();
            names.into_iter().collect()
        };
        let mut errors: Vec<f64> = list.iter().map(|(_, e)| *e).collect();
        errors.sort_by(f64::total_cmp);
        let (low, high) = if errors.len() < FEW { (0.0, 1.0) } else { (0.1, 0.9) };
        let part = |p| (quantile(&errors, p).unwrap_or_default() * 1000.0).round() / 1000.0;
        Band {
            device: device.to_string(),
            names: distinct(&|o| o.device.clone()),
            stack: stack.to_string(),
            experts,
            rows: list.len(),
            sources: distinct(&|o| o.source.clone()),
            p10: part(low),
            p90: part(high),
        }
    }
}

/// The shipped stack that a workload has, told by its description; a stack of the user's own has no name.
fn stack_name(stack: &StackSpec) -> Option<String> {
    let same =
        |name: &&str| load::<StackSpec>(name, &[]).is_ok_and(|s| s.value.description == stack.description);
    catalog::names(Kind::Stack).filter(|_| !stack.description.is_empty()).find(same).map(str::to_string)
}
