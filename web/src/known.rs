//! The names that the library knows, for completion.

use serde::Serialize;
use serde_json::Value;
use stepsim::bring::describe::models_by_name;
use stepsim::schedule::ScheduleChoice;
use stepsim::schedule::sharding;
use stepsim::spec::{Kind, catalog};

/// A name and what it stands for.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    name: String,
    about: String,
}

/// All names, by what they name.
#[derive(Debug, Serialize)]
pub(crate) struct Known {
    version: &'static str,
    workloads: Vec<Entry>,
    machines: Vec<Entry>,
    devices: Vec<Entry>,
    models: Vec<Entry>,
    stacks: Vec<Entry>,
    schedules: Vec<Entry>,
    shardings: Vec<Entry>,
}

pub(crate) fn known() -> Known {
    Known {
        version: env!("CARGO_PKG_VERSION"),
        workloads: of(Kind::Workload),
        machines: of(Kind::Topology),
        devices: of(Kind::Device),
        models: of(Kind::Model),
        stacks: of(Kind::Stack),
        schedules: ScheduleChoice::all().map(|choice| entry(choice.name(), choice.about())).collect(),
        shardings: sharding::ALL.iter().map(|facts| entry(facts.name, facts.about)).collect(),
    }
}

/// Models that no file is shipped of and that are known by name.
pub(crate) fn further_models() -> Vec<Entry> {
    models_by_name().into_iter().map(|(name, _)| entry(&name, "")).collect()
}

fn entry(name: &str, about: &str) -> Entry {
    Entry { name: name.to_owned(), about: about.to_owned() }
}

/// The shipped files of a kind, each with its own description.
fn of(kind: Kind) -> Vec<Entry> {
    let about = |name| {
        let file: Value =
            serde_json::from_str(catalog::text(kind, name).unwrap_or_default()).unwrap_or_default();
        file["description"].as_str().unwrap_or_default().to_owned()
    };
    catalog::names(kind).map(|name| entry(name, &about(name))).collect()
}
