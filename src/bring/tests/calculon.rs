//! Whole messages of bad input, and mutated files that must never panic.

use proptest::prelude::*;
use serde_json::{Value, json};

use stepsim_bring::calculon::{Calculon, FileNames};
use stepsim_spec::SpecError;

/// Three small files that belong together.
fn files() -> [Value; 3] {
    let app = json!({
        "hidden": 1024, "feedforward": 4096, "seq_size": 512, "attn_heads": 16, "attn_size": 64, "num_blocks": 24
    });
    let exe = json!({
        "num_procs": 64, "tensor_par": 4, "pipeline_par": 4, "data_par": 4,
        "tensor_par_net": 0, "pipeline_par_net": 1, "data_par_net": 1,
        "batch_size": 64, "microbatch_size": 1, "datatype": "float16", "fused_activation": false,
        "attention_type": "multihead", "activation_recompute": "attn_only", "pipeline_interleaving": 2,
        "optimizer_sharding": true, "tensor_par_comm_type": "rs_ag", "tensor_par_overlap": "ring",
        "seq_par_ag_redo": true, "data_par_overlap": true, "weight_offload": true,
        "activations_offload": true, "optimizer_offload": true, "training": true
    });
    let network = |size: u64, bandwidth: f64| {
        json!({
            "bandwidth": bandwidth, "efficiency": 0.7, "size": size, "latency": 1e-5, "must_be_filled": size == 8,
            "processor_usage": 0.1,
            "ops": {"p2p": [1.0, null], "reduce_scatter": [1.0, -1], "all_gather": [1.0, -1], "all_reduce": [2.0, -1]}
        })
    };
    let engine =
        |tflops: u64| json!({"float16": {"tflops": tflops, "gflops_efficiency": [[16, 0.9], [0, 0.1]]}});
    let memory = |gib: u64| json!({"GiB": gib, "GBps": 10 * gib, "MB_efficiency": [[10, 0.9], [0, 0.3]]});
    let sys = json!({
        "matrix": engine(300), "vector": engine(70), "mem1": memory(80), "mem2": memory(512),
        "processing_mode": "roofline", "networks": [network(8, 300.0), network(65_536, 25.0)]
    });
    [app, exe, sys]
}

fn check(files: &[Value; 3]) -> Result<Calculon, SpecError> {
    let [application, execution, system] = NAMES.map(String::from);
    let names = FileNames { application, execution, system };
    let [app, exe, sys] = files.each_ref().map(Value::to_string);
    Calculon::parse(names, &app, &exe, &sys)
}

/// The message for files with one value replaced (`None`: removed) at a JSON pointer.
fn message(file: &str, pointer: &str, value: Option<Value>) -> String {
    let mut files = files();
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let number = NAMES.iter().position(|name| *name == file).expect("one of the files");
    let parent = files[number].pointer_mut(parent).expect("the parent");
    match (parent, value) {
        (Value::Object(map), Some(value)) => drop(map.insert(key.to_string(), value)),
        (Value::Object(map), None) => drop(map.shift_remove(key).expect("the key")),
        (Value::Array(rows), Some(value)) => rows[key.parse::<usize>().expect("an index")] = value,
        _ => panic!("cannot change {pointer}"),
    }
    let imported = check(&files).and_then(|case| {
        case.to_topology()?;
        case.to_workload("topology.json")
    });
    imported.expect_err(pointer).to_string()
}

/// Application, execution, system.
const NAMES: [&str; 3] = ["app.json", "exe.json", "sys.json"];

#[test]
fn a_wrong_value_has_its_message() {
    let paragraphs = include_str!("calculon.txt").split("\n\n").filter(|text| !text.starts_with('#'));
    let mut seen = 0;
    for (case, expected) in paragraphs.map(|text| text.split_once('\n').expect("a case and its message")) {
        let mut words = case.splitn(3, ' ');
        let (file, pointer) = (words.next().expect("a file"), words.next().expect("a pointer"));
        let value = words.next().map(|text| serde_json::from_str(text).expect("a value"));
        assert_eq!(message(file, pointer, value), expected.trim_end(), "{case}");
        seen += 1;
    }
    assert_eq!(seen, 17);
}

#[test]
fn a_file_that_is_no_json_or_no_file() {
    let [app, exe, _] = files().map(|file| file.to_string());
    let parse =
        |sys: &str| Calculon::parse(FileNames::default(), &app, &exe, sys).expect_err("bad").to_string();
    assert_eq!(
        parse("{\n  \"matrix\": }"),
        "system: at `matrix`: expected value at line 2 column 13\n\
         \x20 hint: JSON has no comments, no trailing commas, no NaN and no Infinity; strings take double quotes"
    );
    let twice = r#"{"hidden": 1, "hidden": 2}"#;
    let text = Calculon::parse(FileNames::default(), twice, &exe, "{}").expect_err("bad").to_string();
    assert_eq!(
        text,
        "application: the key `hidden` stands here twice at line 1 column 22\n  hint: keep one of the two"
    );
}

proptest! {
    /// Text with a hole in it, or bytes put in.
    #[test]
    fn broken_text_never_panics(file in 0usize..3, at in any::<prop::sample::Index>(), put in ".{0,3}") {
        let mut texts = files().map(|file| file.to_string());
        let cut = at.index(texts[file].len());
        texts[file].replace_range(cut..=cut, &put);
        let _ = Calculon::parse(FileNames::default(), &texts[0], &texts[1], &texts[2]);
    }
}
