//! Steps that the project measured itself (docs/evidence/one-gpu.md) stay as near as the page says.

use serde_json::Value;

use crate::command::{Folder, stepsim};

#[test]
fn measured_steps_of_one_gpu_stay_near() {
    let folder = Folder::new();
    let path = folder.path("rows.jsonl");
    stepsim(&format!("score examples/measure/one-h200.jsonl --rows {}", path.display())).ok();
    let text = folder.text("rows.jsonl");
    let rows: Vec<Value> = text.lines().map(|row| serde_json::from_str(row).expect("a row")).collect();
    assert_eq!(rows.len(), 21);
    let of = |row: &Value, name: &str| row[name].as_f64().expect("a number");
    let mean =
        |off: &dyn Fn(&Value) -> f64| rows.iter().map(|r| off(r).abs()).sum::<f64>() / rows.len() as f64;
    let time = mean(&|row| of(row, "error"));
    let memory = mean(&|row| of(row, "predicted_memory_GiB") / of(row, "measured_memory_GiB") - 1.0);
    assert!(time < 0.05 && memory < 0.045, "time {time}, memory {memory}");
}
