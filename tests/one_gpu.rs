//! Steps that the project measured itself (docs/developers/one-gpu.md) stay as near as the page says.

use serde_json::Value;

use crate::command::{Folder, stepsim};

/// Mean errors of time and memory, and the number of rows.
fn errors(file: &str) -> (f64, f64, usize) {
    let folder = Folder::new();
    let path = folder.path("rows.jsonl");
    stepsim(&format!("score examples/measure/{file} --rows {}", path.display())).ok();
    let text = folder.text("rows.jsonl");
    let rows: Vec<Value> = text.lines().map(|row| serde_json::from_str(row).expect("a row")).collect();
    assert!(rows.iter().all(|row| row["not_understood"].is_null()), "{file}");
    let of = |row: &Value, name: &str| row[name].as_f64().expect("a number");
    let mean =
        |off: &dyn Fn(&Value) -> f64| rows.iter().map(|r| off(r).abs()).sum::<f64>() / rows.len() as f64;
    let time = mean(&|row| of(row, "error"));
    let memory = mean(&|row| of(row, "predicted_memory_GiB") / of(row, "measured_memory_GiB") - 1.0);
    (time, memory, rows.len())
}

#[test]
fn measured_steps_of_one_gpu_stay_near() {
    for (file, rows, most_time, most_memory) in
        [("one-h200.jsonl", 21, 0.05, 0.04), ("one-h100.jsonl", 27, 0.045, 0.045)]
    {
        let (time, memory, found) = errors(file);
        assert_eq!(found, rows, "{file}");
        assert!(time < most_time && memory < most_memory, "{file}: time {time}, memory {memory}");
    }
}
