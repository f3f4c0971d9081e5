//! Sharded products: the plans and least times of another program's rules, and runs that meet them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use stepsim::collective::Chooser;
use stepsim::matmul::{Played, ShardedProduct, Statement, plans};
use stepsim::topology::{Machine, Mesh};

fn golden() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/matmul.json");
    let value: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    value["planned"].as_array().unwrap().clone()
}

fn close(a: f64, b: f64, to: f64, what: &str) {
    assert!((a - b).abs() <= to * b.abs(), "{what}: {a}, expected {b}");
}

fn machine(case: &Value) -> Machine {
    let mut sets = vec![format!("device={}", case["device"].as_str().unwrap())];
    if case["lines"] == true {
        sets.push("node.scale_up.torus.wrap=never".into());
    }
    Machine::load(case["topology"].as_str().unwrap(), &sets).unwrap().1
}

fn plan(case: &Value, mesh: &Mesh) -> ShardedProduct {
    let statement = Statement::parse(case["statement"].as_str().unwrap(), &mesh.axes()).unwrap();
    let sizes: BTreeMap<String, u64> = serde_json::from_value(case["size"].clone()).unwrap();
    let all = plans(&statement, &sizes, &mesh.0, 2.0).unwrap();
    let named = all.into_iter().find(|p| p.strategy.name() == case["strategy"]);
    named.unwrap_or_else(|| panic!("{case}: no plan of this strategy"))
}

#[test]
fn products_have_the_golden_collectives_and_times() {
    let cases = golden();
    assert_eq!(cases.len(), 25);
    for case in &cases {
        let what = format!("{} by {}", case["statement"], case["strategy"]);
        let machine = machine(case);
        let mesh = Mesh::of(&machine);
        let plan = plan(case, &mesh);
        let compute = plan.flops
            / machine.device(stepsim::ids::DeviceId(0)).peak(stepsim::spec::Dtype::Bf16).unwrap().0;
        close(plan.flops, case["flops"].as_f64().unwrap(), 1e-12, &what);
        close(1e6 * compute, case["compute_us"].as_f64().unwrap(), 1e-5, &what);
        let played = Played::run(&plan, &mesh, &machine, &Chooser::best(), compute).unwrap();
        let wanted = case["steps"].as_array().unwrap();
        assert_eq!(played.steps.len(), wanted.len(), "{what}: {:?}", plan.steps().collect::<Vec<_>>());
        let mut sum = 0.0;
        for (step, wanted) in played.steps.iter().zip(wanted) {
            assert_eq!(step.step.op.name(), wanted["op"], "{what}");
            assert_eq!(step.step.array, wanted["array"].as_str().unwrap(), "{what}");
            assert_eq!(step.step.axes.iter().collect::<String>(), wanted["axes"].as_str().unwrap(), "{what}");
            assert_eq!(step.step.bytes, wanted["bytes"].as_u64().unwrap(), "{what}");
            close(1e6 * step.bound.bandwidth_s, wanted["time_us"].as_f64().unwrap(), 1e-5, &what);
            close(1e6 * step.bound.latency_s, wanted["latency_us"].as_f64().unwrap(), 1e-5, &what);
            sum += step.bound.time_s();
            // The rule counts V bytes to receive, of which a chip holds 1/n itself.
            let ran = (step.span.1 - step.span.0).s();
            let n = f64::from(step.geometry.size);
            assert!(ran >= step.bound.bandwidth_s * (1.0 - 1.0 / n) - 1e-9, "{what}: {ran} {:?}", step.bound);
            let most = 1.3 * step.bound.bandwidth_s + 2.0 * step.bound.latency_s + 1e-9;
            assert!(ran <= most, "{what}: {ran} {:?} {:?}", step.bound, step.algorithms);
        }
        close(1e6 * sum, case["communication_us"].as_f64().unwrap(), 1e-5, &what);
        let end = played.record.step_end.s();
        let parts: f64 = played.steps.iter().map(|s| (s.span.1 - s.span.0).s()).sum::<f64>() + compute;
        close(end, parts, 1e-7, &what);
    }
}

/// The gradient of a gather is a scatter: FSDP's weights.
#[test]
fn gradients_of_gathers_are_scatters() {
    let statement = Statement::parse("A[B_X,D]·W[D_X,F] -> C[B_X,F]", &['X']).unwrap();
    let [da, dw] = statement.gradients();
    assert_eq!(da.to_string(), "dC[B_X,F] W[D_X,F] -> dA[B_X,D]");
    assert_eq!(dw.to_string(), "A[B_X,D] dC[B_X,F] -> dW[D_X,F]");
    let sizes = [("B", 1024), ("D", 64), ("F", 256)].map(|(n, s)| (n.to_string(), s)).into();
    let ops = |s: &Statement| -> Vec<String> {
        let plan = &plans(s, &sizes, &[('X', 4)], 2.0).unwrap()[0];
        plan.steps().map(|s| format!("{} {}", s.op.name(), s.array)).collect()
    };
    assert_eq!(ops(&statement), ["all-gather W"]);
    assert_eq!(ops(&da), ["all-gather W"]);
    assert_eq!(ops(&dw), ["reduce-scatter dW"]);
}

fn stepsim(args: &[&str]) -> (i32, String, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_stepsim")).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
}

#[test]
fn the_command_shows_both_ways_and_draws_the_better() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("product.json");
    let report = folder.path().join("report.json");
    let (status, out, error) = stepsim(&[
        "matmul",
        "A[B,D] B[D_X,F] -> C[B,F]",
        "-t",
        "torus:4,90,1",
        "--set",
        "device=tpu-v5p",
        "--size",
        "B=512,D=8192,F=32768",
        "-o",
        file.to_str().unwrap(),
        "--report",
        report.to_str().unwrap(),
    ]);
    assert_eq!(status, 0, "{error}");
    let (reduce, gather) = (out.find("by reduce"), out.find("by gather"));
    assert!(reduce.is_some() && reduce < gather, "{out}");
    assert!(out.contains("all-reduce C over X") && out.contains("bound by communication"), "{out}");
    let trace = std::fs::read_to_string(file).unwrap();
    assert!(trace.contains("all-reduce C over X") && trace.contains("product"));
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    close(report[0]["ways"][0]["communication_s"].as_f64().unwrap(), 372.827e-6, 1e-5, "all-reduce");
    let (status, out, error) = stepsim(&[
        "matmul",
        "A[B_Y,D] W[D,F_X] -> C[B_Y,F_X]",
        "-t",
        "h100-superpod-64",
        "--gradients",
        "--size",
        "B=65536,D=8192,F=28672",
        "--report",
        "-",
    ]);
    assert_eq!(status, 0, "{error}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report[1]["ways"][0]["collectives"][0]["op"], "all-reduce");
    assert!(report[0]["ways"][0]["memory_s"].as_f64().unwrap() > 0.0);
}

#[test]
fn wrong_products_are_refused() {
    for (statement, says) in [
        ("A[I_X,J]", "no `->`"),
        ("A[I_X,J] B[J,K]", "no `->`"),
        ("A[I_X,J_X] B[J,K] -> C[I,K]", "axis X stands there twice"),
        ("A[I,J] B[J,K] -> C[I,J]", "no dimension is summed over"),
        ("A[I,J] B[J,K] -> C[I,L]", "neither input has the dimension L"),
        ("A[I,J]{U_X} B[J,K] -> C[I,K]", "only the result can be unreduced"),
        ("A[I,J] B[J,K] -> C[I,K]{U_X}", "no sum runs over the axis X"),
        ("A[I_Q,J] B[J,K] -> C[I,K]", "the mesh has no axis Q"),
        ("A[I_X,J] B[J,M] -> C[I,M]", "the size of M is not given"),
        ("A[S_X,J] B[J,K] -> C[S_X,K]", "6 is not a multiple of 4"),
        ("A[I,J,N] B[J,K] -> C[I,K]", "the dimension N is in no other array"),
        ("A[I,I] B[I,K] -> C[I,K]", "stands there twice"),
        ("A[I,] B[J,K] -> C[I,K]", "is no dimension"),
    ] {
        let line = ["matmul", statement, "-t", "torus:4x4,90,1", "--size", "I=8,J=8,K=8,S=6,N=8,L=8"];
        let (status, _, error) = stepsim(&line);
        assert!(status == 2 && error.contains(says), "{statement}: {error}");
    }
    for (option, value, says) in [("--format", "fp4", "fp8"), ("--mesh", "X=3", "16 devices")] {
        let plain = ["matmul", "A[I,J] B[J,K] -> C[I,K]", "-t", "torus:4x4,90,1", "--size", "I=8,J=8,K=8"];
        let (status, _, error) = stepsim(&[&plain[..], &[option, value]].concat());
        assert!(status == 2 && error.contains(says), "{option} {value}: {error}");
    }
}
