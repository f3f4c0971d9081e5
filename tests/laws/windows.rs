//! What is masked costs nothing more: no window is dearer than a wider one, no mask of documents dearer than none.

use serde_json::{Value, json};
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::spec::Disk;

/// Seconds of the attention kernels of a step on one device, forward and backward.
fn attention_s(device: &str, heads: u64, sequence: u64, more: &Value) -> [f64; 2] {
    let mut workload = json!({
        "topology": format!("1x{device}"),
        "stack": "simple",
        "model": {
            "name": "few heads", "source": "made up", "layers": 1, "hidden": 128 * heads, "heads": heads, "ffn": 512,
            "vocabulary": 512, "sequence": sequence,
        },
        "batch": {"global": 1, "micro_batch": 1},
    });
    lay(&mut workload, more);
    let inputs = Inputs::from_json(&workload.to_string(), None, &[], &Disk)
        .unwrap_or_else(|e| panic!("{workload}: {e}"));
    let run = Simulation::run(&inputs, &Options::default()).unwrap_or_else(|e| panic!("{workload}: {e}"));
    let report = run.report(false);
    ["attention-forward", "attention-backward"].map(|class| {
        let of_class = report.kernels.iter().filter(|kernel| kernel.class.name() == class);
        of_class.map(|kernel| kernel.time_s).sum()
    })
}

/// Lays objects over each other.
fn lay(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            over.iter().for_each(|(key, value)| lay(base.entry(key).or_insert(Value::Null), value));
        }
        (base, over) => *base = over.clone(),
    }
}

#[test]
fn no_window_is_dearer_than_a_wider_one() {
    for device in ["h100", "a100", "b200", "mi300x"] {
        for (heads, sequence) in [(2, 8192), (8, 8192), (64, 2048)] {
            let window = |keys: u64| {
                attention_s(device, heads, sequence, &json!({"model": {"attention": {"window": keys}}}))
            };
            let mut before = [0.0; 2];
            for keys in [64, 128, 384, 512, 1024, 2048, 4096] {
                let took = window(keys);
                let what = format!("{device}, {heads} heads, {sequence} tokens, a window of {keys}");
                for (took, before) in took.into_iter().zip(before) {
                    assert!(took > 0.0 && took >= before * (1.0 - 1e-9), "{what}: {took} s after {before}");
                }
                before = took;
            }
            let whole = attention_s(device, heads, sequence, &json!({}));
            assert!(
                before[0] <= whole[0] * (1.0 + 1e-9) && before[1] <= whole[1] * (1.0 + 1e-9),
                "{device} {heads}"
            );
        }
    }
}

#[test]
fn no_mask_of_documents_is_dearer_than_none() {
    for (device, heads) in [("h100", 2), ("h100", 32), ("a100", 4), ("b200", 16)] {
        let whole = attention_s(device, heads, 8192, &json!({}));
        for length in [200, 500, 1000, 2700, 3000, 5000, 8000] {
            let documents = json!({"documents": {"lengths": [length]}});
            let took = attention_s(device, heads, 8192, &documents);
            for (took, whole) in took.into_iter().zip(whole) {
                assert!(
                    took <= whole * (1.0 + 1e-9),
                    "{device}, {heads} heads, documents of {length}: {took} of {whole}"
                );
            }
        }
    }
}
