//! Rows of measurements: JSON lines, one published step (or layer) each.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use stepsim_bring::describe::Shapes;
use stepsim_spec::SpecError;

/// One row as it was read.
#[derive(Clone, Debug)]
pub struct PublishedRow {
    /// Its name: the column `id`, or file and line.
    pub id: String,
    /// Its columns, or why they could not be read.
    pub columns: Result<Map<String, Value>, String>,
    /// Models that it may refer to.
    pub shapes: Arc<Shapes>,
    /// The repository whose recipes it may name.
    pub recipes: Option<Arc<PathBuf>>,
}

impl PublishedRow {
    /// A text column; empty where it is null or no text.
    pub fn text(&self, column: &str) -> &str {
        let columns = self.columns.as_ref().ok();
        columns.and_then(|c| c.get(column)).and_then(Value::as_str).unwrap_or_default()
    }
}

/// The rows of a file of JSON lines, or of all `*.jsonl` of a folder in the order of their names. Lines of other kinds
/// (kernels, collectives) are passed over; a line that is no JSON object is a row that says so.
///
/// # Errors
/// The file or folder cannot be read, or holds no row at all.
pub fn read(path: &Path) -> Result<Vec<PublishedRow>, SpecError> {
    let name = path.display().to_string();
    let files = files(path)?;
    let folder = if path.is_dir() { Some(path) } else { path.parent() };
    let shapes = Arc::new(folder.map_or_else(Shapes::new, |f| shapes(&f.join("models.jsonl"))));
    let mut rows = Vec::new();
    for file in &files {
        rows_of(file, &text(file)?, &shapes, &mut rows);
    }
    if rows.is_empty() {
        return Err(SpecError::file(name, "no row of kind `step` or `layer` is in it")
            .hint("a row is a JSON object on a line of its own with a column `kind`, as `stepsim score --help` says"));
    }
    Ok(rows)
}

fn files(path: &Path) -> Result<Vec<PathBuf>, SpecError> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let unreadable = |e| SpecError::file(path.display().to_string(), format!("cannot be read: {e}"));
    let entries = std::fs::read_dir(path).map_err(unreadable)?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "jsonl")).collect();
    files.sort();
    Ok(files)
}

fn text(file: &Path) -> Result<String, SpecError> {
    let bytes = std::fs::read(file).map_err(|e| {
        SpecError::file(file.display().to_string(), format!("cannot be read: {e}"))
            .hint("give a file of JSON lines, or a folder of such files")
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn rows_of(file: &Path, text: &str, shapes: &Arc<Shapes>, rows: &mut Vec<PublishedRow>) {
    let short = file.file_name().unwrap_or_default().to_string_lossy();
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let place = format!("{short}:{}", i + 1);
        let columns = match serde_json::from_str::<Value>(line) {
            Ok(Value::Object(columns)) => Ok(columns),
            Ok(_) => Err("the line is no JSON object".to_string()),
            Err(e) => Err(format!("the line is not JSON: {e}")),
        };
        let id = match &columns {
            Ok(columns) if !is_row(columns) => continue,
            Ok(columns) => columns.get("id").and_then(Value::as_str).map_or(place, str::to_string),
            Err(_) => place,
        };
        rows.push(PublishedRow { id, columns, shapes: shapes.clone(), recipes: None });
    }
}

/// Names of the device's column, other than `device`.
const DEVICE_NAMES: [&str; 7] =
    ["device", "gpu", "accelerator", "hardware", "chip", "gpu_type", "device_type"];

/// True if the line is about a step or a layer: `kind` says so, or nothing says what it is but a device is named.
fn is_row(columns: &Map<String, Value>) -> bool {
    match columns.get("kind") {
        Some(Value::String(kind)) => kind == "step" || kind == "layer",
        None | Some(Value::Null) => {
            DEVICE_NAMES.iter().any(|name| columns.contains_key(*name)) && !columns.contains_key("op")
        }
        Some(_) => false,
    }
}

/// Models by `model_ref`; a file that is missing or wrong holds none.
fn shapes(path: &Path) -> Shapes {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let objects = text.lines().filter_map(|line| match serde_json::from_str(line) {
        Ok(Value::Object(columns)) => Some(columns),
        _ => None,
    });
    objects.filter_map(|c: Map<String, Value>| Some((c.get("model_ref")?.as_str()?.to_string(), c))).collect()
}
