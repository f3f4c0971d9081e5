//! A row that names a recipe of Megatron-Bridge instead of columns: a *verification card*. Its recipe is read as
//! `stepsim plan FILE.py:NAME` reads it, from a checkout of the repository, with the row's `overrides` over it.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::case::{Case, MemoryOf};
use super::rows::PublishedRow;
use stepsim_bring::describe::{MachineCase, model_named};
use stepsim_bring::import;
use stepsim_bring::imports::{Beside, word};
use stepsim_spec::rules::Pace;

/// The software whose cards they are.
const FORMAT: &str = "megatron-bridge";

/// True if a row is a card.
pub(super) fn is_card(row: &PublishedRow) -> bool {
    row.columns
        .as_ref()
        .is_ok_and(|words| words.contains_key("recipe") && words.contains_key("measured_step_s"))
}

/// The case of a row that is a card.
///
/// # Errors
/// As [`case`].
pub(super) fn of_row(row: &PublishedRow) -> Result<Case, String> {
    case(row.columns.as_ref().map_err(Clone::clone)?, row.recipes.as_deref().map(PathBuf::as_path), &row.id)
}

/// The case of a card; `folder` is the checkout.
///
/// # Errors
/// No folder, no such recipe, or one that makes no workload.
pub fn case(columns: &Map<String, Value>, folder: Option<&Path>, id: &str) -> Result<Case, String> {
    let text = |name: &str| columns.get(name).and_then(Value::as_str).unwrap_or_default();
    let number = |name: &str| columns.get(name).and_then(Value::as_f64);
    let (recipe, device) = (text("recipe"), text("device"));
    let folder = folder
        .ok_or_else(|| format!("names the recipe {recipe}: give its repository with --recipes FOLDER"))?;
    let devices = number("devices").ok_or("says no `devices`")? as u64;
    let measured_s = number("measured_step_s").ok_or("says no `measured_step_s`")?;
    let topology = format!("{devices}x{}", device.to_ascii_lowercase());
    let file = place(folder, text("file"), recipe, device)?;
    let beside = Beside {
        devices: Some(devices),
        topology: Some(topology.clone()),
        sets: overrides(columns.get("overrides"))?,
        models: Some(model_named),
        ..Beside::default()
    };
    let source = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let name = format!("{}:{recipe}", file.display());
    let made = import(FORMAT, &source, &name, &beside).map_err(|e| e.to_string().replace('\n', "; "))?;
    let at = |path: &str| made.workload.pointer(path).and_then(Value::as_u64);
    let of_tokens = number("measured_tokens_per_s_device").unwrap_or(0.0);
    let stack = made.workload.pointer("/stack/base").or(made.workload.get("stack"));
    Ok(Case {
        moe: at("/parallelism/expert").is_some_and(|degree| degree > 1),
        layer: false,
        pace: Pace::Step,
        measured_s,
        measured_from: "measured_step_s",
        scale: 1.0,
        tokens: of_tokens * devices as f64 * measured_s,
        apart_below_mfu: None,
        apart: None,
        peak_mem_gib: None,
        memory_of: MemoryOf::default(),
        longest: None,
        block: format!("{id}, {devices}"),
        choice: id.to_string(),
        family: format!("{FORMAT}, {device}"),
        model: text("card").to_string(),
        devices: Some(devices as f64),
        assumed: Vec::new(),
        warnings: Vec::new(),
        reliefs: Vec::new(),
        class: device.to_string(),
        stack: stack.and_then(Value::as_str).unwrap_or_default().to_string(),
        machine: MachineCase { topology, sets: Vec::new() },
        workload: made.workload,
        not_understood: Default::default(),
    })
}

/// `--seq_length 4096` as settings of a workload.
pub fn overrides(value: Option<&Value>) -> Result<Vec<String>, String> {
    let mut sets = Vec::new();
    for text in value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        let (name, value) = text.trim_start_matches('-').split_once([' ', '=']).unwrap_or((text, "true"));
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        let puts = word(FORMAT, name, &value).ok_or_else(|| format!("override not understood: {text}"))?;
        sets.extend(puts.into_iter().map(|(path, value)| format!("{path}={value}")));
    }
    Ok(sets)
}

/// The file of a recipe: the one that is named, or the first that defines or hands on the name; recipes for the device
/// before others, those for benchmarks last.
fn place(folder: &Path, file: &str, recipe: &str, device: &str) -> Result<PathBuf, String> {
    let named = [folder.join("src").join(file), folder.join(file)];
    if let Some(path) = named.into_iter().find(|path| path.is_file()) {
        return Ok(path);
    }
    let mut files = Vec::new();
    python(folder, &mut files);
    let own = format!("/{}/", device.to_ascii_lowercase());
    files.sort_by_key(|path| {
        let path = path.display().to_string();
        (path.contains("perf_recipes"), !path.contains(&own), path)
    });
    let defines = format!("def {recipe}(");
    let hands_on = [format!(" as {recipe},"), format!("    {recipe},\n")];
    let has = |words: &[String]| {
        files.iter().find(|path| {
            std::fs::read_to_string(path).is_ok_and(|text| words.iter().any(|word| text.contains(word)))
        })
    };
    has(&[defines])
        .or_else(|| has(&hands_on))
        .cloned()
        .ok_or_else(|| format!("no recipe {recipe} in {}", folder.display()))
}

/// Files of recipes below a folder.
fn python(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.is_dir() {
            true => python(&path, files),
            false if is_recipe(&path) => files.push(path),
            false => {}
        }
    }
}

/// A module of recipes; a package's module hands on the recipes of the others.
fn is_recipe(path: &Path) -> bool {
    let module = path.extension().is_some_and(|e| e == "py") && !path.ends_with("__init__.py");
    module && path.components().any(|part| part.as_os_str().to_string_lossy().ends_with("recipes"))
}
