//! Whole messages of bad input, and mutated files that must never panic.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::lab::calculon::closed_form::{Quirks, estimate};

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
    let names =
        Names { application: "app.json".into(), execution: "exe.json".into(), system: "sys.json".into() };
    let [app, exe, sys] = files.each_ref().map(Value::to_string);
    Calculon::parse(names, &app, &exe, &sys)
}

/// The message for files with one value replaced (`None`: removed) at a JSON pointer.
fn message(file: usize, pointer: &str, value: Option<Value>) -> String {
    let mut files = files();
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let parent = files[file].pointer_mut(parent).expect("the parent");
    match (parent, value) {
        (Value::Object(map), Some(value)) => drop(map.insert(key.to_string(), value)),
        (Value::Object(map), None) => drop(map.shift_remove(key).expect("the key")),
        (Value::Array(rows), Some(value)) => rows[key.parse::<usize>().expect("an index")] = value,
        _ => panic!("cannot change {pointer}"),
    }
    check(&files).expect_err(pointer).to_string()
}

const APP: usize = 0;
const EXE: usize = 1;
const SYS: usize = 2;

#[test]
fn the_small_files_are_valid_and_fit() {
    let case = check(&files()).expect("valid");
    assert!(estimate(&case, Quirks::AS_PUBLISHED).fits().is_ok());
}

#[test]
fn a_field_of_the_wrong_shape() {
    for (file, pointer, value, expected) in [
        (
            APP,
            "/num_blocks",
            None,
            "app.json: missing field `num_blocks`\n\
             \x20 hint: Calculon has no default values: add the key",
        ),
        (
            APP,
            "/vocabulary",
            Some(json!(51200)),
            "app.json: at `vocabulary`: unknown field `vocabulary`\n\
             \x20 allowed: hidden, feedforward, seq_size, attn_heads, attn_size, num_blocks\n\
             \x20 hint: Calculon takes no other keys: delete the key or correct its spelling",
        ),
        (
            APP,
            "/hidden",
            Some(json!(1.5)),
            "app.json: at `hidden`: invalid type: floating point `1.5`\n\
             \x20 allowed: a whole number, 0 or more",
        ),
        (
            EXE,
            "/data_par",
            Some(json!(-1)),
            "exe.json: at `data_par`: invalid value: integer `-1`\n\
             \x20 allowed: a whole number, 0 or more",
        ),
        (
            APP,
            "/attn_size",
            Some(json!(0)),
            "app.json: at `attn_size`: 0 is out of range\n\
             \x20 allowed: 1 to 1099511627776\n\
             \x20 hint: write the real size; the closed form divides by it",
        ),
        (
            EXE,
            "/datatype",
            Some(json!("float64")),
            "exe.json: at `datatype`: unknown variant `float64`\n\
             \x20 allowed: float8, float16, bfloat16, float32",
        ),
        (
            EXE,
            "/training",
            Some(json!("yes")),
            "exe.json: at `training`: invalid type: string \"yes\"\n\
             \x20 allowed: true or false",
        ),
    ] {
        assert_eq!(message(file, pointer, value), expected);
    }
}

#[test]
fn fields_that_contradict_each_other() {
    for (file, pointer, value, expected) in [
        (
            EXE,
            "/num_procs",
            Some(json!(63)),
            "exe.json: at `num_procs`: 63 is not tensor_par * pipeline_par * data_par = 4 * 4 * 4\n\
             \x20 allowed: 64\n\
             \x20 hint: change num_procs or one of the three",
        ),
        (
            EXE,
            "/batch_size",
            Some(json!(66)),
            "exe.json: at `data_par`: 4 does not divide batch_size = 66\n\
             \x20 allowed: a divisor of 66\n\
             \x20 hint: choose a batch that every data-parallel replica gets an equal part of",
        ),
        (
            EXE,
            "/microbatch_size",
            Some(json!(3)),
            "exe.json: at `microbatch_size`: 3 does not divide batch_size / data_par = 16\n\
             \x20 allowed: a divisor of 16\n\
             \x20 hint: choose a micro-batch that divides the batch of one replica",
        ),
        (
            APP,
            "/attn_heads",
            Some(json!(18)),
            "exe.json: at `tensor_par`: 4 does not divide attn_heads = 18\n\
             \x20 allowed: a divisor of 18\n\
             \x20 hint: tensor parallelism splits hidden, feedforward and attn_heads evenly",
        ),
        (
            EXE,
            "/pipeline_interleaving",
            Some(json!(4)),
            "exe.json: at `pipeline_interleaving`: 4 does not divide ceil(num_blocks / pipeline_par) = 6\n\
             \x20 allowed: a divisor of 6\n\
             \x20 hint: every chunk of a processor holds the same number of blocks",
        ),
        (
            EXE,
            "/tensor_par_comm_type",
            Some(json!("ar")),
            "exe.json: at `seq_par_ag_redo`: true needs tensor_par_comm_type = rs_ag\n\
             \x20 hint: switch the option off or change what it needs",
        ),
        (
            EXE,
            "/activation_recompute",
            Some(json!("full")),
            "exe.json: at `seq_par_ag_redo`: true needs activation_recompute other than full\n\
             \x20 hint: switch the option off or change what it needs",
        ),
        (
            EXE,
            "/training",
            Some(json!(false)),
            "exe.json: at `activation_recompute`: attn_only needs training = true\n\
             \x20 hint: switch the option off or change what it needs",
        ),
        (
            EXE,
            "/datatype",
            Some(json!("float8")),
            "exe.json: at `datatype`: float8 is not in matrix of sys.json\n\
             \x20 allowed: float16\n\
             \x20 hint: choose a number format that the system has, or add its rates to the system",
        ),
        (
            EXE,
            "/data_par_net",
            Some(json!(2)),
            "exe.json: at `data_par_net`: network 2 does not exist: sys.json has 2\n\
             \x20 allowed: 0 to 1\n\
             \x20 hint: tier 0 is the first of the system's networks",
        ),
        (
            APP,
            "/num_blocks",
            Some(json!(8)),
            "exe.json: at `weight_offload`: true needs at least 3 blocks per processor, ceil(num_blocks / pipeline_par) = ceil(8 / 4) is 2\n\
             \x20 hint: switch the option off or change what it needs",
        ),
        (
            SYS,
            "/mem2/GiB",
            Some(json!(0)),
            "exe.json: at `weight_offload`: true needs a second memory tier, but mem2 of sys.json has no capacity or no bandwidth\n\
             \x20 hint: switch the option off or change what it needs",
        ),
        (
            APP,
            "/seq_size",
            Some(json!(511)),
            "exe.json: at `tensor_par`: 4 does not divide microbatch_size * seq_size = 511\n\
             \x20 allowed: a divisor of 511\n\
             \x20 hint: rs_ag and p2p_rs_ag scatter the tokens of a micro-batch evenly; choose another size, or ar",
        ),
    ] {
        assert_eq!(message(file, pointer, value), expected);
    }
}

#[test]
fn a_system_that_makes_no_sense() {
    for (file, pointer, value, expected) in [
        (
            SYS,
            "/networks/0/size",
            Some(json!(2)),
            "sys.json: at `networks[0].size`: 2 processors, but tensor_par = 4 run on this network\n\
             \x20 allowed: 4 or more\n\
             \x20 hint: lower the parallelism or move it to a larger network",
        ),
        (
            SYS,
            "/networks/0/size",
            Some(json!(6)),
            "sys.json: at `networks[0].size`: 6 is no multiple of tensor_par = 4, and must_be_filled is true\n\
             \x20 allowed: a multiple of 4\n\
             \x20 hint: choose parallelisms that fill the network evenly",
        ),
        (
            SYS,
            "/mem1/MB_efficiency",
            Some(json!([[10, 0.9], [10, 0.5], [0, 0.3]])),
            "sys.json: at `mem1.MB_efficiency[1][0]`: 10 does not lie below the row before it, 10\n\
             \x20 allowed: strictly decreasing sizes, the last one 0\n\
             \x20 hint: sort the rows, the largest size first",
        ),
        (
            SYS,
            "/matrix/float16/gflops_efficiency",
            Some(json!([[10, 0.9], [1, 0.5]])),
            "sys.json: at `matrix.float16.gflops_efficiency`: the last row starts at 1\n\
             \x20 allowed: strictly decreasing sizes, the last one 0\n\
             \x20 hint: add a last row [0, efficiency] for the smallest sizes",
        ),
        (
            SYS,
            "/vector/float16/gflops_efficiency/0",
            Some(json!([10, 1.5])),
            "sys.json: at `vector.float16.gflops_efficiency[0][1]`: 1.5 is out of range\n\
             \x20 allowed: an efficiency above 0, at most 1",
        ),
        (
            SYS,
            "/networks/1/ops/p2p",
            Some(json!([1.0, 0])),
            "sys.json: at `networks[1].ops.p2p[1]`: offset 0\n\
             \x20 allowed: null\n\
             \x20 hint: a point-to-point transfer has no group for an offset to refer to",
        ),
        (
            SYS,
            "/networks/1/ops/all_reduce",
            Some(json!([1.0, null])),
            "sys.json: at `networks[1].ops.all_reduce[1]`: null\n\
             \x20 allowed: a number, -1 or more\n\
             \x20 hint: write 0 when the traffic does not depend on the group size",
        ),
        (
            SYS,
            "/networks/0/processor_usage",
            Some(json!(1)),
            "sys.json: at `networks[0].processor_usage`: 1 is out of range\n\
             \x20 allowed: at least 0, below 1",
        ),
        (
            SYS,
            "/processing_mode",
            Some(json!("overlap")),
            "sys.json: at `processing_mode`: unknown variant `overlap`\n\
             \x20 allowed: roofline or no_overlap",
        ),
    ] {
        assert_eq!(message(file, pointer, value), expected);
    }
}

#[test]
fn a_file_that_is_no_json_or_no_file() {
    let [app, exe, _] = files().map(|file| file.to_string());
    let parse = |sys: &str| Calculon::parse(Names::default(), &app, &exe, sys).expect_err("bad").to_string();
    assert_eq!(
        parse("{\n  \"matrix\": }"),
        "system: at `matrix`: expected value at line 2 column 13\n\
         \x20 hint: JSON has no comments, no trailing commas, no NaN and no Infinity; strings take double quotes"
    );
    let twice = r#"{"hidden": 1, "hidden": 2}"#;
    let text = Calculon::parse(Names::default(), twice, &exe, "{}").expect_err("bad").to_string();
    assert_eq!(
        text,
        "application: the key `hidden` stands here twice at line 1 column 22\n  hint: keep one of the two"
    );
    let missing = Path::new("no/such/file.json");
    let text = Calculon::load(missing, missing, missing).expect_err("bad").to_string();
    assert!(text.starts_with("no/such/file.json: cannot be opened: "), "{text}");
}

#[test]
fn gzip_is_read_whatever_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = ["app.json", "exe.json.gz", "sys"].map(|name| folder.path().join(name));
    for (i, (path, value)) in paths.iter().zip(files()).enumerate() {
        let text = value.to_string();
        if i == 0 {
            std::fs::write(path, text).expect("written");
        } else {
            let file = std::fs::File::create(path).expect("created");
            let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
            std::io::Write::write_all(&mut gzip, text.as_bytes()).expect("written");
            gzip.finish().expect("finished");
        }
    }
    let [app, exe, sys] = &paths;
    let read = Calculon::load(app, exe, sys).expect("valid");
    assert_eq!(read.app(), check(&files()).expect("valid").app());
    std::fs::write(sys, [0x1f, 0x8b, 0, 1, 2]).expect("written");
    let text = Calculon::load(app, exe, sys).expect_err("bad").to_string();
    assert!(text.contains("is not valid gzip"), "{text}");
}

/// Every leaf of a document as a JSON pointer.
fn leaves(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(k, v)| leaves(v, format!("{at}/{k}"), found)),
        Value::Array(rows) => {
            rows.iter().enumerate().for_each(|(k, v)| leaves(v, format!("{at}/{k}"), found))
        }
        _ => found.push(at),
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let words = ["ar", "none", "full", "ring", "pipe", "multiquery", "float32", "no_overlap", ""];
    prop_oneof![
        (0u64..20).prop_map(|n| json!(n)),
        (0u32..64).prop_map(|n| json!(1u64 << n)),
        any::<u64>().prop_map(|n| json!(n)),
        any::<i64>().prop_map(|n| json!(n)),
        any::<f64>().prop_map(|x| json!(x)),
        (0.0..2.0f64).prop_map(|x| json!(x)),
        any::<bool>().prop_map(|b| json!(b)),
        prop::sample::select(words.to_vec()).prop_map(|w| json!(w)),
        Just(json!(null)),
        Just(json!([])),
    ]
}

proptest! {
    /// Whatever stands in the files: an error that names one of them, or an estimate.
    #[test]
    fn mutated_files_never_panic(
        changes in prop::collection::vec((0usize..3, any::<prop::sample::Index>(), any_value()), 1..5),
    ) {
        let mut files = files();
        for (file, index, value) in changes {
            let mut found = Vec::new();
            leaves(&files[file], String::new(), &mut found);
            if let Some(leaf) = (!found.is_empty()).then(|| index.get(&found)) {
                *files[file].pointer_mut(leaf).expect("a leaf") = value;
            }
        }
        match check(&files) {
            Err(error) => prop_assert!(error.to_string().contains(".json: ")),
            Ok(case) => for quirks in [Quirks::AS_PUBLISHED, Quirks::REPAIRED] {
                let estimate = estimate(&case, quirks);
                let outputs = estimate.outputs();
                prop_assert!(outputs.fw_time >= 0.0 && outputs.proc_mem_tier1_cap_req > 0.0);
                prop_assert_eq!(outputs.to_json().len(), 96);
            },
        }
    }

    /// Text with a hole in it, or bytes put in.
    #[test]
    fn broken_text_never_panics(file in 0usize..3, at in any::<prop::sample::Index>(), put in ".{0,3}") {
        let mut texts = files().map(|file| file.to_string());
        let cut = at.index(texts[file].len());
        texts[file].replace_range(cut..=cut, &put);
        let _ = Calculon::parse(Names::default(), &texts[0], &texts[1], &texts[2]);
    }
}
