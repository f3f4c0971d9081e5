//! Settings of a run: `path=value` texts, and files that hold some.

use std::path::Path;

use serde_json::{Value, json};

use stepsim_spec::{Files, ModelSpec, SpecError};

/// `path=value` texts by what they change; the machine's without their `topology.`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of the machine.
    pub machine: Vec<String>,
    /// Of the workload.
    pub workload: Vec<String>,
}

impl Settings {
    /// Sorts them.
    pub fn of(sets: &[String]) -> Settings {
        let mut settings = Settings { machine: Vec::new(), workload: Vec::new() };
        for set in sets {
            match set.strip_prefix("topology.") {
                Some(of_machine) => settings.machine.push(of_machine.to_string()),
                None => settings.workload.push(set.clone()),
            }
        }
        settings
    }
}

/// Names the setting that an error is of as it was given, with the beginning of its path that was taken off.
pub fn under(beginning: &str, mut error: SpecError) -> SpecError {
    if let Some(setting) = error.file.strip_prefix("--set ") {
        error.file = format!("--set {beginning}.{setting}");
    }
    error
}

/// The setting that names a file of settings.
const PRICES: &str = "prices=";

/// True if a setting names a file of settings.
pub fn is_file(set: &str) -> bool {
    set.starts_with(PRICES)
}

/// The same settings, with the settings of each file that `prices=FILE` names in its place: files that `stepsim
/// learn` writes have them under `set`. Later settings count.
///
/// # Errors
/// A file cannot be read, or holds no settings.
pub fn expanded(sets: &[String], files: &dyn Files) -> Result<Vec<String>, SpecError> {
    let mut all = Vec::new();
    for set in sets {
        match set.strip_prefix(PRICES) {
            Some(file) => all.extend(of_file(file, files)?),
            None => all.push(set.clone()),
        }
    }
    Ok(all)
}

/// The dimensions by which prices that were fitted to a step know their model.
pub fn layer_of(model: &ModelSpec) -> Value {
    let experts = model.moe.as_ref().map(|moe| moe.experts);
    json!({"name": model.name, "hidden": model.hidden, "ffn": model.ffn, "experts": experts})
}

/// Refuses prices that were fitted to the time of a step of another model, which bring a prediction no nearer
/// (`stepsim score --anchor`). The same model of fewer layers is the same model.
///
/// # Errors
/// A file has such prices.
pub fn fitted_on(sets: &[String], files: &dyn Files, model: &ModelSpec) -> Result<(), SpecError> {
    for file in sets.iter().filter_map(|set| set.strip_prefix(PRICES)) {
        let text = files.read(Path::new(file)).unwrap_or_default();
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        let (own, asked) = (&value["fitted_on"]["model"], layer_of(model));
        let differs = ["hidden", "ffn", "experts"].into_iter().find(|field| own[*field] != asked[field]);
        if let Some(field) = differs.filter(|_| own.is_object()) {
            let name = own["name"].as_str().unwrap_or("another model");
            let problem = format!("its factors make a step of {name} take the time that was measured of it");
            return Err(SpecError::at(format!("fitted_on.model.{field}"), problem)
                .in_file(file)
                .allowed(format!("{}, as {} has", asked[field], model.name))
                .hint(
                    "leave it out: it brings another model no nearer; or learn from a profile of this one",
                ));
        }
    }
    Ok(())
}

fn of_file(file: &str, files: &dyn Files) -> Result<Vec<String>, SpecError> {
    let hint = "give a file that `stepsim learn -o` wrote";
    let text = files
        .read(Path::new(file))
        .map_err(|e| SpecError::file(file, format!("cannot be read: {e}")).hint(hint))?;
    let value: Value =
        serde_json::from_str(&text).map_err(|e| SpecError::file(file, e.to_string()).hint(hint))?;
    let sets = value.get("set").and_then(Value::as_array);
    let texts = sets.and_then(|sets| sets.iter().map(|set| set.as_str().map(str::to_string)).collect());
    texts.ok_or_else(|| {
        let problem = SpecError::at("set", "there are no settings");
        problem
            .in_file(file)
            .allowed("a list of texts like \"topology.device.cost.host_slowness=1.2\"")
            .hint(hint)
    })
}
