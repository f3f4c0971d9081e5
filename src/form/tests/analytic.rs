//! Closed forms by independent reasoning, on small machines with kernels at a flat rate.

use serde_json::{Value, json};
use stepsim_core::ids::DeviceId;
use stepsim_core::units::Time;
use stepsim_fabric::collective::Chooser;
use stepsim_fabric::topology::Machine;
use stepsim_form::analytic::{ClosedForm, ClosedFormCache, Estimate, *};
use stepsim_plan::step::{PriceList, Prices};
use stepsim_price::model::Kernel;
use stepsim_spec::from_value;
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::{ModelRef, WorkloadSpec};

/// 100 TFLOP/s, and 1 TB/s for kernels without FLOP.
struct Flat;

const RATE: f64 = 1e14;

impl Prices for Flat {
    fn time(&self, kernel: &Kernel) -> Time {
        Time::from_s(if kernel.flops > 0.0 { kernel.flops / RATE } else { kernel.bytes / 1e12 })
    }
    fn slowdown(&self, _: &Kernel) -> u16 {
        0
    }
}

/// An ungated model without vocabulary to speak of: its layers are alike and nearly everything.
fn model() -> Value {
    json!({
        "name": "test", "layers": 16, "hidden": 4096, "heads": 32, "ffn": 16384, "vocabulary": 8, "sequence": 2048,
        "tied_embeddings": true, "norm": "layer", "attention": {"kernel": "standard", "causal": false}
    })
}

fn workload(changes: Value) -> (WorkloadSpec, ModelSpec) {
    let mut value = json!({"model": model(), "batch": {"global": 16, "micro_batch": 1}});
    for (key, change) in changes.as_object().expect("an object") {
        value[key] = change.clone();
    }
    let workload: WorkloadSpec = from_value(value, "test".into(), "test".into(), &[]).expect("valid").value;
    let ModelRef::Inline(model) = workload.model.clone() else { panic!("the model stands in place") };
    (workload, *model)
}

fn on(machine: &str, changes: Value) -> Estimate {
    let (workload, model) = workload(changes);
    let (_, machine) = Machine::load(machine, &[]).expect("a simple machine");
    assert_eq!(workload.validate_on(u64::from(machine.devices()), &["hbm"]), []);
    estimate(&workload, &model, &machine, &Flat, &Chooser::best(), RATE).expect("an estimate")
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs()
}

#[test]
fn one_device_only_computes() {
    let step = on("switch:1,100,0", json!({}));
    let t = step.terms;
    assert_eq!([t.tensor, t.context, t.expert, t.bubble, t.p2p, t.data, t.offload, t.recompute], [0.0; 8]);
    // GEMMs at the full rate: the rest of the time is element-wise kernels and the optimizer.
    let at_peak = step.model_flops / RATE;
    assert!(t.total() > at_peak && t.total() < 1.6 * at_peak, "{} s, at peak {at_peak} s", t.total());
    assert!(close(step.mfu, at_peak / t.total()));
}

#[test]
fn rules_that_people_carry_in_their_heads() {
    let step = on("switch:8,100,0", json!({"parallelism": {"data": 8, "sharding": {"kind": "zero3"}}}));
    let r = &step.rules;
    assert_eq!(r.twelve_l_h2, 12.0 * 16.0 * 4096.0 * 4096.0);
    assert!((r.parameters / r.twelve_l_h2 - 1.0).abs() < 0.002, "{}", r.parameters);
    assert_eq!(r.bytes_per_parameter, 18.0);
    assert_eq!(r.bytes_per_parameter_sharded, 18.0 / 8.0);
    assert_eq!(r.six_p_d, 6.0 * r.active_parameters * step.tokens);
    assert_eq!(r.tokens_per_micro_batch, 2048.0);
    assert_eq!(r.tokens_per_replica, 4096.0);
    // An all-gather receives 7/8 of its bytes at 1e11 B/s: C/W = 1e14 / (8/7 · 1e11) = 875 tokens.
    assert!(close(r.fsdp_tokens, 875.0), "{}", r.fsdp_tokens);
    // fp32 gradients are twice as large, a reduce-scatter is half of an all-reduce.
    assert!(close(r.data_parallel_tokens, 875.0), "{}", r.data_parallel_tokens);
    assert_eq!(r.tensor_degree, f64::INFINITY);
    let step = on("switch:8,100,0", json!({"parallelism": {"tensor": 8, "sequence_parallel": true}}));
    assert!(close(step.rules.tensor_degree, 16384.0 / 875.0));
}

/// Tokens above which data parallelism with bf16 gradients hides, at `peak` FLOP/s on a machine.
fn data_tokens(machine: &str, peak: f64, parallelism: Value) -> f64 {
    let changes = json!({
        "parallelism": parallelism, "precision": {"gradients": "bf16"}, "batch": {"global": 64, "micro_batch": 1},
    });
    let (workload, model) = workload(changes);
    let (topology, machine) = Machine::load(machine, &[]).expect("a machine");
    let chooser = Chooser::of_machine(&machine.device(DeviceId(0)).name, topology.value.collectives.as_ref());
    let chooser = chooser.expect("a chooser");
    estimate(&workload, &model, &machine, &Flat, &chooser, peak)
        .expect("an estimate")
        .rules
        .data_parallel_tokens
}

/// C/W with W of the algorithm that runs. The scaling book: 2,550 on one axis of a v5p, 850 where three axes have
/// three times the rate of one, both for many chips: of n a chip receives (n − 1)/n of the bytes. Nodes of 8 H100:
/// 2,475 where the rails alone count (989.4e12 / 400e9).
#[test]
fn data_parallel_tokens_take_the_rate_of_the_collective() {
    let within = |tokens: f64, golden: f64, share: f64| {
        assert!((tokens / golden - 1.0).abs() < share, "{tokens}, not {golden}");
    };
    within(data_tokens("tpu-v5p-64", 459e12, json!({"tensor": 16, "data": 4})), 2550.0 * 3.0 / 4.0, 0.01);
    within(data_tokens("torus:64,90,0", 459e12, json!({"data": 64})), 2550.0 * 63.0 / 64.0, 0.01);
    within(data_tokens("tpu-v5p-64", 459e12, json!({"data": 64})), 850.0 * 63.0 / 64.0, 0.01);
    within(data_tokens("h100-superpod-64", 989.4e12, json!({"data": 64})), 2475.0, 0.25);
}

/// Where theory has a bubble for even stages, walking the order leaves it.
#[test]
fn walked_orders_have_the_bubbles_of_theory() {
    let (_, machine) = Machine::load("switch:4,100000,0", &[]).expect("a simple machine");
    let (chooser, known) = (Chooser::best(), ClosedFormCache::default());
    let mut compared = 0;
    for schedule in stepsim_schedule::ALL {
        let pipeline = json!({"size": 4, "schedule": schedule.name()});
        let (workload, model) = workload(json!({"parallelism": {"pipeline": pipeline}}));
        let form = ClosedForm::new(&workload, &model, &machine, &Flat, &chooser, RATE, &known);
        let Ok(mut form) = form else { continue };
        let step = form.with_batch(16).expect("an estimate");
        let [forward, input, weights] = form.passes(1).map(Time::from_s);
        let times = stepsim_schedule::PassTimes::new(forward, input, weights, 1.0);
        let theory = schedule.bubble(&workload.parallelism.pipeline.shape(16), &times);
        let Some(idle) = theory.and_then(|bubble| bubble.idle) else { continue };
        let off = (step.terms.bubble - idle.s()) / step.terms.total();
        assert!(off.abs() < 0.01, "{}: {} s, theory {}", schedule.name(), step.terms.bubble, idle.s());
        compared += 1;
    }
    assert!(compared >= 5, "{compared}");
}

/// As [`Flat`], but only for products of layers: nothing else takes time, so stages are exactly even.
struct Even;

impl Prices for Even {
    fn time(&self, kernel: &Kernel) -> Time {
        let of_layer = kernel.flops > 1e9;
        if of_layer { Flat.time(kernel) } else { Time::ZERO }
    }
    fn slowdown(&self, _: &Kernel) -> u16 {
        0
    }
}

/// The latency laws of schedules with asynchronous sends: p = 4, m = 16, c = 100 us (and the bytes at 10⁵ GB/s). Of
/// 1F1B, 2(p − 1)·m/p + 2(p − 2) are seen where stages are even; where the last one is slower, as with a head, it has
/// messages ahead of it and the others wait for it in any case: fewer are seen.
#[test]
fn latency_of_transfers() {
    let c = 1e-4 + 2048.0 * 4096.0 * 2.0 / 1e14;
    let count = |prices: &dyn PriceList, schedule: &str, chunks: u32| {
        let pipeline = json!({"size": 4, "schedule": schedule, "chunks": chunks});
        let (workload, model) = workload(json!({"parallelism": {"pipeline": pipeline}}));
        let (_, machine) = Machine::load("switch:4,100000,100", &[]).expect("a simple machine");
        let step =
            estimate(&workload, &model, &machine, prices, &Chooser::best(), RATE).expect("an estimate");
        step.terms.p2p / c
    };
    for (schedule, chunks, law) in [("gpipe", 1, 6.0), ("1f1b", 1, 28.0), ("interleaved", 2, 14.0)] {
        let (even, ends) = (count(&Even, schedule, chunks), count(&Flat, schedule, chunks));
        assert!(close(even, law), "{schedule}: {even} transfers");
        assert!(ends <= law * (1.0 + 1e-9) && ends >= 6.0 * (1.0 - 1e-9), "{schedule}: {ends} transfers");
    }
}

#[test]
fn memory_counts() {
    let whole = on("switch:8,100,0", json!({"parallelism": {"data": 8}})).fullest();
    let cut =
        on("switch:8,100,0", json!({"parallelism": {"data": 8, "sharding": {"kind": "zero3"}}})).fullest();
    for (whole, cut) in [(whole.weights, cut.weights), (whole.optimizer, cut.optimizer)] {
        assert!(close(cut, whole / 8.0));
    }
    // Beside its part of all gradients, the gradients of a layer or two that wait for their reduction.
    let waiting = (cut.gradients - whole.gradients / 8.0) / whole.gradients;
    assert!((-1e-9..0.15).contains(&waiting), "{waiting}");
    let kept = cut.activations / whole.activations;
    assert!((0.9..=1.0).contains(&kept), "{kept}");
    // Korthikanti et al.: s·b·h·(34 + 5as/h). Without dropout, two masks of s·b·h bytes go, and of 5·a·s²·b bytes of
    // scores the mask and the output of the dropout: 32·s·b·h + 2·a·s²·b.
    let layer = 2048.0 * 4096.0 * 32.0 + 2.0 * 32.0 * 2048.0 * 2048.0;
    assert!(
        (whole.activations / (16.0 * layer) - 1.0).abs() < 0.02,
        "{}",
        whole.activations / (16.0 * layer)
    );
    let again =
        on("switch:8,100,0", json!({"parallelism": {"data": 8}, "recompute": {"granularity": "full"}}));
    assert!(again.terms.recompute > 0.0 && again.fullest().activations < 0.1 * whole.activations);
}

/// Outputs that wait for their sums: two of a layer and one of the embedding in each forward pass before the first
/// backward one; behind a host that is slower than the device not the first two's.
#[test]
fn blocks_of_launched_sums_stay_cached() {
    let cached = |stages: u64, layer_us: f64, wait: bool| {
        let stack = json!({
            "memory": {"caches": true, "collective_inputs_wait": wait},
            "host": {
                "layer_us": {"forward": layer_us},
                "launch_us": {"gemm": 0, "attention": 0, "elementwise": 0, "collective": 0},
            },
        });
        let parallelism =
            json!({"tensor": 4, "sequence_parallel": true, "pipeline": {"size": stages, "schedule": "1f1b"}});
        let machine = format!("switch:{},100,0", 4 * stages);
        on(&machine, json!({"parallelism": parallelism, "stack": stack})).fullest().cached
    };
    let output = 2048.0 * 4096.0 * 2.0;
    for (stages, slow_host, passes) in [(1, false, 1.0), (1, true, 1.0), (4, false, 4.0), (4, true, 2.0)] {
        let layer_us = if slow_host { 1e6 } else { 0.0 };
        let waiting = cached(stages, layer_us, true) - cached(stages, layer_us, false);
        let by_hand = passes * (2.0 * 16.0 / stages as f64 + 1.0) * output;
        assert!(
            close(waiting, by_hand),
            "{stages} stages, slow host {slow_host}: {} outputs",
            waiting / output
        );
    }
}

/// More bandwidth never makes a step slower, in any of the strategies.
#[test]
fn faster_links_never_hurt() {
    let moe = json!({"experts": 8, "top_k": 2});
    let mut experts = model();
    experts["moe"] = moe;
    for changes in [
        json!({"parallelism": {"tensor": 8, "sequence_parallel": true}}),
        json!({"parallelism": {"tensor": 2, "data": 4, "sharding": {"kind": "zero1"}}}),
        json!({"parallelism": {"data": 8, "sharding": {"kind": "zero3"}}}),
        json!({"parallelism": {"context": {"size": 4, "kind": "ring"}, "data": 2}}),
        json!({"parallelism": {"data": 8, "expert": 8}, "model": experts}),
        json!({"parallelism": {"pipeline": {"size": 8, "schedule": "zb-h1"}}}),
    ] {
        let mut last = f64::INFINITY;
        for gbps in [5, 20, 80, 320, 1280] {
            let total = on(&format!("switch:8,{gbps},1"), changes.clone()).terms.total();
            assert!(total <= last, "{changes}: {total} s at {gbps} GB/s, {last} s below");
            last = total;
        }
    }
}

/// Devices of the second class take twice the time.
struct SlowSecondClass;

impl PriceList for SlowSecondClass {
    fn on(&self, class: u32) -> &dyn Prices {
        [&Flat as &dyn Prices, &HalfSpeed][class as usize]
    }
}

/// Half as fast.
struct HalfSpeed;

impl Prices for HalfSpeed {
    fn time(&self, kernel: &Kernel) -> Time {
        Flat.time(kernel) + Flat.time(kernel)
    }
    fn slowdown(&self, _: &Kernel) -> u16 {
        0
    }
}

/// Workloads that differ in one thing each, one after another and back again: results shared by the others change no
/// bit of any. Two nodes; the second has other devices.
#[test]
fn what_is_known_of_other_workloads_changes_nothing() {
    let sets = ["nodes=2", r#"other_nodes=[{"first":1,"count":1,"device":"a100-sxm-80"}]"#].map(String::from);
    let (_, machine) = Machine::load("h100-superpod-64", &sets).expect("a machine of two kinds");
    let mut experts = model();
    experts["moe"] = json!({"experts": 8, "top_k": 2});
    let mut wider = experts.clone();
    wider["ffn"] = 8192.into();
    let with = |more: Value| {
        let mut all = json!({"tensor": 8, "pipeline": {"size": 2, "schedule": "1f1b"}});
        for (key, value) in more.as_object().expect("fields of parallelism") {
            all[key] = value.clone();
        }
        json!({"model": experts.clone(), "batch": {"global": 32, "micro_batch": 1}, "parallelism": all})
    };
    let beside = |key: &str, value: Value| {
        let mut all = with(json!({}));
        all[key] = value;
        all
    };
    // So few micro-batches that the order shows all of them, whether passes are paired or not.
    let exchanging = |overlap: &str| {
        let mut all = with(json!({"expert": 4, "expert_tensor": 1}));
        all["batch"]["global"] = 2.into();
        all["expert"] = json!({ "overlap": overlap });
        all
    };
    let by_turns: Vec<u32> = (0..8).flat_map(|place| [8 + place, place]).collect();
    let workloads = [
        with(json!({})),
        beside("model", wider),
        beside("recompute", json!({"granularity": "modules", "modules": ["norm"]})),
        beside("recompute", json!({"granularity": "modules", "modules": ["mlp"]})),
        beside("training", json!({"frozen_layers": 12})),
        beside("expert_load", json!({"balance": "seeded", "max_over_mean": 2.0, "seed": 1})),
        beside("expert_load", json!({"balance": "seeded", "max_over_mean": 2.0, "seed": 2})),
        with(json!({"sequence_parallel": true})),
        with(json!({"sequence_parallel": true, "tensor_overlap": "ring"})),
        with(json!({"sequence_parallel": true, "tensor_overlap": "pipelined"})),
        with(json!({"rank_map": by_turns})),
        with(json!({"order": ["pipeline", "tensor", "context", "data"]})),
        with(json!({"expert": 4, "expert_tensor": 1})),
        with(json!({"expert": 4, "expert_tensor": 2})),
        exchanging("none"),
        exchanging("micro-batches"),
    ]
    .map(workload);
    let (chooser, known) = (Chooser::best(), ClosedFormCache::default());
    for (workload, model) in workloads.iter().chain(workloads.iter().rev()) {
        assert_eq!(workload.validate_on(16, &["hbm"]), []);
        let of = |known: &ClosedFormCache| {
            let mut form =
                ClosedForm::new(workload, model, &machine, &SlowSecondClass, &chooser, RATE, known)?;
            form.with_batch(workload.batch.global)
        };
        let (got, want) = (of(&known), of(&ClosedFormCache::default()));
        assert_eq!(got.expect("an estimate"), want.expect("an estimate"), "{:?}", workload);
    }
}
