//! Calculon (calculon-ai/calculon, SC'23) as an oracle: its goldens in closed form to the last digit, the same step as
//! events within 0.5 % of its total, and its files imported.
//!
//! Nothing of the program knows its arithmetic: it stands here, made of public items alone.

mod closed_form;
mod files;
mod plan;
mod simulate;

use serde_json::Value;
use stepsim::bring::calculon::{Application, Calculon, Engine, Execution, FileNames, NetworkTier, System};
use stepsim::simulate::{Inputs, Options, Simulation};

use closed_form::{Quirks, estimate};
use simulate::{CalculonRun, Choices};

/// The parts of a case, and its sizes.
trait CalculonCase {
    fn app(&self) -> &Application;
    fn exe(&self) -> &Execution;
    fn sys(&self) -> &System;
    /// The matrix and the vector engine of the execution's number format.
    fn engines(&self) -> (&Engine, &Engine) {
        let key = self.exe().datatype.key();
        (&self.sys().matrix[key], &self.sys().vector[key])
    }
    /// The networks of tensor, pipeline and data parallelism.
    fn networks(&self) -> [&NetworkTier; 3] {
        let e = self.exe();
        [e.tensor_par_net, e.pipeline_par_net, e.data_par_net].map(|i| &self.sys().networks[i as usize])
    }
    /// Blocks per processor, n = ⌈N / p⌉.
    fn blocks_per_proc(&self) -> u64 {
        self.app().num_blocks.div_ceil(self.exe().pipeline_par)
    }
    /// Micro-batches of a step on one pipeline, M = B / (d·b).
    fn microbatches(&self) -> u64 {
        self.exe().batch_size / self.exe().data_par / self.exe().microbatch_size
    }
}

impl CalculonCase for Calculon {
    fn app(&self) -> &Application {
        &self.app
    }
    fn exe(&self) -> &Execution {
        &self.exe
    }
    fn sys(&self) -> &System {
        &self.sys
    }
}

/// The goldens by name.
fn goldens() -> Vec<(String, Calculon)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/calculon.json");
    let goldens: Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("readable goldens")).expect("JSON");
    let case = |case: &Value| {
        let of = |table: &str, key: &str| goldens[table][case[key].as_str().expect("a name")].to_string();
        let [app, sys] = [of("applications", "application"), of("systems", "system")];
        let inputs = Calculon::parse(FileNames::default(), &app, &case["execution"].to_string(), &sys);
        (case["name"].as_str().expect("a name").to_string(), inputs.expect("a valid golden"))
    };
    let cases: Vec<(String, Calculon)> =
        goldens["cases"].as_array().expect("cases").iter().map(case).collect();
    assert_eq!(cases.len(), 14);
    cases
}

/// Whether p divides micro-batches and blocks, so that the closed form of the pipeline is meant to be exact.
fn even(case: &Calculon) -> bool {
    let p = case.exe().pipeline_par;
    case.microbatches().is_multiple_of(p) && case.app().num_blocks.is_multiple_of(p)
}

fn seconds(case: &Calculon, choices: &Choices) -> f64 {
    CalculonRun::new(case, choices).expect("a run").seconds()
}

#[test]
fn with_its_assumptions_the_simulation_has_its_total() {
    for (name, case) in goldens().into_iter().filter(|golden| even(&golden.1)) {
        let total = estimate(&case, Quirks::AS_PUBLISHED).terms.total();
        let off = seconds(&case, &Choices::COMPATIBLE) / total - 1.0;
        assert!(off.abs() < 0.005, "{name}: {:+.3} %", 100.0 * off);
        // The remainder is one thing: the first and the last stage send in one direction only. Times are rounded to
        // picoseconds, each of a few thousand passes on the longest chain; an inference bubble counts a backward
        // latency that nobody pays.
        let off = seconds(&case, &Choices { ends_send: true, ..Choices::COMPATIBLE }) / total - 1.0;
        let bound = if case.exe().training { 1e-8 } else { 5e-5 };
        assert!(off.abs() < bound, "{name}: {off:e}");
    }
}

/// The event simulation of the restatement (§3, its table): without data-parallel and offload time.
#[test]
fn pipelines_agree_with_an_independent_simulation() {
    let expected = [
        ("d03", -0.31, -4.41),
        ("d04", -0.08, -2.17),
        ("d05", -0.00, -0.02),
        ("d06", -0.41, -6.08),
        ("d08", -0.09, -2.32),
        ("d09", -0.06, -0.95),
        ("d12", -0.26, -0.90),
    ];
    for (name, case) in goldens() {
        let Some(&(_, blocking, free)) = expected.iter().find(|e| name.starts_with(e.0)) else { continue };
        let terms = estimate(&case, Quirks::AS_PUBLISHED).terms;
        let total = terms.total() - terms.optimizer - terms.data_parallel;
        let percent = |choices: &Choices| {
            100.0 * (seconds(&case, choices) - terms.optimizer - terms.data_parallel - total) / total
        };
        let measured = percent(&Choices::COMPATIBLE);
        assert!((measured - blocking).abs() < 0.006, "{name}: blocking {measured:.4} %");
        let measured = percent(&Choices { blocking: false, ..Choices::COMPATIBLE });
        assert!((measured - free).abs() < 0.06, "{name}: asynchronous {measured:.4} %");
    }
}

fn case(exe: &str) -> Calculon {
    let app = r#"{"hidden": 1024, "feedforward": 4096, "seq_size": 512, "attn_heads": 16, "attn_size": 64,
                  "num_blocks": 8}"#;
    let engine = r#"{"float16": {"tflops": 100, "gflops_efficiency": [[0, 0.5]]}}"#;
    let memory = r#"{"GiB": 80, "GBps": 1000, "MB_efficiency": [[0, 0.8]]}"#;
    let network = r#"{"bandwidth": 100, "efficiency": 0.8, "size": 64, "latency": 1e-5, "must_be_filled": false,
        "processor_usage": 0.1, "ops": {"p2p": [1.0, null], "reduce_scatter": [1.0, -1], "all_gather": [1.0, -1],
        "all_reduce": [2.0, -1]}}"#;
    let sys = format!(
        r#"{{"matrix": {engine}, "vector": {engine}, "mem1": {memory}, "mem2": {memory},
             "processing_mode": "no_overlap", "networks": [{network}]}}"#
    );
    let mut all: serde_json::Value = serde_json::from_str(
        r#"{"num_procs": 4, "tensor_par": 1, "pipeline_par": 4, "data_par": 1, "tensor_par_net": 0,
            "pipeline_par_net": 0, "data_par_net": 0, "batch_size": 8, "microbatch_size": 1, "datatype": "float16",
            "fused_activation": true, "attention_type": "multihead", "activation_recompute": "none",
            "pipeline_interleaving": 1, "optimizer_sharding": false, "tensor_par_comm_type": "ar",
            "tensor_par_overlap": "none", "seq_par_ag_redo": false, "data_par_overlap": false,
            "weight_offload": false, "activations_offload": false, "optimizer_offload": false, "training": true}"#,
    )
    .expect("an execution");
    let changes: serde_json::Value = serde_json::from_str(exe).expect("changes");
    for (key, value) in changes.as_object().expect("an object") {
        all[key] = value.clone();
    }
    Calculon::parse(Default::default(), app, &all.to_string(), &sys).expect("a valid case")
}

/// 1F1B with asynchronous sends: (m + p − 1)(tF + tB) + c(2(p − 1)m/p + 2(p − 2)) (schedules.md §3).
#[test]
fn asynchronous_transfers_cost_what_the_latency_law_says() {
    let case = case("{}");
    let choices = Choices { blocking: false, quirks: Quirks::REPAIRED, ..Choices::COMPATIBLE };
    let run = CalculonRun::new(&case, &choices).expect("a run");
    let pipeline = &run.estimate.pipeline;
    let c = pipeline.forward_p2p;
    let (p, m) = (4.0, 8.0);
    let pass = pipeline.chunk_forward() + pipeline.chunk_backward() - 2.0 * c;
    assert!(c < 0.1 * pass, "the law is for short transfers");
    let law = (m + p - 1.0) * pass + c * (2.0 * (p - 1.0) * m / p + 2.0 * (p - 2.0));
    let simulated = run.seconds() - run.estimate.terms.optimizer;
    assert!((simulated / law - 1.0).abs() < 1e-8, "{simulated} against {law}");
}

/// Data-parallel time can hide behind at most all of the backward pass: the step lies between the two extremes.
#[test]
fn overlapped_reductions_end_between_none_and_all_exposed() {
    let changes = r#"{"num_procs": 8, "pipeline_par": 2, "data_par": 4, "data_par_overlap": true}"#;
    let case = case(changes);
    let choices = Choices { quirks: Quirks::REPAIRED, data_in_closed_form: false, ..Choices::COMPATIBLE };
    let run = CalculonRun::new(&case, &choices).expect("a run");
    let hidden = CalculonRun::new(&case, &Choices { data_in_closed_form: true, ..choices }).expect("a run");
    let link = run.estimate.data_parallel.link_time;
    let alone = hidden.seconds() - run.estimate.data_parallel.exposed_time;
    // After the last backward pass: the last block's reduction, then its optimizer step.
    let tail = run.estimate.data_parallel.block_time + run.estimate.block.optimizer.time;
    let least = alone - run.estimate.terms.optimizer + tail;
    assert!(run.seconds() > least * (1.0 - 1e-8), "the last block is exposed");
    assert!(run.seconds() < alone + link, "some of it hides");
}

#[test]
fn what_no_order_runs_is_refused() {
    let case = case(r#"{"pipeline_interleaving": 2, "batch_size": 2}"#);
    let error = CalculonRun::new(&case, &Choices::REAL).expect_err("two micro-batches on four stages");
    let text = error.to_string();
    assert!(text.starts_with("schedule interleaved-1f1b: 2 micro-batches"), "{text}");
}

/// Written as our own files, a step loads and runs, and its kernels take about as long as Calculon says.
#[test]
fn imported_files_load_and_run() {
    let case = case(r#"{"num_procs": 8, "pipeline_par": 2, "data_par": 4, "weight_offload": true}"#);
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: String| {
        let path = folder.path().join(name).display().to_string();
        std::fs::write(&path, text).expect("a file");
        path
    };
    let topology = case.to_topology().expect("a topology");
    let topology = write("topology.json", serde_json::to_string(&topology).expect("JSON"));
    let workload = case.to_workload(&topology).expect("a workload");
    let workload = write("workload.json", serde_json::to_string(&workload).expect("JSON"));
    let sets = ["model.vocabulary=1".to_string()];
    let inputs = Inputs::load(&workload, None, &sets).expect("files that load");
    assert_eq!(inputs.machine.devices(), 8);
    let run = Simulation::run(&inputs, &Options::default()).expect("a run");
    let theirs = estimate(&case, Quirks::REPAIRED).terms.total();
    let ratio = run.record.step_end.s() / theirs;
    assert!((0.5..2.0).contains(&ratio), "{ratio} times the closed form");
}

#[test]
fn an_inference_pass_is_not_imported() {
    let error = case(r#"{"training": false}"#).to_workload("topology.json").expect_err("no training step");
    let text = error.to_string();
    assert!(text.contains("training") && text.contains("inference"), "{text}");
}
