use serde_json::Value;
use stepsim_spec::catalog;

use stepsim_study::measure_words::{LayoutNames, software};

/// Every name is an argument that the import of its software understands.
#[test]
fn names_are_those_that_imports_read() {
    let tables =
        [&["megatron"][..], &["megatron-bridge", "megatron"], &["torchtitan"], &["nanotron"], &["maxtext"]];
    for (names, tables) in software().iter().zip(tables) {
        let LayoutNames { tensor, pipeline, context, expert, micro_batch, batch, .. } = names;
        let arguments: Vec<Value> = tables
            .iter()
            .filter_map(|table| catalog::file(&format!("workloads/imports/{table}.json")))
            .map(|text| serde_json::from_str::<Value>(text).unwrap()["arguments"].clone())
            .collect();
        for name in [tensor, pipeline, context, expert, micro_batch, batch] {
            let plain = name.replace('-', "_");
            let last = plain.strip_prefix("model.").unwrap_or(&plain);
            let known = arguments.iter().any(|of| of.get(&plain).or(of.get(last)).is_some());
            assert!(name.is_empty() || known, "{tables:?} know no {name}");
        }
    }
}
