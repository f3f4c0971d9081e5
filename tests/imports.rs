//! Argument and recipe files: real ones as workloads, with what became of each argument; wrong ones refused.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use stepsim::step::spec::import;
use stepsim::step::spec::imports::{Beside, FORMATS, FileKind, Import, Status, recognise};
use stepsim::step::spec::{WorkloadSpec, from_value};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/imports").join(name)
}

fn read(format: &str, name: &str, beside: &Beside) -> Import {
    let path = file(name);
    let text = std::fs::read_to_string(&path).unwrap();
    import(format, &text, &path.display().to_string(), beside).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn given(model: Option<&str>, devices: Option<u64>, sets: &[&str]) -> Beside {
    let sets = sets.iter().map(|s| (*s).to_string()).collect();
    Beside { model: model.map(Value::from), devices, sets, ..Beside::default() }
}

/// Format and name of a file, what is given beside it, fields that must come out, arguments without a counterpart.
type Case = (&'static str, &'static str, Beside, Vec<(&'static str, Value)>, usize);

/// Every file with what must stand in its workload, and how many arguments matter without a counterpart.
fn cases() -> Vec<Case> {
    let none = || given(None, None, &[]);
    let devices = |n| given(None, Some(n), &[]);
    vec![
        (
            "megatron",
            "megatron-gpt3-175b.sh",
            given(None, None, &["model.vocabulary=51200"]),
            vec![
                ("/model/layers", json!(96)),
                ("/model/ffn", json!(49152)),
                ("/model/positions", json!("learned")),
                ("/model/biases", json!(true)),
                ("/parallelism/tensor", json!(8)),
                ("/parallelism/pipeline/size", json!(16)),
                ("/parallelism/data", json!(8)),
                ("/batch/global", json!(1536)),
                ("/precision/compute", json!("fp16")),
                ("/parallelism/sharding/kind", json!("none")),
                ("/sequence", json!(2048)),
                ("/parallelism/pipeline/schedule", json!("1f1b")),
            ],
            1,
        ),
        (
            "megatron",
            "megatron-llama3-8b-fp8.sh",
            none(),
            vec![
                ("/model/gated_mlp", json!(true)),
                ("/model/kv_heads", json!(8)),
                ("/model/biases", json!(false)),
                ("/model/tied_embeddings", json!(false)),
                ("/parallelism/data", json!(8)),
                ("/precision/recipe", json!("fp8-delayed")),
                ("/precision/gradients", json!("bf16")),
                ("/parallelism/sharding/kind", json!("zero1")),
                ("/model/vocabulary", json!(128256)),
                ("/gradient_buckets/overlap", json!(true)),
            ],
            0,
        ),
        (
            "megatron",
            "megatron-mixtral-8x7b.yaml",
            none(),
            vec![
                ("/model/moe/experts", json!(8)),
                ("/model/moe/top_k", json!(2)),
                ("/parallelism/expert", json!(8)),
                ("/parallelism/pipeline/chunks", json!(8)),
                ("/parallelism/pipeline/schedule", json!("interleaved-1f1b")),
                ("/parallelism/data", json!(16)),
                ("/model/vocabulary", json!(32000)),
                ("/model/norm", json!("rms")),
            ],
            0,
        ),
        (
            "megatron",
            "megatron-hybrid.sh",
            none(),
            vec![
                ("/model/layers", json!(18)),
                ("/model/layer_pattern/5", json!(["attention", 1])),
                ("/model/layer_kinds/mamba/mixer/mamba2/heads", json!(64)),
                ("/model/layer_kinds/experts/mlp", json!("experts")),
                ("/model/moe/shared_ffn", json!(3712)),
                ("/parallelism/data", json!(16)),
            ],
            0,
        ),
        (
            "maxtext",
            "maxtext-llama2-70b-v5p.sh",
            devices(64),
            vec![
                ("/model", json!("llama-2-70b")),
                ("/batch/global", json!(256)),
                ("/sequence", json!(4096)),
                ("/parallelism/data", json!(64)),
                ("/recompute/granularity", json!("full")),
            ],
            0,
        ),
        (
            "maxtext",
            "maxtext-scaled.sh",
            devices(256),
            // 32 = 2^5: heads and MLP 2^2, width 2^2, layers 2^1 of base.yml's.
            vec![
                ("/model/layers", json!(32)),
                ("/model/hidden", json!(8192)),
                ("/model/heads", json!(64)),
                ("/model/ffn", json!(28672)),
                ("/model/vocabulary", json!(32000)),
                ("/batch/global", json!(512)),
            ],
            0,
        ),
        (
            "megatron-bridge",
            "megatron-bridge-slurm.sh",
            none(),
            vec![
                ("/model", json!("llama3-70b")),
                ("/parallelism/tensor", json!(4)),
                ("/parallelism/pipeline/size", json!(4)),
                ("/parallelism/pipeline/chunks", json!(5)),
                ("/parallelism/context/size", json!(2)),
                ("/parallelism/data", json!(2)),
                ("/batch/global", json!(256)),
                ("/stack", json!("megatron-bridge-2025")),
            ],
            0,
        ),
        (
            "nemo",
            "nemo-llama3-70b.yaml",
            none(),
            vec![
                ("/parallelism/data", json!(32)),
                ("/parallelism/context/size", json!(2)),
                ("/parallelism/pipeline/chunks", json!(5)),
                ("/parallelism/tensor_overlap", json!("pipelined")),
                ("/model/vocabulary", json!(128512)),
                ("/model/gated_mlp", json!(true)),
                ("/gradient_buckets/bucket_bytes", json!(125 * 1048576)),
                ("/parallelism/sharding/kind", json!("zero1")),
            ],
            1,
        ),
        (
            "nemo",
            "nemo-llama3-8b.yaml",
            none(),
            vec![
                ("/parallelism/data", json!(128)),
                ("/batch/global", json!(2048)),
                ("/model/ffn", json!(14336)),
            ],
            0,
        ),
        (
            "nemo",
            "nemo-gpt3-175b.yaml",
            none(),
            vec![
                ("/model/ffn", json!(49152)),
                ("/model/vocabulary", json!(50688)),
                ("/model/dropout", json!(true)),
                ("/recompute/granularity", json!("selective")),
                ("/parallelism/pipeline/chunks", json!(12)),
                ("/parallelism/data", json!(32)),
            ],
            0,
        ),
        (
            "megatron-bridge",
            "megatron-bridge-llama3-8b.yaml",
            none(),
            vec![
                ("/parallelism/data", json!(4)),
                ("/parallelism/context/size", json!(2)),
                ("/precision/gradients", json!("bf16")),
                ("/sequence", json!(8192)),
                ("/stack", json!("megatron-bridge-2025")),
            ],
            0,
        ),
        (
            "megatron-bridge",
            "megatron-bridge-qwen3-30b-a3b.yaml",
            none(),
            vec![
                ("/model/attention/qk_norm", json!("head")),
                ("/model/moe/ffn", json!(768)),
                ("/parallelism/data", json!(8)),
                ("/parallelism/pipeline/chunks", json!(12)),
                ("/expert/dispatcher", json!("alltoall")),
            ],
            0,
        ),
        (
            "megatron-bridge",
            "megatron-bridge-llama3-70b-fp8.yaml",
            none(),
            vec![
                ("/precision/recipe", json!("fp8-current")),
                ("/parallelism/data", json!(2)),
                ("/parallelism/sequence_parallel", json!(true)),
            ],
            0,
        ),
        (
            "torchtitan",
            "torchtitan-llama3-70b.toml",
            devices(64),
            vec![
                ("/model", json!("llama3-70b")),
                ("/parallelism/data", json!(8)),
                ("/batch/micro_batch", json!(8)),
                ("/batch/global", json!(64)),
                ("/parallelism/sharding/kind", json!("zero3")),
                ("/recompute/granularity", json!("full")),
                ("/stack", json!("fsdp2-eager")),
            ],
            0,
        ),
        (
            "torchtitan",
            "torchtitan-llama3-405b.toml",
            devices(128),
            vec![
                ("/model", json!("llama3-405b")),
                ("/parallelism/data", json!(16)),
                ("/stack", json!("fsdp2-compiled")),
                ("/precision/recipe", json!("torchao-tensorwise")),
                ("/parallelism/tensor_overlap", json!("pipelined")),
            ],
            1,
        ),
        (
            "torchtitan",
            "torchtitan-llama3-405b-pipeline.toml",
            devices(512),
            vec![
                ("/batch/micro_batch", json!(1)),
                ("/batch/global", json!(256)),
                ("/parallelism/data", json!(8)),
                ("/parallelism/pipeline/schedule", json!("1f1b")),
            ],
            0,
        ),
        (
            "torchtitan",
            "torchtitan-deepseek-v3-671b.toml",
            given(None, Some(512), &["parallelism.expert=32"]),
            vec![
                ("/model", json!("deepseek-v3")),
                ("/parallelism/data", json!(512)),
                ("/batch/global", json!(2048)),
            ],
            0,
        ),
        (
            "deepspeed",
            "deepspeed-zero3.json",
            given(Some("llama3-8b"), Some(8), &[]),
            vec![
                ("/parallelism/sharding/kind", json!("zero3")),
                ("/offload/optimizer_on", json!("host")),
                ("/offload/weights/0/tier", json!("host")),
                ("/precision/compute", json!("fp16")),
                ("/batch/global", json!(8)),
                ("/parallelism/sharding/prefetch/max_live_elements", json!(1_000_000_000)),
            ],
            1,
        ),
        (
            "deepspeed",
            "deepspeed-zero1-bf16.json",
            given(Some("llama3-8b"), Some(64), &[]),
            vec![
                ("/parallelism/sharding/kind", json!("zero1")),
                ("/batch/global", json!(2048)),
                ("/batch/micro_batch", json!(2)),
                ("/precision/gradients", json!("fp32")),
                ("/gradient_buckets/bucket_bytes", json!(1_000_000_000)),
            ],
            0,
        ),
        (
            "deepspeed",
            "deepspeed-zero3-hpz.json",
            given(Some("llama3-8b"), Some(64), &[]),
            vec![
                ("/parallelism/sharding/kind", json!("hpz")),
                ("/parallelism/sharding/group", json!(8)),
                ("/batch/global", json!(128)),
                ("/stack", json!("deepspeed-zero3")),
            ],
            0,
        ),
        (
            "deepspeed",
            "deepspeed-auto.json",
            given(Some("llama3-8b"), Some(8), &[]),
            vec![
                ("/batch/global", json!(128)),
                ("/parallelism/sharding/kind", json!("zero2")),
                ("/precision/compute", json!("fp32")),
            ],
            1,
        ),
        (
            "nanotron",
            "nanotron-tiny-llama.yaml",
            none(),
            vec![
                ("/parallelism/data", json!(2)),
                ("/parallelism/pipeline/size", json!(2)),
                ("/batch/global", json!(4)),
                ("/parallelism/sequence_parallel", json!(true)),
                ("/model/vocabulary", json!(256)),
            ],
            1,
        ),
        (
            "nanotron",
            "nanotron-llama3.2-3b.yaml",
            none(),
            vec![
                ("/model/tied_embeddings", json!(true)),
                ("/batch/global", json!(16)),
                ("/model/vocabulary", json!(128256)),
                ("/parallelism/sequence_parallel", json!(false)),
                ("/precision/gradients", json!("fp32")),
            ],
            0,
        ),
        (
            "nanotron",
            "nanotron-qwen-moe.yaml",
            none(),
            vec![
                ("/model/moe/experts", json!(4)),
                ("/model/moe/top_k", json!(1)),
                ("/batch/global", json!(96)),
            ],
            1,
        ),
        (
            "maxtext",
            "maxtext-llama2-70b-gpu.yml",
            devices(64),
            vec![
                ("/model", json!("llama-2-70b")),
                ("/batch/micro_batch", json!(6)),
                ("/batch/global", json!(384)),
                ("/parallelism/sharding/kind", json!("zero3")),
                ("/recompute/granularity", json!("full")),
            ],
            0,
        ),
        (
            "maxtext",
            "maxtext-mixtral-8x7b.yml",
            none(),
            vec![
                ("/parallelism/tensor", json!(8)),
                ("/parallelism/data", json!(8)),
                ("/batch/global", json!(128)),
                ("/batch/micro_batch", json!(16)),
                ("/model/moe/experts", json!(8)),
                ("/model/head_size", json!(128)),
            ],
            0,
        ),
        (
            "maxtext",
            "maxtext-llama3.1-405b.yml",
            devices(512),
            vec![
                ("/model", json!("llama3-405b")),
                ("/parallelism/tensor", json!(4)),
                ("/parallelism/data", json!(128)),
                ("/parallelism/sharding/group", json!(64)),
                ("/batch/global", json!(256)),
                ("/batch/micro_batch", json!(1)),
            ],
            2,
        ),
    ]
}

#[test]
fn real_files_become_the_workloads_that_they_describe() {
    for (format, name, beside, expected, matter) in cases() {
        let made = read(format, name, &beside);
        for (pointer, value) in expected {
            assert_eq!(made.workload.pointer(pointer), Some(&value), "{name} {pointer}: {}", made.workload);
        }
        let unknown: Vec<&str> = made.of(Status::Unknown).map(|a| a.name.as_str()).collect();
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
        let matters: Vec<String> =
            made.of(Status::Matters).map(|a| format!("{}: {}", a.name, a.why)).collect();
        assert_eq!(matters.len(), matter, "{name}: {matters:#?}");
        assert!(made.of(Status::Matters).all(|a| !a.why.is_empty()), "{name}");
    }
}

/// What is written loads as what was made, and as itself after that.
#[test]
fn imports_go_round() {
    for (format, name, beside, _, _) in cases() {
        let made = read(format, name, &beside);
        let load = |value: Value| {
            from_value::<WorkloadSpec>(value, "w".into(), "w.json".into(), &[])
                .unwrap_or_else(|e| panic!("{name}: {e}"))
        };
        let once = load(serde_json::from_str(&made.workload.to_string()).unwrap());
        let again = load(serde_json::to_value(&once.value).unwrap());
        assert_eq!(once.value, again.value, "{name}");
        assert_eq!(once.hash, again.hash, "{name}");
    }
}

/// Under a pipeline torchtitan cuts what a replica has: into single sequences, into pieces of a size or number, and before April
/// 2025 (`batch_size`) into as many as there are stages.
#[test]
fn a_pipeline_cuts_the_batch_of_a_replica() {
    let text = std::fs::read_to_string(file("torchtitan-llama3-405b-pipeline.toml")).unwrap();
    let micro = |batch: &str, pipeline: &str| {
        let text = text
            .replace("local_batch_size", batch)
            .replace("[parallelism]", &format!("[parallelism]\n{pipeline}"));
        let made = import("torchtitan", &text, "x.toml", &given(None, Some(512), &[])).expect("a workload");
        assert_eq!(made.workload["batch"]["global"], 256);
        // Gathered weights stay for the backward pass, unless the file says otherwise.
        let stays = !pipeline.contains("always");
        assert_eq!(made.workload["parallelism"]["sharding"]["reshard_after_forward"], !stays);
        made.workload["batch"]["micro_batch"].as_u64().unwrap()
    };
    assert_eq!(micro("local_batch_size", ""), 1);
    assert_eq!(micro("local_batch_size", "pipeline_parallel_microbatch_size = 2"), 2);
    assert_eq!(micro("batch_size", ""), 4);
    assert_eq!(micro("batch_size", "pipeline_parallel_microbatches = 16"), 2);
    assert_eq!(micro("batch_size", "fsdp_reshard_after_forward = \"always\""), 4);
}

/// Functions of Python: what they are given, what they call, what they set.
#[test]
fn functions_of_python_are_followed() {
    let of = |format: &str, name: &str, function: &str, devices: u64| {
        let text = std::fs::read_to_string(file(name)).unwrap();
        let made = import(format, &text, &format!("{name}:{function}"), &given(None, Some(devices), &[]));
        let made = made.unwrap_or_else(|e| panic!("{function}: {e}"));
        let unknown: Vec<&str> = made.of(Status::Unknown).map(|a| a.name.as_str()).collect();
        assert!(unknown.is_empty(), "{function}: {unknown:?}");
        made.workload
    };
    let titan = |function: &str| of("torchtitan", "torchtitan-registry.py", function, 64);
    for (workload, fields) in [
        (
            titan("llama3_8b"),
            vec![
                ("/model", json!("llama3-8b")),
                ("/sequence", json!(8192)),
                ("/batch/micro_batch", json!(2)),
                ("/batch/global", json!(128)),
                ("/parallelism/sharding/kind", json!("zero3")),
                ("/recompute/granularity", json!("modules")),
                ("/stack", json!("fsdp2-eager")),
            ],
        ),
        (
            titan("llama3_8b_compiled"),
            vec![
                ("/stack", json!("fsdp2-compiled")),
                ("/recompute", Value::Null),
                ("/parallelism/pipeline/size", json!(2)),
                ("/parallelism/tensor", json!(2)),
                ("/parallelism/data", json!(16)),
                ("/precision/recipe", Value::Null),
                // Two sequences in each of eight micro-batches on 16 replicas.
                ("/batch/global", json!(256)),
            ],
        ),
        (
            titan("llama3_405b"),
            vec![
                ("/model", json!("llama3-405b")),
                ("/parallelism/tensor", json!(8)),
                ("/precision/recipe", json!("torchao-rowwise")),
                ("/parallelism/tensor_overlap", json!("pipelined")),
                ("/recompute/granularity", json!("full")),
            ],
        ),
        (
            of("nemo-2", "nemo-2-llama3-70b.py", "pretrain_recipe", 128),
            vec![
                ("/model", json!("llama3-70b")),
                ("/parallelism/data", json!(4)),
                ("/parallelism/pipeline/chunks", json!(5)),
                ("/batch/global", json!(512)),
                ("/precision/gradients", json!("fp32")),
                ("/stack", json!("megatron-bridge-2025")),
            ],
        ),
    ] {
        for (pointer, value) in fields {
            assert_eq!(workload.pointer(pointer).unwrap_or(&Value::Null), &value, "{pointer}: {workload}");
        }
    }
    let text = std::fs::read_to_string(file("torchtitan-registry.py")).unwrap();
    let error = import("torchtitan", &text, "x.py", &given(None, Some(8), &[])).unwrap_err().to_string();
    assert!(error.contains("which?") && error.contains("llama3_405b"), "{error}");
}

/// A script that takes its sizes from the line that runs it.
#[test]
fn a_script_is_played_as_the_line_that_runs_it_says() {
    let text = std::fs::read_to_string(file("megatron-sized.sh")).unwrap();
    let of = |typed: &str| import("megatron", &text, typed, &Beside::default());
    let made = of("x.sh 8B 1 256 2 2").unwrap();
    for (pointer, value) in [
        ("/model/layers", json!(32)),
        ("/model/kv_heads", json!(8)),
        ("/model/vocabulary", json!(128256)),
        ("/batch/micro_batch", json!(1)),
        ("/batch/global", json!(256)),
        ("/parallelism/tensor", json!(2)),
        ("/parallelism/pipeline/size", json!(2)),
        ("/parallelism/data", json!(8)),
        ("/sequence", json!(4096)),
        ("/precision/compute", json!("bf16")),
        ("/parallelism/sharding/kind", json!("zero1")),
    ] {
        assert_eq!(made.workload.pointer(pointer), Some(&value), "{pointer}: {}", made.workload);
    }
    assert_eq!(made.workload.pointer("/recompute/granularity"), None);
    let unknown: Vec<&str> = made.of(Status::Unknown).map(|a| a.name.as_str()).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let steps = made.arguments.iter().find(|a| a.name == "train_iters").unwrap();
    assert_eq!(steps.value, json!(953));
    let made = of("SEQ_LEN=8192 SLURM_NNODES=16 bash x.sh 1B 2 512 1 4 full").unwrap();
    for (pointer, value) in [
        ("/model/layers", json!(16)),
        ("/sequence", json!(8192)),
        ("/parallelism/data", json!(32)),
        ("/recompute/granularity", json!("full")),
    ] {
        assert_eq!(made.workload.pointer(pointer), Some(&value), "{pointer}: {}", made.workload);
    }
    // Variables may be set before the line where the script takes them from its own words.
    let made = of("SIZE=1B TP=1 PP=1 x.sh").unwrap();
    assert_eq!(made.workload.pointer("/model/layers"), Some(&json!(16)));
    let open = made.assumed.last().unwrap();
    assert!(open.contains("GLOBAL_BATCH (--global-batch-size)") && !open.contains("SIZE ("), "{open}");
    let error = of("x.sh").unwrap_err().to_string();
    for says in [
        "does not say which model",
        "SIZE (1B or 8B)",
        "GLOBAL_BATCH (--global-batch-size)",
        "'SIZE=... x.sh ...'",
    ] {
        assert!(error.contains(says), "{error}");
    }
    assert!(!error.contains("LAYERS (") && !error.contains("EXTRA_OPTIONS"), "{error}");
}

fn stepsim(args: &[&str]) -> (i32, String, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_stepsim")).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
}

#[test]
fn the_command_writes_a_workload_that_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (workload, report) = (path("w.json"), path("r.json"));
    let from = file("megatron-llama3-8b-fp8.sh").display().to_string();
    let line = ["import", "megatron", &from, "-t", "h100-superpod-8", "-o", &workload, "--report", &report];
    let (status, out, error) = stepsim(&line);
    assert_eq!(status, 0, "{error}");
    assert!(out.contains("taken") && out.contains("next: stepsim inspect"), "{out}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    let of = |name: &str| {
        report["arguments"].as_array().unwrap().iter().find(|a| a["name"] == name).unwrap().clone()
    };
    assert_eq!(of("fp8_format")["fields"], json!(["precision.recipe"]));
    assert_eq!(of("lr")["status"], "no-effect");
    let (status, _, error) = stepsim(&["inspect", &workload]);
    assert_eq!(status, 0, "{error}");
}

#[test]
fn wrong_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |format: &str, text: &str, rest: &[&str], says: &[&str]| {
        let path = folder.path().join("file");
        std::fs::write(&path, text).unwrap();
        let path = path.display().to_string();
        let (status, _, error) = stepsim(&[&["import", format, &path], rest].concat());
        assert_eq!(status, 2, "{text}: {error}");
        says.iter().for_each(|s| assert!(error.contains(s), "{text}: {error}"));
    };
    refused("torchtitan", "[training\nx = 1", &[], &["is not TOML"]);
    refused("deepspeed", "{\"zero_optimization\": ", &[], &["file"]);
    refused("nanotron", "a: [1", &[], &["is not YAML"]);
    refused("nanotron", "just words", &[], &["it holds one value"]);
    refused("nanotron", "tokens: {micro_batch_size: 2}", &[], &["sequences a step has", "--devices"]);
    refused(
        "nanotron",
        "tokens: {micro_batch_size: 2}",
        &["--devices", "8"],
        &["does not say which model", "--model"],
    );
    refused("maxtext", "foo: 1\nbar: 2", &[], &["no argument of maxtext is known", "foo, bar"]);
    refused(
        "torchtitan",
        "[model]\nname = \"llama9\"\nflavor = \"8B\"\n[training]\nglobal_batch_size = 4",
        &[],
        &["llama9", "--model"],
    );
    refused("deepspeed", "{\"train_batch_size\": 8}", &["--model", "nonesuch"], &["nonesuch"]);
    refused(
        "deepspeed",
        "{\"train_batch_size\": -3}",
        &["--model", "llama3-8b"],
        &["batch.global", "train_batch_size"],
    );
    refused(
        "deepspeed",
        "{\"train_batch_size\": 8}",
        &["--model", "llama3-8b", "-t", "nowhere"],
        &["nowhere"],
    );
    refused("megatron", "--num-layers 'x", &[], &["not closed"]);
    refused("megatron", "", &[], &["file"]);
}

/// A node of four GPUs with an adapter each at its own PCIe switch, and a fifth for storage; written by us in the format.
#[test]
fn a_matrix_of_nvidia_smi_becomes_a_machine() {
    use stepsim::step::spec::nvidia_smi::{NodeRates, machine};
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/imports/nvidia-smi-hgx-h100.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let rates = NodeRates { nvlink_gbps: 25.0, pcie_gbps: 20.0, nic_gbps: 50.0, nodes: 2 };
    let (made, assumed) = machine(&text, "topo.txt", "h100-sxm", &rates).unwrap();
    assert_eq!(made["node"]["devices"], 4);
    assert_eq!(made["node"]["scale_up"]["switch"]["link"]["bandwidth_GBps_per_direction"], 450.0);
    assert_eq!((&made["node"]["nics"]["shared_by"], &made["node"]["nics"]["bundle"]), (&1.into(), &1.into()));
    assert!(assumed.iter().any(|what| what.starts_with("4 network adapters")), "{assumed:?}");
    // Without NVLinks: PCIe; adapters that are near nobody are all of them.
    let pcie = "GPU0 GPU1 mlx5_0\nGPU0 X PHB SYS 0-7\nGPU1 PHB X SYS 0-7\n";
    let (made, _) = machine(pcie, "topo.txt", "a100-sxm-40", &rates).unwrap();
    assert_eq!(made["node"]["scale_up"]["switch"]["link"]["bandwidth_GBps_per_direction"], 20.0);
    assert_eq!(made["node"]["nics"]["shared_by"], 2);
    let one = NodeRates { nodes: 1, ..rates.clone() };
    assert!(machine(pcie, "topo.txt", "h100-sxm", &one).unwrap().0.get("fabric").is_none());
    for (text, part) in [
        ("nothing", "no line that begins with GPU0"),
        ("GPU0 GPU1\nGPU0 X NV4\n", "2 GPUs in its header and 1 rows"),
        ("GPU0 GPU1\nGPU0 X NV4\nGPU1 NV4 NV4\n", "the row of GPU1"),
        ("GPU0 GPU1\nGPU0 X NVX\nGPU1 NV4 X\n", "`NVX`"),
        ("GPU0 GPU1 GPU2\nGPU0 X NV1 NV2\nGPU1 NV1 X NV1\nGPU2 NV2 NV1 X\n", "GPU0 and GPU2 by NV2"),
        ("GPU0 GPU1\nGPU0 X NV4\nGPU1 NV4 X\n", "no network adapter"),
        (
            "GPU0 GPU1 NIC0 NIC1 NIC2\nGPU0 X NV4 SYS SYS SYS\nGPU1 NV4 X SYS SYS SYS\n",
            "3 network adapters for 2 GPUs",
        ),
    ] {
        let error = machine(text, "topo.txt", "h100-sxm", &rates).unwrap_err().to_string();
        assert!(error.contains("topo.txt") && error.contains(part), "{part}: {error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("machine.json");
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_stepsim"))
        .args([
            "import",
            "nvidia-smi",
            "tests/data/imports/nvidia-smi-hgx-h100.txt",
            "--device",
            "h100-sxm",
            "--nodes",
            "2",
            "-o",
        ])
        .arg(&out)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(stepsim::step::topology::Machine::load(out.to_str().unwrap(), &[]).unwrap().1.devices() == 8);
}

/// Whose file it is, is told by its content; the table of another is refused by name, with a command that works.
#[test]
fn files_are_recognised_by_their_content() {
    let mut seen = 0;
    for entry in std::fs::read_dir(file("")).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let formats = FORMATS.iter().map(|(format, _)| *format).filter(|format| name.starts_with(format));
        let Some(format) = formats.max_by_key(|format| format.len()) else { continue };
        let text = std::fs::read_to_string(entry.path()).unwrap();
        assert_eq!(recognise(text.as_bytes()), Some(FileKind::Arguments(format)), "{name}");
        let other = if format == "torchtitan" { "maxtext" } else { "torchtitan" };
        let error = import(other, &text, &name, &Beside::default()).unwrap_err().to_string();
        let words = FileKind::Arguments(format).words();
        assert!(
            error.contains(words) && error.contains(&format!("stepsim import {name}")),
            "{name}: {error}"
        );
        seen += 1;
    }
    assert!(seen > 10, "{seen}");
    let kinds: [(&[u8], Option<FileKind>); 8] = [
        (br#"{"model_type": "llama", "hidden_size": 64}"#, Some(FileKind::HuggingFace)),
        (br#"{"model": "llama3-8b", "batch": {"global": 8}}"#, Some(FileKind::Workload)),
        (br#"{"name": "m", "layers": 2, "hidden": 64}"#, Some(FileKind::Model)),
        (br#"{"device": "h100-sxm", "node": {"devices": 8}}"#, Some(FileKind::Machine)),
        (br#"{"schemaVersion": 1, "traceEvents": []}"#, Some(FileKind::Kineto)),
        (b"0F0,0F1,\n,1F0,1B0", Some(FileKind::TorchSchedule)),
        (b"[project]\nname = \"x\"\n", None),
        (b"to be or not to be", None),
    ];
    for (bytes, kind) in kinds {
        assert_eq!(recognise(bytes), kind, "{}", String::from_utf8_lossy(bytes));
    }
}

/// One recipe of several in a file of Python, by its name.
#[test]
fn a_recipe_of_python_is_read_by_its_name() {
    let text = "def a_pretrain_8gpu_h100_config():\n    cfg = llama3_8b_pretrain_config()\n    \
                cfg.mixed_precision = _perf_precision(\"fp8_cs\")\n    cfg.model.context_parallel_size = 2\n    \
                cfg.train.global_batch_size = 128\n    cfg.train.micro_batch_size = 1\n    return cfg\n\n\
                def b_pretrain_16gpu_h100_config():\n    cfg = llama3_8b_pretrain_config()\n    \
                cfg.train.global_batch_size = 64\n    return cfg\n";
    assert_eq!(recognise(text.as_bytes()), Some(FileKind::Arguments("megatron-bridge")));
    let read = |file: &str| import("megatron-bridge", text, file, &Beside::default());
    let a = read("x.py:a_pretrain_8gpu_h100_config").unwrap().workload;
    assert_eq!(a["model"], json!("llama3-8b"));
    assert_eq!(a["parallelism"]["data"], json!(4));
    assert_eq!(a["precision"]["recipe"], json!("fp8-current"));
    let error = read("x.py").unwrap_err().to_string();
    assert!(error.contains("2 recipes") && error.contains("FILE.py:a_pretrain"), "{error}");
    let error = read("x.py:c").unwrap_err().to_string();
    assert!(error.contains("no function `c`"), "{error}");
}
