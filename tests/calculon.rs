//! Calculon's goldens simulated: with its assumptions within 0.5 % of its total, and every picosecond of the difference
//! to a real step named.

use serde_json::Value;
use stepsim::core::units::Time;
use stepsim::form::calculon::closed_form::{Quirks, estimate};
use stepsim::form::calculon::compare::compare;
use stepsim::form::calculon::files::{Application, Calculon, Execution, FileNames, System};
use stepsim::form::calculon::simulate::{CalculonRun, Choices};
use stepsim::form::compare::Difference;
use stepsim::simulate::{Inputs, Options, Simulation};

/// The goldens by name.
fn goldens() -> Vec<(String, Calculon)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/calculon.json");
    let goldens: Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("readable goldens")).expect("JSON");
    let case = |case: &Value| {
        let of = |table: &str, key: &str| goldens[table][case[key].as_str().expect("a name")].clone();
        let inputs = Calculon::new(
            FileNames::default(),
            serde_json::from_value(of("applications", "application")).expect("an application"),
            serde_json::from_value(case["execution"].clone()).expect("an execution"),
            serde_json::from_value(of("systems", "system")).expect("a system"),
        );
        (case["name"].as_str().expect("a name").to_string(), inputs.expect("a valid golden"))
    };
    let cases: Vec<(String, Calculon)> =
        goldens["cases"].as_array().expect("cases").iter().map(case).collect();
    assert_eq!(cases.len(), 14);
    cases
}

/// No step computes more than its devices can, nor more than the model and one more forward pass.
#[test]
fn utilisations_of_every_golden_are_possible() {
    for (name, case) in goldens() {
        let report = CalculonRun::new(&case, &Choices::COMPATIBLE).expect("a run").report(&case);
        assert!(report.hfu <= 1.0, "{name}: HFU {}", report.hfu);
        let (mfu, hfu) = (report.mfu, report.hfu);
        assert!(mfu <= hfu && hfu / mfu <= 4.0 / 3.0 + 1e-4, "{name}: MFU {mfu}, HFU {hfu}");
    }
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

#[test]
fn effects_and_rest_add_up_exactly() {
    for (name, case) in goldens().into_iter().filter(|g| g.1.exe().pipeline_par <= 8) {
        let (comparison, run) = compare(&case).expect("a comparison");
        let closed = Time::from_s(estimate(&case, Quirks::AS_PUBLISHED).terms.total());
        let of = |all: &[Difference]| all.iter().map(|d| d.picoseconds).sum::<i64>();
        let switched = of(&comparison.own_error.terms) + of(&comparison.effects);
        let difference = run.record.step_end.0 as i64 - closed.0 as i64;
        assert_eq!(switched + comparison.rest.picoseconds, difference, "{name}");
        assert_eq!(comparison.sum_picoseconds, difference, "{name}");
        let simulated: f64 = comparison.terms.iter().map(|t| t.simulated_s).sum();
        assert!((simulated / comparison.simulated_s - 1.0).abs() < 1e-9, "{name}: terms of the simulation");
        let closed: f64 = comparison.terms.iter().map(|t| t.closed_form_s).sum();
        assert!((closed / comparison.closed_form_s - 1.0).abs() < 1e-9, "{name}: terms of the closed form");
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
    let app: Application = serde_json::from_str(app).expect("an application");
    let sys: System = serde_json::from_str(&sys).expect("a system");
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
    let exe: Execution = serde_json::from_value(all).expect("an execution");
    Calculon::new(Default::default(), app, exe, sys).expect("a valid case")
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
fn what_no_order_runs_is_refused_with_a_way_out() {
    let case = case(r#"{"pipeline_interleaving": 2, "batch_size": 2}"#);
    let error = CalculonRun::new(&case, &Choices::REAL).expect_err("two micro-batches on four stages");
    let text = error.to_string();
    assert!(
        text.starts_with("execution: cannot be simulated: schedule interleaved-1f1b: 2 micro-batches"),
        "{text}"
    );
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
    assert!(text.contains("training") && text.contains("stepsim run --calculon"), "{text}");
}
