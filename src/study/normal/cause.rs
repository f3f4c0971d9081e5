//! Causes as data: what is played, and in which sizes.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use stepsim_simulate::Inputs;
use stepsim_simulate::whatif::{Change, Subject};
use stepsim_spec::{SpecError, catalog};

/// The table of causes.
const FILE: &str = "workloads/normal/causes.json";

/// The table of causes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CauseTable {
    #[serde(rename = "description")]
    _description: String,
    #[serde(rename = "source")]
    _source: String,
    pub(super) causes: Vec<SlowCause>,
    pub(super) peaks: Vec<AssumedPeak>,
    pub(super) experiments: Vec<Experiment>,
}

/// Something that makes a step slower or faster than it is described.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SlowCause {
    /// Causes of one class are shown by one measurement, and stand on one line.
    pub(super) class: String,
    pub(super) what: String,
    /// Words around its size; none where it is a switch.
    size: Option<String>,
    /// The stack that it is of; none: of any.
    when: Option<String>,
    sets: Vec<String>,
    rate: Option<String>,
    scale: BTreeMap<String, f64>,
    pub(super) idle: bool,
    least: Option<f64>,
    pub(super) most: f64,
    /// Sizes that it usually has: middle, and the factor about it.
    pub(super) usual: Vec<(f64, f64)>,
    pub(super) weight: f64,
    pub(super) look: String,
}

/// A peak that software divides by on any device.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AssumedPeak {
    pub(super) what: String,
    pub(super) flops: f64,
    #[serde(rename = "source")]
    _source: String,
}

/// A change that one can try.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Experiment {
    pub(super) what: String,
    pub(super) scale: BTreeMap<String, f64>,
}

/// Settings, changes and time between steps that a cause of a size comes to.
#[derive(Clone, Debug, Default)]
pub(super) struct CausePlay {
    pub(super) sets: Vec<String>,
    pub(super) change: Option<Change>,
    pub(super) idle_s: f64,
}

impl CauseTable {
    /// The table as it is shipped.
    pub(super) fn read() -> Result<CauseTable, SpecError> {
        stepsim_located::shipped(catalog::file(FILE).unwrap_or_default())
            .map_err(|e| SpecError::file(FILE, e.to_string()))
    }

    /// The causes that a step can have: one for each class of links, and its software's.
    pub(super) fn of(inputs: &Inputs, stack: Option<&str>) -> Result<CauseTable, SpecError> {
        let mut table = CauseTable::read()?;
        table.causes.retain(|cause| cause.when.is_none() || cause.when.as_deref() == stack);
        let classes = inputs.topology.value.link_classes();
        let each = |cause: SlowCause| -> Vec<SlowCause> {
            if cause.rate.as_deref() != Some("{class}") {
                return vec![cause];
            }
            let of = |class: &String| SlowCause {
                class: cause.class.replace("{class}", class),
                what: class_words(class),
                rate: Some(class.clone()),
                ..cause.clone()
            };
            classes.iter().map(of).collect()
        };
        table.causes = table.causes.into_iter().flat_map(each).collect();
        Ok(table)
    }
}

/// A class of links in words.
fn class_words(class: &str) -> String {
    match class {
        "scale-up" => "links inside nodes (scale-up)".into(),
        "nic" => "the network between nodes (nic)".into(),
        "host-link" => "links to hosts (host-link)".into(),
        other => format!("links ({other})"),
    }
}

impl SlowCause {
    pub(super) fn has_size(&self) -> bool {
        self.size.is_some()
    }

    /// The size in which it changes nothing.
    pub(super) fn least(&self) -> f64 {
        self.least.unwrap_or(1.0)
    }

    /// Its settings and changes in a size; `None` where this step has nothing of the sort.
    pub(super) fn played(&self, inputs: &Inputs, size: f64) -> Option<CausePlay> {
        let mut sets: Vec<String> = self
            .sets
            .iter()
            .map(|set| lengthened(&set.replace("$x", &shown(size)), inputs))
            .collect::<Option<_>>()?;
        sets.extend(scaled(&self.scale, inputs)?);
        let change = match &self.rate {
            Some(name) => {
                Some(Change { subject: Subject::rate(name, &inputs.topology.value)?, factor: 1.0 / size })
            }
            None => None,
        };
        Some(CausePlay { sets, change, idle_s: if self.idle { size } else { 0.0 } })
    }

    /// Its words with a size.
    pub(super) fn words(&self, size: Option<f64>) -> String {
        match (&self.size, size) {
            (Some(words), Some(size)) => format!("{} {}", self.what, words.replace("{}", &shown(size))),
            _ => self.what.clone(),
        }
    }
}

/// A size with three digits.
pub(super) fn shown(size: f64) -> String {
    let digits = (2 - size.abs().log10().floor() as i32).clamp(0, 6) as usize;
    format!("{size:.digits$}")
}

/// Settings that multiply fields; `None` where one is no whole number then.
pub(super) fn scaled(scale: &BTreeMap<String, f64>, inputs: &Inputs) -> Option<Vec<String>> {
    let workload = &inputs.workload.value;
    let of = |(path, factor): (&String, &f64)| {
        let now = match path.as_str() {
            "batch.global" => workload.batch.global,
            "batch.micro_batch" => workload.batch.micro_batch,
            "sequence" => workload.sequence(&inputs.model),
            "model.layers" => inputs.model.layers,
            _ => return None,
        };
        let scaled = now as f64 * factor;
        (scaled >= 1.0 && scaled.fract() == 0.0).then(|| format!("{path}={scaled}"))
    };
    scale.iter().map(of).collect()
}

/// A setting that lengthens a list, as one that states all of it.
fn lengthened(set: &str, inputs: &Inputs) -> Option<String> {
    let Some((path, value)) = set.split_once("+=") else { return Some(set.to_owned()) };
    let workload = stepsim_located::to_value(&inputs.workload.value).ok()?;
    let now = workload.pointer(&format!("/{}", path.replace('.', "/")));
    let mut list = now.and_then(Value::as_array).cloned().unwrap_or_default();
    list.extend(serde_json::from_str::<Vec<Value>>(value).ok()?);
    Some(format!("{path}={}", Value::from(list)))
}
