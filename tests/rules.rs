//! Rules of thumb against another program's: ridges, intensities, bounds by the machine's own axes, runs and their
//! loss.

use serde_json::Value;
use stepsim::fabric::topology::Machine;
use stepsim::form::analytic::{bounds, roofline, training};
use stepsim::price::model::flops::StepFlops;
use stepsim::price::model::{Item, KernelClass, LayerPlan, ParameterCount, Shard};
use stepsim::spec::model::AttentionSpec;
use stepsim::spec::{Device, ModelSpec, WorkloadSpec, from_value, load};

use crate::command::{Folder, json, stepsim};

fn golden() -> Value {
    json("tests/data/rules.json")
}

fn close(a: f64, b: &Value, what: &str) {
    let b = b.as_f64().unwrap_or_else(|| panic!("{what}: {b}"));
    assert!((a - b).abs() <= 1e-5 * b.abs(), "{what}: {a}, expected {b}");
}

fn rows(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

#[test]
fn ridges_are_the_golden_ones() {
    let golden = golden();
    let devices = golden["roofline"].as_object().unwrap();
    assert_eq!(devices.len(), 18);
    let mut seen = 0;
    for (name, formats) in devices {
        // The golden ones are of the data sheet's bandwidth.
        let sheet = if name.starts_with("b200") { vec!["hbm.GBps=8000".to_string()] } else { vec![] };
        let device: Device = load(name, &sheet).unwrap().value;
        let ridges = roofline::ridges(&device);
        for (format, wanted) in formats.as_object().unwrap() {
            let Some(ridge) = ridges.iter().find(|r| r.format == *format) else {
                panic!("{name} has no {format}");
            };
            close(ridge.peak_tflops, &wanted["peak_TFLOPs"], name);
            close(ridge.ridge, &wanted["ridge_FLOP_per_byte"], name);
            close(ridge.batch, &wanted["min_batch"], name);
            seen += 1;
        }
    }
    assert!(seen > 60, "{seen} formats");
}

fn machine(form: &str, sets: &[&str]) -> Machine {
    let sets: Vec<String> = sets.iter().map(|s| (*s).to_string()).collect();
    Machine::load(form, &sets).unwrap().1
}

/// α = C/W by the axes of a machine.
fn alpha(machine: &Machine, peak: f64, axes: &str) -> (f64, f64) {
    let all = bounds::axes(machine).unwrap();
    let found = all.iter().find(|a| a.axes == axes).unwrap_or_else(|| panic!("{axes}: {all:?}"));
    (peak / found.rate, peak / found.in_turn)
}

#[test]
fn bounds_on_tori_are_the_golden_ones() {
    let golden = golden();
    let cases = rows(&golden["bounds"]["torus"]);
    assert_eq!(cases.len(), 9);
    for case in cases {
        let what = format!("{} {}", case["device"], case["link_rate"]);
        let peak = case["C"].as_f64().unwrap();
        let link = case["link_Bps"].as_f64().unwrap() / 1e9;
        let torus = machine(&format!("torus:4x4x4,{link},1"), &[]);
        for (count, axes) in [("1 axes", "X"), ("2 axes", "XY"), ("3 axes", "XYZ")] {
            let Some(tokens) = case["data_or_fsdp_tokens"].get(count) else { continue };
            let (alpha, _) = alpha(&torus, peak, axes);
            close(bounds::data(alpha, 2.0), tokens, &what);
            assert_eq!(bounds::fsdp(alpha, 2.0, 2.0), [alpha, alpha]);
            if let Some(degree) = case["tensor_degree_F_28672"].get(count) {
                close(bounds::tensor(alpha, 28672.0, false, 2.0), degree, &what);
            }
        }
        for n in [4, 8] {
            let line = machine(&format!("line:{n},{link},1"), &[]);
            close(alpha(&line, peak, "X").0, &case["no_wrap_one_axis_n"][n.to_string()], &what);
        }
        let mixed = &case["mixed_F_32768"];
        let one = case["alpha_one_axis"].as_f64().unwrap();
        let [adds, hides] =
            bounds::mixed(one / mixed["MX"].as_f64().unwrap(), one / mixed["MY"].as_f64().unwrap(), 32768.0);
        close(adds, &mixed["sum_of_both"], &what);
        close(hides, &mixed["both_hidden"], &what);
    }
}

#[test]
fn bounds_on_nodes_are_the_golden_ones() {
    let golden = golden();
    for case in rows(&golden["bounds"]["nodes"]) {
        let what = case["machine"].as_str().unwrap();
        let number = |name: &str| case[name].as_f64().unwrap();
        let (peak, g) = (number("C"), number("ranks_per_node"));
        let (inside, nic) = (number("nvlink_Bps"), number("nic_Bps"));
        for (k, wanted) in case["nodes"].as_object().unwrap() {
            let form = format!("nodes:{k}*{g},{},1,{},1", inside / 1e9, nic / 1e9);
            let all = machine(&form, &[]);
            let (overlapped, in_turn) = alpha(&all, peak, "XY");
            close(overlapped, &wanted["stages_overlapped"], what);
            close(in_turn, &wanted["stages_in_turn"], what);
            close(alpha(&all, peak, "X").0, &case["in_node"], what);
        }
        // Those of the reference leave out (g − 1)/g.
        let one = peak / inside;
        let degrees = &case["tensor_degree_in_node"];
        close(bounds::tensor(one, 28672.0, false, 2.0), &degrees["mlp_two_matrices_F_28672"], what);
        close(bounds::tensor(one, 28672.0, true, 2.0), &degrees["mlp_gated_F_28672"], what);
        let stages = &case["pipeline_params_per_stage_D_16384"];
        close(bounds::stage_parameters(peak, nic, 16384.0, 2.0), &stages["nic"], what);
        close(bounds::stage_parameters(peak, inside, 16384.0, 2.0), &stages["nvlink"], what);
        let experts = &case["expert_width"];
        close(bounds::expert_width(peak, inside, (g - 1.0) / g, 2.0), &experts["ep_in_node"], what);
        if !experts["ep_64_over_nics"].is_null() {
            close(bounds::expert_width(peak, nic, (64.0 - g) / 64.0, 2.0), &experts["ep_64_over_nics"], what);
        }
        for (name, link, group) in [
            ("nvlink, G=1", inside, 1.0),
            ("nvlink, G=8", inside, 8.0),
            ("nic, G=1", nic, 1.0),
            ("nic, G=8", nic, 8.0),
        ] {
            close(bounds::ring_tokens(peak, link, group, 2.0), &case["context_tokens_per_rank"][name], what);
        }
    }
    assert!((bounds::micro_batches(8.0, 0.05) - 133.0).abs() < 1e-9);
}

/// FLOPs an element that the reference states, over the bytes that kernels of a layer move for it.
#[test]
fn kernels_without_products_have_the_golden_intensities() {
    let golden = golden();
    let of = |name: &str| {
        let row = rows(&golden["intensity"]).iter().find(|r| r["name"].as_str().unwrap().starts_with(name));
        row.unwrap_or_else(|| panic!("{name}"))["intensity"].clone()
    };
    let model: ModelSpec = load("llama3-8b", &[]).unwrap().value;
    let shard = Shard::whole(&model);
    let plan = LayerPlan::transformer(&model, &shard);
    let bytes = |class: KernelClass, width: u64| {
        let kernel = plan.forward.iter().filter_map(Item::kernel).find(|k| k.class == class).unwrap();
        kernel.bytes / (shard.tokens() * width) as f64
    };
    close(1.0 / bytes(KernelClass::Residual, model.hidden), &of("add of two bf16 tensors"), "add");
    close(5.0 / bytes(KernelClass::Activation, model.ffn), &of("SiLU times gate"), "activation");
    close(4.0 / bytes(KernelClass::Norm, model.hidden), &of("RMSNorm"), "norm");
}

#[test]
fn runs_and_their_loss_are_the_golden_ones() {
    let golden = golden();
    for case in rows(&golden["training"]["flops"]) {
        let (p, d) = (case["P"].as_f64().unwrap(), case["D"].as_f64().unwrap());
        close(training::flops(p, d), &case["flops_6PD"], "flops");
        close(training::flops(p, d) / training::PFLOP_DAY, &case["PFLOP_days"], "days");
        close(training::LAWS[0].loss(p, d), &case["loss"]["hoffmann"], "loss");
        close(training::LAWS[1].loss(p, d), &case["loss"]["besiroglu"], "loss");
    }
    for case in rows(&golden["training"]["compute_optimal"]) {
        let flops = case["flops"].as_f64().unwrap();
        close(training::twenty(flops)[0], &case["P_20"], "20");
        for (law, name) in training::LAWS.iter().zip(["hoffmann", "besiroglu"]) {
            let [p, d] = law.optimum(flops);
            close(p, &case[name]["P"], name);
            close(d, &case[name]["D"], name);
        }
    }
}

#[test]
fn masks_leave_the_golden_pairs() {
    let golden = golden();
    let cases = rows(&golden["attention_pairs"]);
    assert_eq!(cases.len(), 10);
    for case in cases {
        let attention = AttentionSpec {
            causal: true,
            window: case["window"].as_u64(),
            chunk: case["chunk"].as_u64(),
            ..AttentionSpec::default()
        };
        close(attention.pairs(case["sequence"].as_u64().unwrap()), &case["pairs"], &case.to_string());
    }
}

/// MFU counts attention in full, `mfu_causal` by half (the golden figure counts the diagonal whole: one key in a
/// sequence more).
#[test]
fn flops_are_counted_by_the_golden_conventions() {
    let golden = golden();
    let cases = rows(&golden["flop_conventions"]);
    assert_eq!(cases.len(), 4);
    for case in cases {
        let name = case["model"].as_str().unwrap();
        // The shipped one has Megatron's padded vocabulary.
        let sets = if name == "gpt3-175b" { vec!["vocabulary=50257".to_owned()] } else { Vec::new() };
        let model: ModelSpec = load(name, &sets).unwrap().value;
        let sequence = case["sequence"].as_u64().unwrap();
        let of = StepFlops::of(&model, 1, sequence);
        let per_token = |flops: f64| flops / sequence as f64;
        let within = |a: f64, b: &Value, to: f64| {
            let b = b.as_f64().unwrap();
            assert!((a / b - 1.0).abs() < to, "{}: {a}, expected {b}", case["model"]);
        };
        within(per_token(of.model - of.mixing), &case["matrix_times_three"], 2e-5);
        within(per_token(of.model), &case["full_attention"], 2e-5);
        within(per_token(of.model_causal), &case["causal_exact_times_three"], 1e-4);
        let active = ParameterCount::of(&ModelSpec { sequence, ..model.clone() }).active as f64;
        within(training::flops(active, 1.0), &case["six_n"], 1e-12);
        // Executed: a fused backward makes the scores again.
        let shard = Shard { sequence, ..Shard::whole(&model) };
        let layers =
            model.layer_counts().into_iter().map(|(layer, n)| (LayerPlan::transformer(&layer, &shard), n));
        let all = layers.chain([(LayerPlan::head(&model, &shard, true), 1)]);
        let executed: f64 = all
            .map(|(plan, n)| n as f64 * (LayerPlan::flops(&plan.forward) + LayerPlan::flops(&plan.backward)))
            .sum();
        within(per_token(executed), &case["causal_exact_flash_backward"], 1e-3);
    }
}

#[test]
fn states_of_parameters_are_the_golden_ones() {
    let golden = golden();
    let bytes = |precision: Value, kind: &str| {
        let workload = serde_json::json!({
            "model": "llama3-70b", "batch": {"global": 64}, "precision": precision, "optimizer": {"kind": kind},
        });
        let workload = from_value::<WorkloadSpec>(workload, "w".into(), "w".into(), &[]).unwrap().value;
        let b = workload.precision.bytes_per_parameter(workload.optimizer.kind);
        [b.weights, b.gradients, b.moments, b.master]
    };
    let adam = |precision| (precision, "adam");
    let cases = [
        adam(
            serde_json::json!({"weights": "fp32", "compute": "fp32", "gradients": "fp32", "master_bytes_per_parameter": 0}),
        ),
        adam(serde_json::json!({"gradients": "bf16", "master_bytes_per_parameter": 4})),
        adam(serde_json::json!({"gradients": "fp32", "master_bytes_per_parameter": 4})),
        adam(serde_json::json!({"gradients": "bf16", "master_bytes_per_parameter": 0})),
        (serde_json::json!({"gradients": "bf16"}), "adam8bit"),
        adam(serde_json::json!({"weights": "fp8", "gradients": "fp32", "moments_bytes_per_parameter": 4})),
    ];
    let model: ModelSpec = load("llama3-70b", &[]).unwrap().value;
    let parameters = ParameterCount::of(&model).total() as f64;
    let wanted = rows(&golden["training"]["bytes_per_parameter"]);
    assert_eq!(wanted.len(), cases.len());
    for ((precision, kind), case) in cases.into_iter().zip(wanted) {
        let what = case["recipe"].as_str().unwrap();
        let mut found = bytes(precision, kind);
        if case["gradients"] == 0 {
            // Left out there.
            found[1] = 0.0;
        }
        // Scales of blocks of 256 moments, left out there.
        let to = if kind == "adam" { 1e-4 } else { 0.016 };
        let near = |a: f64, name: &str| {
            let b = case[name].as_f64().unwrap();
            assert!((a - b).abs() <= to * b, "{what}: {name}: {a}, expected {b}");
        };
        for (found, name) in found.into_iter().zip(["weights", "gradients", "moments", "master"]) {
            near(found, name);
        }
        near(found.iter().sum(), "total");
        near(found.iter().sum::<f64>() * parameters / 1e9, "llama3_70b_GB");
    }
}

#[test]
fn days_of_runs_are_the_golden_ones() {
    let golden = golden();
    let days = |p: f64, d: f64, rate: f64| training::flops(p, d) / rate / 86_400.0;
    let of = |what: &str, key: &str| {
        let found = rows(&golden["training"]["time"]).iter().find(|case| case["what"] == what);
        found.unwrap_or_else(|| panic!("{what}"))[key].clone()
    };
    close(days(70e9, 15e12, 18823.0 * 459e12 * 0.5), &of("Llama 3 70B, 18,823 v5p at 50 %", "days"), "v5p");
    close(days(175e9, 300e9, 989.4e12) / 365.0, &of("GPT-3, one H100 dense, 6PD", "years"), "GPT-3");
    close(days(405e9, 15.6e12, 989.4e12) / 365.0, &of("Llama 3 405B, one H100 dense", "years"), "Llama");
    close(
        days(405e9, 15.6e12, 16384.0 * 400e12),
        &of("Llama 3 405B, 16,384 H100 at 400 TFLOP/s", "days"),
        "Meta",
    );
}

#[test]
fn the_command_prints_rules_and_rooflines() {
    let all = stepsim("estimate --rooflines").ok();
    assert!(all.contains("h100-sxm bf16") && all.contains("295.3"), "{all}");
    let folder = Folder::new();
    let text = folder.stepsim("estimate llama3-70b --rules --tokens 15e12 --report rules.json").ok();
    for part in [
        "roofline of the device",
        "kernels of a layer",
        "axes of the machine",
        "6·P·D",
        "Besiroglu 2024",
        "FSDP over Y, tensor over X",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let report = folder.json("rules.json");
    let run = &report["rules_of_thumb"]["run"];
    assert_eq!(run["tokens"], 15e12);
    assert!(report["rules_of_thumb"]["axes"][0]["data_parallel_tokens"].as_f64().unwrap() > 1000.0);
}
