//! Sharded products: the plans and least times of another program's rules, and runs that meet them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use stepsim::around::matmul::{ProductRun, ShardedProduct, Statement, plans};
use stepsim::fabric::collective::{Chooser, CollectiveBound};
use stepsim::fabric::topology::{Machine, Mesh};

use crate::command::{Folder, stepsim};

fn file() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/matmul.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn golden() -> Vec<Value> {
    file()["planned"].as_array().unwrap().clone()
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
    let all = plans(&statement, &sizes, &mesh.0, &|_| 2.0).unwrap();
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
            / machine.device(stepsim::core::ids::DeviceId(0)).peak(stepsim::spec::Dtype::Bf16).unwrap().0;
        close(plan.flops, case["flops"].as_f64().unwrap(), 1e-12, &what);
        close(1e6 * compute, case["compute_us"].as_f64().unwrap(), 1e-5, &what);
        let played = ProductRun::run(&plan, &mesh, &machine, &Chooser::best(), compute).unwrap();
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

/// What a gather leaves on a device is what the sharding without the gathered axis holds.
#[test]
fn devices_hold_the_golden_bytes() {
    let file = file();
    let cases = file["held"].as_array().unwrap();
    assert_eq!(cases.len(), 3);
    for case in cases {
        let mesh: Vec<(char, u32)> = serde_json::from_value(case["mesh"].clone()).unwrap();
        let axes: Vec<char> = mesh.iter().map(|axis| axis.0).collect();
        let statement = Statement::parse(case["statement"].as_str().unwrap(), &axes).unwrap();
        let sizes: BTreeMap<String, u64> = serde_json::from_value(case["size"].clone()).unwrap();
        let element = case["element_bytes"].as_f64().unwrap();
        let plan = &plans(&statement, &sizes, &mesh, &|_| element).unwrap()[0];
        let gathered = plan.steps().find(|step| step.array == "A").unwrap();
        let of_all = gathered.bytes * u64::from(Mesh(mesh).size());
        if let Some(copies) = case["copies"].as_u64() {
            let one: u64 = statement.a.dims.iter().map(|dim| sizes[&dim.name]).product();
            assert_eq!(of_all, copies * one * element as u64, "{case}");
        } else {
            assert_eq!(gathered.bytes, case["bytes"].as_u64().unwrap(), "{case}");
            assert_eq!(of_all, case["of_all"].as_u64().unwrap(), "{case}");
        }
    }
}

/// The one collective of a case: what it is, what it takes by rule, and what it takes when run.
fn only(case: &Value) -> (&'static str, CollectiveBound, f64) {
    let machine = machine(case);
    let mesh = Mesh::of(&machine);
    let played = ProductRun::run(&plan(case, &mesh), &mesh, &machine, &Chooser::best(), 0.0).unwrap();
    let [step] = &played.steps[..] else { panic!("{case}: {} collectives", played.steps.len()) };
    (step.step.op.name(), step.bound, (step.span.1 - step.span.0).s())
}

#[test]
fn collectives_of_the_book_take_the_golden_times() {
    let file = file();
    let cases = file["timed"].as_array().unwrap();
    assert_eq!(cases.len(), 7);
    for case in cases {
        let what = case["what"].as_str().unwrap();
        let (op, rule, run) = only(case);
        assert_eq!(op, case["op"], "{what}");
        close(1e6 * rule.time_s(), case["rule_us"].as_f64().unwrap(), 1e-5, what);
        if let Some(line) = case["line_us"].as_f64() {
            close(1e6 * run, line, 1e-5, what);
        }
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
        let plan = &plans(s, &sizes, &[('X', 4)], &|_| 2.0).unwrap()[0];
        plan.steps().map(|s| format!("{} {}", s.op.name(), s.array)).collect()
    };
    assert_eq!(ops(&statement), ["all-gather W"]);
    assert_eq!(ops(&da), ["all-gather W"]);
    assert_eq!(ops(&dw), ["reduce-scatter dW"]);
}

#[test]
fn the_command_shows_both_ways_and_draws_the_better() {
    let folder = Folder::new();
    let out = folder
        .stepsim(
            "matmul 'A[B,D] B[D_X,F] -> C[B,F]' -t torus:4,90,1 --set device=tpu-v5p \
             --size B=512,D=8192,F=32768 -o product.json --report report.json",
        )
        .ok();
    let (reduce, gather) = (out.find("by reduce"), out.find("by gather"));
    assert!(reduce.is_some() && reduce < gather, "{out}");
    assert!(out.contains("all-reduce C over X") && out.contains("bound by communication"), "{out}");
    let trace = folder.text("product.json");
    assert!(trace.contains("all-reduce C over X") && trace.contains("product"));
    let report = folder.json("report.json");
    close(report[0]["ways"][0]["communication_s"].as_f64().unwrap(), 372.827e-6, 1e-5, "all-reduce");
    let report = stepsim(
        "matmul 'A[B_Y,D] W[D,F_X] -> C[B_Y,F_X]' -t h100-superpod-64 --gradients \
         --size B=65536,D=8192,F=28672 --report -",
    )
    .json();
    assert_eq!(report[1]["ways"][0]["collectives"][0]["op"], "all-reduce");
    assert!(report[0]["ways"][0]["memory_s"].as_f64().unwrap() > 0.0);
}

/// Each array in its format: bytes by array and in all, the peak of the slower operand, and the memory's time in the
/// simulation.
#[test]
fn arrays_have_formats_of_their_own() {
    let matmul = "matmul 'A[B,D] W[D,F] -> C[B,F]' -t h100-superpod-64";
    let product = |format: &str, size: &str| {
        let said = stepsim(&format!("{matmul} --size {size} --format {format} --report -"));
        said.json()[0]["ways"][0].clone()
    };
    let narrow = "B=16,D=65536,F=262144";
    let way = product("A=int8,W=int8,C=bf16", narrow);
    let (a, w, c) = (16.0 * 65536.0, 65536.0 * 262144.0, 2.0 * 16.0 * 262144.0);
    assert_eq!(way["array_bytes"], serde_json::json!({"A": a, "W": w, "C": c}));
    assert_eq!(way["memory_bytes"], a + w + c);
    let number = |way: &Value, name: &str| way[name].as_f64().unwrap();
    assert_eq!(way["bound"], "memory");
    close(number(&way, "simulated_s"), number(&way, "memory_s"), 1e-6, "the roofline");
    // In bf16 all arrays are twice as large but the result, and products run at half the rate.
    let wide = product("bf16", narrow);
    close(
        number(&wide, "memory_s") / number(&way, "memory_s"),
        2.0 * (a + w + c / 2.0) / (a + w + c),
        1e-9,
        "bytes",
    );
    let square = "B=8192,D=8192,F=8192";
    let rate = |format| 1.0 / number(&product(format, square), "compute_s");
    close(rate("int8") / rate("bf16"), 2.0, 1e-3, "int8");
    close(rate("A=bf16,W=int8") / rate("bf16"), 1.0, 1e-9, "the slower operand");
    for (format, says) in [("int7", "int8"), ("Q=bf16", "A, W, C")] {
        let error = stepsim(&format!("{matmul} --size {narrow} --format {format}")).refused();
        assert!(error.contains(says), "{format}: {error}");
    }
}
