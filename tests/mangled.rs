//! Shipped files with values changed at random, through the whole way from the text of a file to a plan: whatever
//! stands in a file, there is a plan or a message, and never a panic.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Value, json};
use stepsim::bring::calculon::{Calculon, FileNames};
use stepsim::bring::hugging_face;
use stepsim::core::ids::RankId;
use stepsim::measure::profile::{ClassTables, Window, read, report};
use stepsim::measure::summary::{RankSummary, beside};
use stepsim::read::analysis::diff::diff;
use stepsim::read::analysis::report::Report;
use stepsim::simulate::{Inputs, Options, Simulation, SimulationError};
use stepsim::spec::{
    Collectives, Device, Kind, ModelSpec, Recipe, Reliability, RulesSpec, SpecError, StackSpec, Topology,
    WorkloadSpec, catalog, from_text, load,
};

/// Steps small enough to plan often, each with machines for it: names of shipped files, or a file itself.
const STEPS: [(&str, &[&str]); 9] = [
    ("tiny-4", &["switch:4,100,2"]),
    ("gpt2-8", &["dgx-a100-8", "mi300x-8", "gaudi3-8", "cxl-pool", "switch:8,450,1", "torus:2x4,90,1"]),
    ("llama3-8b-fsdp", &["h100-superpod-8", "p5en-h200", "p6-b200"]),
    ("llama3-70b-offload", &["h100-superpod-8", "h100-offload", "cxl-pool"]),
    ("llama3-70b", &["h100-superpod-64", "dgx-a100-64", "tpu-v5p-64", "nodes:8*8,450,1,50,3"]),
    ("mixtral-8x7b", &["h100-superpod-64"]),
    (DOCUMENTS_DRAWN, &["switch:4,100,2"]),
    (DOCUMENTS_LISTED, &["switch:8,450,1"]),
    (TWO_SITES, &[SITES]),
];

/// Documents drawn, and dealt so that all ranks have as much to do.
const DOCUMENTS_DRAWN: &str = r#"{"base": "tiny-4", "parallelism": {"pipeline": {"size": 2}, "data": 2}, "documents":
    {"order": "balanced", "drawn": {"median": 300, "sigma": 1.5, "shortest": 8, "longest": 1024, "seed": 1}}}"#;

/// Documents of a list, each cut among the ranks that share a sequence.
const DOCUMENTS_LISTED: &str = r#"{"base": "gpt2-8", "documents": {"lengths": [700, 300, 24, 1000], "order": "sorted",
    "rest": "dropped"}, "parallelism": {"tensor": 1, "context": {"size": 4, "per_document": true}, "data": 2}}"#;

/// One data-parallel group over two sites.
const TWO_SITES: &str =
    r#"{"base": "gpt2-8", "batch": {"global": 64}, "parallelism": {"tensor": 1, "data": 16}}"#;
const SITES: &str = r#"{"base": "h100-superpod", "nodes": 1, "sites": {"count": 2, "join": "full_mesh", "link_km": 4800,
    "us_per_km": 4.9, "link": {"bandwidth_GBps_per_direction": 100, "latency_us": 0, "source": "made up"}}}"#;

/// What a careless hand puts into a file.
fn values() -> impl Strategy<Value = Value> {
    let values = json!([
        null, true, "", "h100-sxm", "host", [], {}, [1], {"switch": {}}, -1, 0, 1, 2, 3, 5, 7, 8, 16, 64, 0.5, 1e-300, 1.5, 1e9,
        4_294_967_295_u32, 4_294_967_296_u64, 9_007_199_254_740_993_u64, u64::MAX, i64::MIN, 1e308, -1e308
    ]);
    select(values.as_array().expect("a list").clone())
}

/// One change: where (of all places in the file), and what happens there.
#[derive(Clone, Debug)]
enum Change {
    Set(Index, Value),
    Remove(Index),
    Copy(Index, Index),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let set = (any::<Index>(), values()).prop_map(|(at, value)| Change::Set(at, value));
    let remove = any::<Index>().prop_map(Change::Remove);
    let copy = (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Change::Copy(from, to));
    prop::collection::vec(prop_oneof![6 => set, 1 => remove, 2 => copy], 0..4)
}

/// JSON pointers of everything below a value.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    let mut inner = |key: &str, value: &Value| {
        let path = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        all.push(path.clone());
        places(value, &path, all);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| inner(key, value)),
        Value::Array(list) => list.iter().enumerate().for_each(|(i, value)| inner(&i.to_string(), value)),
        _ => {}
    }
}

fn mangle(file: &mut Value, changes: &[Change]) {
    for change in changes {
        let mut all = Vec::new();
        places(file, "", &mut all);
        if all.is_empty() {
            return;
        }
        match change {
            Change::Set(at, value) => {
                if let Some(slot) = file.pointer_mut(at.get::<String>(&all)) {
                    *slot = value.clone();
                }
            }
            Change::Copy(from, to) => {
                let value = file.pointer(from.get::<String>(&all)).cloned().unwrap_or_default();
                if let Some(slot) = file.pointer_mut(to.get::<String>(&all)) {
                    *slot = value;
                }
            }
            Change::Remove(at) => {
                let (parent, key) = at.get::<String>(&all).rsplit_once('/').unwrap_or_default();
                if let Some(map) = file.pointer_mut(parent).and_then(Value::as_object_mut) {
                    map.shift_remove(key);
                }
            }
        }
    }
}

/// A shipped file with its base and its references written out, so that changes reach all of it. The fields that a
/// file leaves to their defaults are there too.
fn whole(kind: Kind, name: &str) -> Value {
    fn of<T: stepsim::spec::Spec + serde::Serialize>(name: &str) -> Value {
        let inline = name.starts_with('{');
        let loaded =
            if inline { from_text::<T>(name, "inline", &[], &BTreeMap::new()) } else { load::<T>(name, &[]) };
        serde_json::to_value(loaded.expect("a sound file").value).expect("JSON")
    }
    match kind {
        Kind::Topology => of::<Topology>(name),
        _ => of::<WorkloadSpec>(name),
    }
}

/// The name of a shipped file, or the path of one written here.
fn place(folder: &tempfile::TempDir, file: &str) -> String {
    if !file.starts_with('{') {
        return file.to_string();
    }
    let path = folder.path().join("unchanged.json");
    std::fs::write(&path, file).expect("a file");
    path.to_str().expect("UTF-8").to_string()
}

/// Whether planning and playing it takes a moment only.
fn is_small(inputs: &Inputs) -> bool {
    let devices = u64::from(inputs.machine.devices());
    let workload = &inputs.workload.value;
    let passes = workload.micro_batches(devices).saturating_mul(inputs.model.layers);
    let chunks = workload.parallelism.pipeline.chunks.unwrap_or(1);
    passes.saturating_mul(devices) < 40_000 && chunks < 100
}

/// Devices of a machine file; as many as can be where it is wrong.
fn devices(topology: &str) -> u64 {
    let of = |t: Topology| match (&t.node, &t.graph) {
        (Some(node), _) => u64::from(node.size()).saturating_mul(t.total_nodes()),
        _ => 1,
    };
    load::<Topology>(topology, &[]).map_or(0, |loaded| of(loaded.value))
}

/// What a message must have: text, no more than a screen of it, and nothing of the inside of the program.
fn check_message(text: &str) -> Result<(), TestCaseError> {
    prop_assert!(!text.trim().is_empty());
    prop_assert!(text.len() < 20_000, "{} bytes of message", text.len());
    for inside in ["unwrap", "panicked", "Some(", "RankId(", "DeviceId(", ".rs:"] {
        prop_assert!(!text.contains(inside), "{text}");
    }
    Ok(())
}

/// A case that hangs would hang the tests: it is named, and ends them.
fn in_time<T: Send + 'static>(what: &str, case: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || done.send(case()));
    match result.recv_timeout(std::time::Duration::from_secs(120)) {
        Ok(value) => value,
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => unreachable!("a worker that ends has sent its result or has panicked"),
        },
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
            eprintln!("no end after 120 s: {what}");
            std::process::abort();
        }
    }
}

fn to_the_end(workload: &str, topology: &str) -> Result<(), TestCaseError> {
    let text = std::fs::read_to_string(workload).unwrap_or_else(|_| workload.to_string());
    let (workload, topology) = (workload.to_string(), topology.to_string());
    in_time(&format!("{topology} with {text}"), move || step_of(&workload, &topology))
}

fn step_of(workload: &str, topology: &str) -> Result<(), TestCaseError> {
    let inputs: Result<Inputs, SpecError> = Inputs::load(workload, Some(topology), &[]);
    match inputs {
        Err(e) => check_message(&e.to_string()),
        Ok(inputs) if !is_small(&inputs) => Ok(()),
        Ok(inputs) => match Simulation::run(&inputs, &Options::default()) {
            Err(SimulationError::Engine(e)) => check_message(&e.to_string()),
            Err(e) => check_message(&e.to_string()),
            Ok(run) => {
                let report = run.report(false);
                prop_assert!(report.step_time_s.is_finite() && report.mfu.is_finite());
                let _ = run.plan.rank_name(RankId(0));
                Ok(())
            }
        },
    }
}

/// Every other kind of file: its message, if it is refused.
fn refused(kind: Kind, name: &str, file: &Value) -> Option<String> {
    fn of<T: stepsim::spec::Spec>(file: &Value) -> Option<String> {
        from_text::<T>(&file.to_string(), "mangled", &[], &BTreeMap::new()).err().map(|e| e.to_string())
    }
    match kind {
        Kind::Device => of::<Device>(file),
        // What a model costs is found out with it.
        Kind::Model => of::<ModelSpec>(file).or_else(|| {
            let workload = json!({"base": "gpt2-8", "model": file});
            let inputs = Inputs::from_json(&workload.to_string(), None, &[], &BTreeMap::new());
            match inputs.as_ref().map(|inputs| is_small(inputs).then(|| inputs.plan())) {
                Err(e) => Some(e.to_string()),
                Ok(Some(Err(e))) => Some(e.to_string()),
                Ok(_) => None,
            }
        }),
        Kind::Stack => of::<StackSpec>(file),
        Kind::Recipe => of::<Recipe>(file),
        Kind::Collectives => of::<Collectives>(file),
        Kind::Rules => of::<RulesSpec>(file),
        Kind::Reliability => of::<Reliability>(file),
        kind => unreachable!("{name} of {kind:?} has tests of its own, or none yet"),
    }
}

const OTHERS: [(Kind, &str); 15] = [
    (Kind::Device, "h100-sxm"),
    (Kind::Device, "tpu-v5p"),
    (Kind::Device, "mi300x"),
    (Kind::Model, "gpt2-1.5b"),
    (Kind::Model, "mixtral-8x7b"),
    (Kind::Model, "deepseek-v3"),
    (Kind::Model, "gemma-3-27b"),
    (Kind::Stack, "megatron-2021"),
    (Kind::Stack, "fsdp2-compiled"),
    (Kind::Recipe, "deepseek"),
    (Kind::Recipe, "nvfp4"),
    (Kind::Collectives, "h200-measured"),
    (Kind::Rules, "columns"),
    (Kind::Rules, "simumax-b200"),
    (Kind::Reliability, "llama3-h100"),
];

/// Files that a workload names: an order of passes, a map of ranks, counts of tokens by expert.
fn attached(index: usize) -> (Value, &'static str) {
    match index {
        0 => (
            json!([["F0", "F1", "B0", "B1"], ["F0", "B0", "F1", "B1"]]),
            r#"{"base": "tiny-4", "parallelism": {"pipeline": {"schedule": "file", "order_file": "it.json"}}}"#,
        ),
        1 => (json!([3, 2, 1, 0]), r#"{"base": "tiny-4", "parallelism": {"rank_map": "it.json"}}"#),
        _ => (
            json!([[5, 1, 2, 8, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1]]),
            r#"{"base": "mixtral-8x7b", "expert_load": {"balance": "file", "counts_file": "it.json"}}"#,
        ),
    }
}

/// What is mangled is sound before, so that a refusal is of the change; and nearly all of it is played.
#[test]
fn every_step_runs_as_it_is() {
    let mut played = 0;
    for (name, machines) in STEPS {
        for machine in machines {
            let workload = whole(Kind::Workload, name).to_string();
            let inputs = Inputs::from_json(&workload, Some(machine), &[], &BTreeMap::new());
            let inputs = inputs.unwrap_or_else(|e| panic!("{name} on {machine}: {e}"));
            if is_small(&inputs) {
                Simulation::run(&inputs, &Options::default())
                    .unwrap_or_else(|e| panic!("{name} on {machine}: {e}"));
                played += 1;
            }
        }
    }
    assert!(played >= 15, "{played} are small enough");
}

/// Checks that walk the layers must not walk what is refused.
#[test]
fn more_layers_than_can_be_counted_are_refused_at_once() {
    let model = whole(Kind::Workload, "gpt2-8")["model"].clone();
    let mut file = json!({"base": "gpt2-8", "model": model});
    file["model"]["layers"] = json!(u64::MAX);
    let text = file.to_string();
    let refused = in_time(&text, {
        let text = text.clone();
        move || Inputs::from_json(&text, None, &[], &BTreeMap::new()).err().map(|e| e.to_string())
    });
    let message = refused.expect("an error");
    assert!(message.contains("model.layers") && message.contains("100000"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        max_shrink_iters: 200,
        cases: ProptestConfig::default().cases / if crate::slow::slow() { 1 } else { 4 },
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_mangled_workload_gives_a_message_or_a_step(
        (step, machine) in (0..STEPS.len(), any::<Index>()),
        changes in changes(),
    ) {
        let (name, machines) = STEPS[step];
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("mangled.json");
        let mut file = whole(Kind::Workload, name);
        mangle(&mut file, &changes);
        std::fs::write(&path, file.to_string()).expect("a file");
        to_the_end(path.to_str().expect("UTF-8"), &place(&folder, machine.get::<&str>(machines)))?;
    }

    #[test]
    fn a_mangled_machine_gives_a_message_or_a_step(
        (step, machine) in (0..STEPS.len(), any::<Index>()),
        changes in changes(),
    ) {
        let (name, machines) = STEPS[step];
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("mangled.json");
        let mut file = whole(Kind::Topology, machine.get::<&str>(machines));
        mangle(&mut file, &changes);
        std::fs::write(&path, file.to_string()).expect("a file");
        let path = path.to_str().expect("UTF-8");
        prop_assume!(devices(path) <= 4096);
        to_the_end(&place(&folder, name), path)?;
    }

    /// The text itself cut, doubled or changed in one place.
    #[test]
    fn a_mangled_text_gives_a_message_or_a_step(
        step in 0..STEPS.len(),
        at in any::<Index>(),
        what in select(vec!["", "{", "}", "[", "\"", ",", ":", "0", "-", "e9", "NaN", "\u{0}", "é", "//", "null"]),
        cut in any::<bool>(),
    ) {
        let name = STEPS[step].0;
        let text = if name.starts_with('{') { name } else { catalog::text(Kind::Workload, name).expect("a shipped file") };
        let at = at.index(text.len());
        prop_assume!(text.is_char_boundary(at));
        let rest = if cut { "" } else { &text[at..] };
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("mangled.json");
        std::fs::write(&path, format!("{}{what}{rest}", &text[..at])).expect("a file");
        to_the_end(path.to_str().expect("UTF-8"), &place(&folder, STEPS[step].1[0]))?;
    }

    #[test]
    fn any_mangled_file_gives_a_message_or_a_value(
        (kind, name) in select(OTHERS.to_vec()),
        changes in changes(),
    ) {
        let text = catalog::text(kind, name).expect("a shipped file");
        let mut file: Value = serde_json::from_str(text).expect("JSON");
        mangle(&mut file, &changes);
        let text = file.to_string();
        if let Some(message) = in_time(&text, move || refused(kind, name, &file)) {
            prop_assert!(!changes.is_empty(), "{name} is refused as it is: {message}");
            check_message(&message)?;
        }
    }

    #[test]
    fn a_mangled_attachment_gives_a_message_or_a_plan(which in 0..3usize, changes in changes()) {
        let (mut file, workload) = attached(which);
        mangle(&mut file, &changes);
        let files = BTreeMap::from([("it.json".to_string(), file.to_string())]);
        let unchanged = changes.is_empty();
        in_time(&file.to_string(), move || match Inputs::from_json(workload, None, &[], &files) {
            Err(e) => {
                prop_assert!(!unchanged, "{which} is refused as it is: {e}");
                check_message(&e.to_string())
            }
            Ok(inputs) => match Simulation::run(&inputs, &Options::default()) {
                Err(e) => check_message(&e.to_string()),
                Ok(_) => Ok(()),
            },
        })?;
    }

    #[test]
    fn a_mangled_config_of_hugging_face_gives_a_message_or_a_model(
        model in select(vec!["llama", "mixtral", "qwen3_moe", "gpt_neox", "gemma2"]),
        changes in changes(),
    ) {
        let mut file = json!({
            "model_type": model, "hidden_size": 512, "intermediate_size": 1024,
            "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 1000,
            "max_position_embeddings": 2048, "tie_word_embeddings": false, "head_dim": 64
        });
        let experts = match model {
            "mixtral" => json!({"num_local_experts": 8, "num_experts_per_tok": 2}),
            "qwen3_moe" => json!({"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 256}),
            _ => json!({}),
        };
        file.as_object_mut().unwrap().extend(experts.as_object().unwrap().clone());
        mangle(&mut file, &changes);
        let text = file.to_string();
        if let Err(e) = in_time(&text, move || hugging_face::model(&file, "config.json")) {
            prop_assert!(!changes.is_empty(), "{model} is refused as it is: {e}");
            check_message(&e.to_string())?;
        }
    }

    #[test]
    fn a_mangled_file_of_calculon_gives_a_message_or_a_step(which in 0..3usize, changes in changes()) {
        let mut files = ["gpt3-175b", "tp8-pp8-dp16", "h100-nvlink8"].map(|name| {
            let path = format!("{}/examples/calculon/{name}.json", env!("CARGO_MANIFEST_DIR"));
            serde_json::from_str::<Value>(&std::fs::read_to_string(path).expect("a file")).expect("JSON")
        });
        mangle(&mut files[which], &changes);
        let [app, exe, sys] = files.each_ref().map(Value::to_string);
        let case = Calculon::parse(FileNames::default(), &app, &exe, &sys);
        let refused = case.and_then(|case| case.to_topology().and_then(|_| case.to_workload("topology.json")));
        if let Err(e) = refused {
            prop_assert!(!changes.is_empty(), "the files are refused as they are: {e}");
            check_message(&e.to_string())?;
        }
    }

    #[test]
    fn a_mangled_profile_gives_a_message_or_readings(changes in changes(), cut in any::<Index>(), whole in any::<bool>()) {
        let event = |name: &str, cat: &str, tid: u32, ts: f64, dur: f64| json!({
            "ph": "X", "name": name, "cat": cat, "pid": 0, "tid": tid, "ts": ts, "dur": dur,
            "args": {"stream": tid, "correlation": ts as u64, "External id": 1, "device": 0}
        });
        let mut file = json!({"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": [
            event("ProfilerStep#1", "user_annotation", 1, 0.0, 100.0),
            event("cudaLaunchKernel", "cuda_runtime", 1, 5.0, 2.0),
            event("sm90_xmma_gemm_bf16", "kernel", 7, 8.0, 20.0),
            event("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "kernel", 20, 20.0, 30.0),
        ]});
        mangle(&mut file, &changes);
        let mut text = file.to_string();
        if !whole {
            text.truncate(cut.index(text.len()));
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rank0.json");
        std::fs::write(&path, text).expect("a file");
        let mut profiles = match read(&path, &ClassTables::shipped()) {
            Ok(profiles) => profiles,
            Err(e) => {
                prop_assert!(!changes.is_empty() || !whole, "the profile is refused as it is: {e}");
                return check_message(&e.to_string());
            }
        };
        // What is read of it is consistent.
        for rank in report(&mut profiles, Window::All).ranks {
            let b = &rank.ns.all;
            prop_assert!(b.busy + b.idle == b.window && b.comm_hidden + b.comm_exposed == b.comm);
            prop_assert!(b.compute <= b.busy && b.comm <= b.busy && b.mem <= b.busy);
            let idle: f64 = rank.idle_s.values().sum();
            prop_assert!((idle * 1e9 - b.idle as f64).abs() <= 1.0 + 1e-9 * b.idle as f64);
        }
    }

    #[test]
    fn a_mangled_report_gives_a_message_or_a_difference(which in 0..2usize, changes in changes()) {
        static REPORT: LazyLock<Value> = LazyLock::new(|| {
            let inputs = Inputs::load("tiny-4", None, &[]).expect("a shipped file");
            let run = Simulation::run(&inputs, &Options::default()).expect("a step");
            serde_json::to_value(run.report(false)).expect("JSON")
        });
        let mut files = [REPORT.clone(), REPORT.clone()];
        mangle(&mut files[which], &changes);
        let text = files[which].to_string();
        in_time(&text, move || {
            let [a, b] = files.map(serde_json::from_value::<Report>);
            match (a, b) {
                (Ok(a), Ok(b)) => {
                    prop_assert!(diff(&a, &b).iter().all(|line| !line.section.is_empty()));
                    prop_assert!(!beside(&RankSummary::from(&a), &RankSummary::from(&b)).is_empty());
                    let _ = a.run.differences(&b.run);
                    Ok(())
                }
                (Err(e), _) | (_, Err(e)) => {
                    prop_assert!(!changes.is_empty(), "the report is refused as it is: {e}");
                    check_message(&e.to_string())
                }
            }
        })?;
    }
}
