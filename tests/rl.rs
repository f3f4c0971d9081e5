//! Iterations of reinforcement learning: what bounds decoding, who waits for whom, and published iterations.

use serde_json::{Value, json};
use stepsim::around::rl::generation::replica;
use stepsim::around::rl::{Decoder, GenerationSpec, RlSpec};
use stepsim::core::ids::DeviceId;
use stepsim::fabric::collective::{Chooser, Fidelity, Lowering};
use stepsim::fabric::topology::Machine;
use stepsim::price::model::ParameterCount;
use stepsim::spec::{ModelSpec, load};

use crate::command::{Folder, Said, json as read, stepsim};

fn decoder(tensor: u32, memory_share: f64) -> (Decoder, ModelSpec, f64) {
    let model = load::<ModelSpec>("llama3-8b", &[]).unwrap().value;
    let (_, machine) = Machine::load("h100-superpod-8", &[]).unwrap();
    let device = machine.device(DeviceId(0)).clone();
    let lowering = Lowering::new(&machine, Fidelity::Formula, Chooser::for_device(&device.name));
    let spec = json!({"tensor": tensor, "memory_share": memory_share, "memory_reached": 0.5});
    let spec: GenerationSpec = serde_json::from_value(spec).unwrap();
    let rate = 0.5 * device.memory_bandwidth().0 * device.cost.clone().unwrap().memory_fraction;
    (Decoder::new(&model, &device, &lowering, &spec).unwrap(), model, rate)
}

#[test]
fn a_token_reads_all_weights_and_the_cache() {
    let (decoder, model, rate) = decoder(1, 0.9);
    let weights = 2 * (ParameterCount::of(&model).total() - model.vocabulary * model.hidden);
    let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a}, expected {b}");
    close(decoder.step_s(1, 0.0, 0.0), weights as f64 / rate);
    // 8 heads of 128, keys and values, 32 layers, two bytes: 128 KiB a token.
    close(decoder.cache(1000), 1000.0 * 131_072.0);
    close(
        decoder.step_s(64, 64_000.0, 64.0 * decoder.cache(1000)),
        (weights as f64 + 64.0 * 131_072_000.0) / rate,
    );
    // Many sequences with little behind them are bound by products.
    let many = decoder.step_s(8192, 0.0, 0.0);
    assert!(many > 4.0 * decoder.step_s(1, 0.0, 0.0), "{many}");
    // Eight ranks read an eighth each, and sum twice a layer.
    let (eight, ..) = self::decoder(8, 0.9);
    let (one_s, eight_s) = (decoder.step_s(1, 0.0, 0.0), eight.step_s(1, 0.0, 0.0));
    assert!(eight_s > one_s / 8.0 && eight_s < one_s / 2.0, "{one_s} {eight_s}");
}

#[test]
fn the_longest_response_ends_a_replica_and_the_cache_admits() {
    let (decoder, ..) = decoder(1, 0.9);
    let even = replica(&decoder, &[500; 32], 100, 1, 256).unwrap();
    assert_eq!((even.tokens, even.steps), (16_000, 500));
    // The same tokens, one sequence much longer: more steps, each for fewer.
    let mut lengths = vec![400; 31];
    lengths.push(3600);
    let uneven = replica(&decoder, &lengths, 100, 1, 256).unwrap();
    assert_eq!((uneven.tokens, uneven.steps), (16_000, 3600));
    assert!(uneven.s > 4.0 * even.s, "{} {}", uneven.s, even.s);
    assert_eq!(uneven.running.last().unwrap().1, 0);
    // Samples of a prompt share its prefill.
    let shared = replica(&decoder, &[500; 32], 100, 8, 256).unwrap();
    assert!((shared.prefill_s * 8.0 / even.prefill_s - 1.0).abs() < 1e-9);
    // Half at a time takes twice the steps.
    let halves = replica(&decoder, &[500; 32], 100, 1, 16).unwrap();
    assert_eq!(halves.steps, 1000);
    // Room in 81,559 MiB for the weights and 0.6 GB: seven sequences of 600 tokens.
    let share = (2.0 * 8.03e9 + 0.6e9) / (81_559.0 * 1_048_576.0);
    let (tight, ..) = self::decoder(1, share);
    assert!(tight.room() > 0.0);
    let waves = replica(&tight, &[500; 32], 100, 1, 256).unwrap();
    assert_eq!(waves.steps, 2500);
    let (full, ..) = self::decoder(1, 0.1);
    assert!(replica(&full, &[500; 32], 100, 1, 256).is_none());
}

fn played(spec: &Value) -> Result<Value, String> {
    let folder = Folder::new();
    folder.write("rl.json", spec.to_string());
    match folder.stepsim("rl rl.json --report out.json -o out.json.gz") {
        Said { status: Some(0), .. } => Ok(folder.json("out.json")),
        said => Err(said.refused()),
    }
}

fn small() -> Value {
    json!({
        "workload": "llama3-8b-fsdp", "prompts": 16, "samples": 4, "prompt_tokens": 100,
        "responses": {"median": 400, "sigma": 0.5, "longest": 2000},
        "generation": {"tensor": 1}, "forwards": {"policy": true, "reference": true}, "reward_s": 2, "updates": 2,
    })
}

#[test]
fn phases_follow_each_other_or_run_on_devices_of_their_own() {
    let same = played(&small()).unwrap();
    let seconds = |of: &Value| of["iteration"]["s"].as_f64().unwrap();
    let phase = |of: &Value, name: &str| -> f64 {
        let phases = of["iteration"]["phases"].as_array().unwrap();
        phases.iter().find(|p| p["name"] == name).unwrap_or_else(|| panic!("{name}"))["s"].as_f64().unwrap()
    };
    let names = [
        "weight exchange",
        "generation",
        "reward",
        "log-probabilities of the policy",
        "log-probabilities of the reference",
        "training",
    ];
    let sum: f64 = names.iter().map(|name| phase(&same, name)).sum();
    assert!((seconds(&same) / sum - 1.0).abs() < 1e-9);
    assert_eq!(phase(&same, "training"), 2.0 * same["step_time_s"].as_f64().unwrap());
    // A forward pass is less than a third of a step that recomputes.
    let share = phase(&same, names[3]) / phase(&same, "training");
    assert!(share > 0.15 && share < 0.34, "{share}");

    let mut apart = small();
    apart["generation"]["devices"] = 8.into();
    let apart = played(&apart).unwrap();
    assert_eq!(apart["iteration"]["devices"], 16);
    let mut ahead = small();
    ahead["generation"]["devices"] = 8.into();
    ahead["generation"]["ahead"] = true.into();
    let ahead = played(&ahead).unwrap();
    let scored: f64 = names[2..].iter().map(|name| phase(&ahead, name)).sum();
    let wanted = phase(&ahead, names[0]) + scored.max(phase(&ahead, "generation"));
    assert!((seconds(&ahead) / wanted - 1.0).abs() < 1e-9, "{} {wanted}", seconds(&ahead));
    assert!(seconds(&ahead) < seconds(&apart));
    // Same inputs, same numbers.
    assert_eq!(played(&small()).unwrap(), same);
}

/// Three published iterations (NeMo RL 0.4, DGX H100). Nothing is fitted to them: the host, and software around the
/// phases, are left out, so ours is shorter; not by more than half where layers are dense. With experts the least is
/// 0.35: half was held while experts in bf16 paid for casts that only 8 bits and fewer need (72 us an expert), in
/// place of what is left out.
#[test]
fn published_iterations_are_longer_within_bounds() {
    for (name, published, least, tokens) in [
        ("llama3.1-8b-grpo", 97.7, 0.5, 1060.0),
        ("qwen3-32b-grpo", 393.0, 0.5, 3206.0),
        ("qwen3-30b-a3b-grpo", 225.0, 0.35, 3154.0),
    ] {
        let file = format!("examples/rl/{name}.json");
        serde_json::from_value::<RlSpec>(read(&file)).unwrap().validate().unwrap();
        let report = tempfile::NamedTempFile::new().unwrap();
        let said = stepsim(&format!("rl {file} --report {}", report.path().display())).ok();
        let of = read(report.path());
        let of = &of["iteration"];
        let s = of["s"].as_f64().unwrap();
        println!("{said}");
        println!("{name}: {s:.1} s, published {published} s, {:+.1} %", 100.0 * (s / published - 1.0));
        assert!(s < 1.05 * published && s > least * published, "{name}: {s} of {published}");
        let mean = of["tokens"].as_f64().unwrap() / of["sequences"].as_f64().unwrap();
        assert!((mean / tokens - 1.0).abs() < 0.03, "{name}: {mean}");
        let trained = of["trained_tokens"].as_f64().unwrap() / of["tokens"].as_f64().unwrap();
        assert!(trained > 0.97 && trained < 1.1, "{name}: {trained}");
    }
}
