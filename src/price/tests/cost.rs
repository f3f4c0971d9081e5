//! Laws of the cost levels, golden times worked out apart, and what is left as error against measurements.

use std::collections::BTreeMap;

use proptest::prelude::*;
use stepsim_core::kernel_class::KernelKind;
use stepsim_core::units::{Bandwidth, FlopRate, Time};
use stepsim_price::cost::*;
use stepsim_price::model::{Direction, Item, Kernel, KernelClass, KernelShape, LayerPlan, Scaling, Shard};
use stepsim_spec::cost::{ClassCost, CostSpec, MeasuredGemm, Processing};
use stepsim_spec::kernel::{AttentionGeneration, Maker};
use stepsim_spec::model::ModelSpec;
use stepsim_spec::stack::StackSpec;
use stepsim_spec::workload::Dtype;
use stepsim_spec::{Kind as FileKind, catalog, load};

pub(super) fn device(bf16_tflops: f64, units: u32, gbps: f64, spec: CostSpec) -> DeviceCost {
    DeviceCost {
        peaks: BTreeMap::from([(Dtype::Bf16, FlopRate::from_tflops(bf16_tflops))]),
        units,
        bandwidth: Bandwidth::from_gbps(gbps),
        spec,
        maker: Maker::default(),
        power_left: 1.0,
        unaligned: Vec::new(),
    }
}
/// A device whose times can be worked out by hand: 100 units of 1 TFLOP/s, no overheads.
fn plain() -> DeviceCost {
    let spec = CostSpec {
        matrix_fraction: 1.0,
        memory_fraction: 1.0,
        fill_k: 0.0,
        last_wave: 1.0,
        exposed_memory: 0.0,
        gemm_floor_us: 0.0,
        classes: BTreeMap::from([(
            KernelClass::Copy,
            ClassCost { tuned: Some(1.0), floor_us: Some(0.0), ..ClassCost::default() },
        )]),
        ..CostSpec::default()
    };
    device(100.0, 100, 1e6, spec)
}
fn gemm(m: u64, n: u64, k: u64) -> Kernel {
    Kernel::gemm("gemm", m, n, k, 1, Dtype::Bf16, 2.0)
}

/// Heads that do not begin at multiples of 16 bytes leave the matrix units under a library whose fallback was
/// measured, in the measured formats; all other products keep them.
#[test]
fn heads_that_are_not_aligned_leave_matrix_units_where_that_was_measured() {
    let slow = plain().with_unaligned(vec![Dtype::Fp16]);
    let rate = |device: &DeviceCost, head: u64, dtype, class| {
        let product = Kernel::gemm("scores", 2048, 2048, head, 32, dtype, 2.0).of(class);
        TileWave.time(&product, device).s() / head as f64
    };
    let attention = |device: &DeviceCost, head, dtype| rate(device, head, dtype, KernelClass::AttentionGemm);
    assert!(attention(&slow, 108, Dtype::Fp16) > 8.0 * attention(&slow, 112, Dtype::Fp16));
    assert!(attention(&slow, 150, Dtype::Fp16) > 8.0 * attention(&slow, 144, Dtype::Fp16));
    for (device, dtype) in [(&slow, Dtype::Bf16), (&plain(), Dtype::Fp16)] {
        assert!(attention(device, 108, dtype) < 1.2 * attention(device, 112, dtype));
    }
    let plain_product = |head| rate(&slow, head, Dtype::Fp16, KernelClass::Gemm);
    assert!(plain_product(108) < 1.2 * plain_product(112));
}

/// No device has a cliff that nobody measured: a product, a batched product of attention or a fused attention one
/// element wider costs at most twice as much or as little, on every shipped device under every shipped stack, unless
/// the stack or the device names a source.
#[test]
fn a_size_beside_another_costs_at_most_twice_as_much() {
    let devices: Vec<_> = catalog::names(FileKind::Device).map(shipped).collect();
    let stacks: Vec<(&str, StackSpec)> = catalog::names(FileKind::Stack)
        .map(|name| (name, load::<StackSpec>(name, &[]).unwrap().value))
        .collect();
    let mut sourced = 0;
    for device in &devices {
        for (stack, spec) in &stacks {
            let cost = DeviceCost::new(device).with_unaligned(spec.unaligned_on(&device.name));
            let cost = if spec.host.is_some() { cost } else { cost.aligned() };
            let by_device = !cost.spec.unaligned.is_empty();
            assert!(!by_device || cost.spec.source.contains("unaligned: "), "{}", device.name);
            for dtype in [Dtype::Fp16, Dtype::Bf16] {
                let cliff = neighbours(dtype).into_iter().find(|(a, b)| {
                    let ratio = TileWave.time(a, &cost).s() / TileWave.time(b, &cost).s();
                    !(0.5..=2.0).contains(&ratio)
                });
                let measured = cost.unaligned.contains(&dtype) || by_device;
                assert_eq!(measured, cliff.is_some(), "{} under {stack}: {cliff:?}", device.name);
                sourced += usize::from(cost.unaligned.contains(&dtype));
            }
        }
    }
    assert!(stacks.iter().flat_map(|(_, spec)| &spec.unaligned).all(|of| of.source.len() > 20));
    assert_eq!(sourced, 6, "three A100 in two formats under one stack");
}

/// Kernels of neighbouring sizes.
fn neighbours(dtype: Dtype) -> Vec<(Kernel, Kernel)> {
    let scores = |head| Kernel::gemm("s", 2048, 2048, head, 32, dtype, 2.0).of(KernelClass::AttentionGemm);
    let values = |head| Kernel::gemm("v", 2048, head, 2048, 32, dtype, 2.0).of(KernelClass::AttentionGemm);
    let dense = |n| Kernel::gemm("gemm", 4096, n, 8192, 1, dtype, 2.0);
    let heads =
        (32..320).flat_map(|head| [(scores(head), scores(head + 1)), (values(head), values(head + 1))]);
    heads.chain((8100..8300).map(|n| (dense(n), dense(n + 1)))).collect()
}

#[test]
fn tiles_run_in_whole_waves() {
    let d = plain();
    // 2,560 × 1,280 × 8,192 in 100 tiles of 256 × 128: one wave of 2·256·128·8192 FLOPs at 1 TFLOP/s.
    let one = TileWave.time(&gemm(2560, 1280, 8192), &d);
    assert_eq!(one, Time::from_s(2.0 * 256.0 * 128.0 * 8192.0 / 1e12));
    // 24 units held by a collective: a second wave.
    assert_eq!(TileWave.time_with_units_taken(&gemm(2560, 1280, 8192), &d, 24), one * 2);
    // Twice the rows: two waves; with 24 units taken, 200 tiles on 76 units: three.
    assert_eq!(TileWave.time(&gemm(5120, 1280, 8192), &d), one * 2);
    assert_eq!(TileWave.time_with_units_taken(&gemm(5120, 1280, 8192), &d, 24), one * 3);
}

/// Sums of 4 bytes, read and written, at 1,000 TB/s: half of that time comes on top of the products, however deep
/// they are, and where power bounds them too; a product that writes its result once has none of it.
#[test]
fn sums_of_weight_gradients_are_not_hidden() {
    let mut device = plain();
    device.bandwidth = Bandwidth::from_gbps(1000.0);
    let (m, n) = (2560, 1280);
    let sums = Time::from_s(0.5 * 2.0 * 4.0 * (m * n) as f64 / 1e12);
    for (k, sustained) in [(1024, 1.0), (8192, 1.0), (8192, 0.5)] {
        device.spec.sustained = sustained;
        let added = Kernel::weight_gradient("sum", m, n, k, Dtype::Bf16, 4.0);
        device.spec.exposed_sums = 0.0;
        let hidden = TileWave.time(&added, &device);
        device.spec.exposed_sums = 0.5;
        let shown = TileWave.time(&added, &device);
        assert!(shown.0.abs_diff((hidden + sums).0) <= 1, "{k}: {shown} instead of {}", hidden + sums);
    }
    let written = gemm(m, n, 8192);
    let before = TileWave.time(&written, &device);
    device.spec.exposed_sums = 0.0;
    assert_eq!(TileWave.time(&written, &device), before);
}

/// With 1.5 % between devices the slowest of 1,024 is 1.82 deviations behind the slowest of eight.
#[test]
fn a_step_of_many_devices_goes_at_the_pace_of_the_slowest() {
    let kernel = gemm(2560, 1280, 8192);
    let mut device = plain();
    device.spec.sustained = 0.5;
    let time = |device: &DeviceCost, devices| TileWave.time(&kernel, &device.clone().slowest_of(devices)).s();
    assert_eq!(time(&device, 1024), time(&device, 8));
    device.spec.spread = 0.015;
    assert_eq!(time(&device, 8), TileWave.time(&kernel, &device).s());
    let slower = time(&device, 1024) / time(&device, 8) - 1.0;
    assert!((slower - 0.015 * (3.245 - 1.424)).abs() < 0.0005, "{slower}");
}

#[test]
fn a_size_curve_is_calculons_step_function() {
    let curve = [(128.0, 0.95), (16.0, 0.9), (1.0, 0.6), (0.0, 0.1)];
    for (size, want) in [(200.0, 0.95), (128.0, 0.95), (127.9, 0.9), (1.0, 0.6), (0.5, 0.1), (0.0, 0.1)] {
        assert_eq!(SizeCurve::fraction(&curve, size), want);
    }
    // 137 GFLOP at 0.95 of 100 TFLOP/s.
    let d = plain();
    let math = 2.0 * 4096f64.powi(3) / 95e12;
    assert_eq!(SizeCurve.time(&gemm(4096, 4096, 4096), &d), Time::from_s(math));
    // 100.7 MB at 0.9 of 1,000 TB/s are hidden in a roofline, and added where nothing overlaps.
    let mut added = d.clone();
    added.spec.processing = Processing::NoOverlap;
    let memory = 3.0 * 4096f64.powi(2) * 2.0 / 0.9e15;
    assert_eq!(SizeCurve.time(&gemm(4096, 4096, 4096), &added), Time::from_s(math + memory));
}

#[test]
fn a_measured_shape_takes_its_measured_time() {
    let mut d = plain();
    d.spec.table =
        vec![MeasuredGemm { m: 4096, n: 4096, k: 4096, groups: 1, accumulate: false, rate_tflops: 50.0 }];
    let want = 2.0 * 4096f64.powi(3) / 50e12;
    assert!((GemmTable.time(&gemm(4096, 4096, 4096), &d).s() / want - 1.0).abs() < 1e-9);
    // Near by, the correction is the same; far away there is none.
    let near = gemm(4096, 5120, 4096);
    let correction = want / TileWave.time(&gemm(4096, 4096, 4096), &d).s();
    assert!((GemmTable.time(&near, &d).s() / TileWave.time(&near, &d).s() / correction - 1.0).abs() < 1e-9);
    let far = gemm(64, 64, 64);
    assert_eq!(GemmTable.time(&far, &d), TileWave.time(&far, &d));
}

#[test]
fn a_missing_format_computes_in_a_wider_one() {
    let d = plain();
    assert_eq!(d.peak(Dtype::Fp8), d.peak(Dtype::Bf16));
    assert_eq!(d.peak(Dtype::Fp16), d.peak(Dtype::Bf16));
    assert_eq!(d.peak(Dtype::Fp32), d.peak(Dtype::Bf16));
}

proptest! {
    /// A larger product, a slower device or more units taken never make a kernel faster.
    #[test]
    fn time_is_monotone(
        (m, n, k) in (1u64..20_000, 1u64..20_000, 1u64..20_000),
        more in 1u64..3000,
        taken in 0u32..200,
        last_wave in 0.0f64..1.0,
    ) {
        let mut d = device(1000.0, 132, 3000.0, CostSpec::default());
        d.spec.last_wave = last_wave;
        d.spec.matrix_by_gflop = vec![(0.0, 0.8)];
        d.spec.memory_by_mb = vec![(0.0, 0.9)];
        let levels: [&dyn Cost; 3] = [&TileWave, &Constant { fraction: None }, &SizeCurve];
        for cost in levels {
            let time = cost.time(&gemm(m, n, k), &d);
            for larger in [gemm(m + more, n, k), gemm(m, n + more, k), gemm(m, n, k + more)] {
                prop_assert!(cost.time(&larger, &d) >= time);
            }
            prop_assert!(cost.time_with_units_taken(&gemm(m, n, k), &d, taken) >= time);
            let mut slow = d.clone();
            slow.bandwidth = Bandwidth(d.bandwidth.0 / 2.0);
            slow.peaks.insert(Dtype::Bf16, FlopRate::from_tflops(500.0));
            prop_assert!(cost.time(&gemm(m, n, k), &slow) >= time);
        }
    }

    /// No kernel beats the roofline of the device.
    #[test]
    fn nothing_beats_the_roofline((m, n, k) in (1u64..20_000, 1u64..20_000, 1u64..20_000)) {
        let d = device(1000.0, 132, 3000.0, CostSpec::default());
        let g = gemm(m, n, k);
        let least = (g.flops / 1000e12).max(g.bytes / 3000e9);
        prop_assert!(TileWave.time(&g, &d).s() >= least);
    }
}

// --- against measurements -------------------------------------------------------------------------------------------

/// A sample of published kernel times (each row names its source), drawn at random from those that the figures were
/// fitted to: what is left as error, by device, op and format.
#[test]
fn measured_kernels_are_met() {
    let rows: Vec<measured::MeasuredRow> = include_str!("../../../tests/data/kernels.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect();
    let find = |name: &str| Some(DeviceCost::new(&shipped(name)));
    let score = measured::score(&rows, &TileWave, find, None);
    assert_eq!(score.rows.len(), rows.len(), "{:?}", score.skipped);
    for g in &score.groups {
        let most = match g.op.as_str() {
            "gemm" => 0.12,
            "attention" => 0.15,
            _ => 0.2,
        };
        println!("{} {} {}: {} rows, mean {:.3}", g.device, g.op, g.dtype, g.rows, g.mean_abs_error);
        assert!(g.mean_abs_error <= most, "{g:?}");
    }
    let only = measured::score(&rows, &TileWave, find, Some("gb200"));
    assert!(only.groups.iter().all(|g| g.device == "gb200") && !only.groups.is_empty());
}

/// A row that cannot be priced is skipped with its reason, and does not stop the rest.
#[test]
fn odd_rows_are_skipped() {
    let row = |text: &str| serde_json::from_str::<measured::MeasuredRow>(text).expect("a row");
    let rows = [
        row(
            r#"{"device": "H100 SXM", "op": "gemm", "m": 8192, "n": 8192, "k": 8192, "time_ms": 1.4, "extra": 1}"#,
        ),
        row(r#"{"device": "H100 SXM", "op": "gemm", "m": 8192, "n": 8192, "time_ms": 1.4}"#),
        row(r#"{"device": "H100 SXM", "op": "gemm", "m": 8192, "n": 8192, "k": 8192}"#),
        row(r#"{"device": "H100 SXM", "op": "launch", "time_ms": 0.002}"#),
        row(r#"{"device": "Abacus", "op": "gemm", "m": 8192, "n": 8192, "k": 8192, "time_ms": 1.4}"#),
        row(r#"{"device": "H100 SXM", "op": "gemm", "m": 8192, "n": 0, "k": 8192, "time_ms": 1.4}"#),
    ];
    let find = |name: &str| (name == "h100-sxm").then(|| DeviceCost::new(&shipped(name)));
    let score = measured::score(&rows, &TileWave, find, None);
    assert_eq!((score.rows.len(), score.skipped.iter().map(|s| s.rows).sum::<usize>()), (1, 5));
    // A row of a long run meets the power limit, one of a short run does not.
    let mut hot = rows[0].clone();
    hot.sustained = Some(true);
    let hot = measured::score(&[hot], &TileWave, find, None);
    assert!(hot.rows[0].priced_s > 1.1 * score.rows[0].priced_s);
}

/// One layer of the 22B model, 8-way tensor parallel, as Korthikanti et al. 2022 time it in table 4: 7.2 ms forward and
/// 11.8 ms backward. Of these, collectives take 4 × 100.7 MB · 7/8 at the measured 235 GB/s bus bandwidth of eight
/// A100s = 1.5 ms each way where they are not hidden. Of what prices them, the clock that a long step leaves was fitted
/// to published steps, these among hundreds.
#[test]
fn a_layer_of_kernels_takes_what_was_measured() {
    let model: ModelSpec =
        serde_json::from_str(include_str!("../../../workloads/models/megatron-22b.json")).expect("a model");
    let shard = Shard {
        micro_batch: 4,
        tensor: 8,
        sequence_parallel: true,
        compute: Dtype::Fp16,
        ..Shard::whole(&model)
    };
    let plan = LayerPlan::transformer(&model, &shard);
    let d = DeviceCost::new(&shipped("a100-sxm-80")).with_maker(Maker::Compiled);
    let kernels = |items: &[Item]| -> f64 {
        items.iter().filter_map(Item::kernel).map(|k| TileWave.time(k, &d).s()).sum::<f64>() * 1e3
    };
    for (name, got, want) in
        [("forward", kernels(&plan.forward), 7.2 - 1.5), ("backward", kernels(&plan.backward), 11.8 - 1.5)]
    {
        println!("{name}: {got:.2} ms of kernels, {want:.2} measured");
        assert!((got / want - 1.0).abs() < 0.10, "{name}: {got:.2} ms instead of {want:.2}");
    }
}

/// Scans of Mamba-2 on H100 (65,536 tokens; milliseconds forward and backward: `ScanCost`), with their convolution.
#[test]
fn scans_take_what_was_measured() {
    let d = DeviceCost::new(&shipped("h100-sxm")).alone();
    for (heads, forward, backward) in [(64, 3.63, 24.4), (128, 7.08, 37.3)] {
        let model: ModelSpec = serde_json::from_value(serde_json::json!({
            "name": "mamba", "layers": 1, "hidden": 2048, "heads": 16, "ffn": 8192, "vocabulary": 1024,
            "sequence": 8192, "mlp": "none",
            "mixer": {"mamba2": {"heads": heads, "head_size": 64, "groups": 1, "state": 64}}
        }))
        .expect("a model");
        let plan = LayerPlan::transformer(&model, &Shard { micro_batch: 8, ..Shard::whole(&model) });
        let scan = |items: &[Item]| -> f64 {
            let kernels = items.iter().filter_map(Item::kernel);
            let of_scan = |k: &&Kernel| k.class.kind() == KernelKind::Scan || k.class == KernelClass::Other;
            kernels.filter(of_scan).map(|k| TileWave.time(k, &d).s()).sum::<f64>() * 1e3
        };
        for (items, want) in [(&plan.forward, forward), (&plan.backward, backward)] {
            let got = scan(items);
            println!("{heads} heads: {got:.2} ms, {want} measured");
            assert!((got / want - 1.0).abs() < 0.20, "{heads} heads: {got:.2} ms instead of {want}");
        }
    }
}

/// Kernels of delta rules on one H100, milliseconds forward and backward (docs/developers/one-gpu.md), without the norms
/// of queries and keys: gated, with a decay a head, and Kimi's, with a decay a channel.
#[test]
fn delta_rules_take_what_was_measured() {
    let d = DeviceCost::new(&shipped("h100-sxm")).alone();
    let gated = serde_json::json!({"gated-delta":
        {"key_heads": 32, "value_heads": 32, "key_size": 128, "value_size": 128, "convolution": 4, "chunk": 64}});
    let kimi =
        serde_json::json!({"kimi-delta": {"heads": 32, "head_size": 128, "convolution": 4, "chunk": 64}});
    let rows = [(&gated, 8192, 0.738, 1.42), (&gated, 16384, 1.444, 2.736), (&kimi, 16384, 3.523, 7.98)];
    for (mixer, tokens, forward, backward) in rows {
        let model: ModelSpec = serde_json::from_value(serde_json::json!({
            "name": "mixer", "layers": 1, "hidden": 2048, "heads": 16, "ffn": 8192, "vocabulary": 1024,
            "sequence": tokens, "mlp": "none", "mixer": mixer
        }))
        .expect("a model");
        let plan = LayerPlan::transformer(&model, &Shard { micro_batch: 1, ..Shard::whole(&model) });
        let scan = |items: &[Item]| -> f64 {
            let is_of = |k: &&Kernel| k.class.kind() == KernelKind::Scan || k.name == "state passing";
            let kernels = items.iter().filter_map(Item::kernel).filter(is_of);
            kernels.map(|k| TileWave.time(k, &d).s()).sum::<f64>() * 1e3
        };
        for (items, want) in [(&plan.forward, forward), (&plan.backward, backward)] {
            let got = scan(items);
            assert!((got / want - 1.0).abs() < 0.10, "{mixer} {tokens}: {got:.3} ms instead of {want}");
        }
    }
}

/// Thin fp32 products of adapters on vector units: rank 16 beside 4,096 and 14,336, forward, input and weight
/// gradients of 4,096 tokens in a step of Llama 3.1 8B on one H100, 75.6 ms in all (docs/developers/one-gpu.md).
#[test]
fn thin_products_of_adapters_take_what_was_measured() {
    let d = DeviceCost::new(&shipped("h100-sxm"));
    let (tokens, rank) = (4096, 16);
    let time = |m, n, k| TileWave.time(&Kernel::gemm("thin", m, n, k, 1, Dtype::Fp32, 4.0), &d).s() * 1e3;
    let of = |inputs, outputs| {
        [(inputs, rank), (rank, outputs)]
            .map(|(from, to)| time(tokens, to, from) + time(tokens, from, to) + time(to, from, tokens))
            .iter()
            .sum::<f64>()
    };
    let layer = of(4096, 4096) * 2.0 + of(4096, 1024) * 2.0 + of(4096, 14336) * 2.0 + of(14336, 4096);
    let got = 32.0 * layer;
    assert!((got / 75.6 - 1.0).abs() < 0.12, "{got:.1} ms instead of 75.6");
}

fn shipped(name: &str) -> stepsim_spec::Device {
    stepsim_spec::load::<stepsim_spec::Device>(name, &[]).expect("a shipped device").value
}

/// A generation that a device does not list runs as the one before it; without one, the fastest; the older the slower.
#[test]
fn attention_goes_by_its_generation() {
    let d = DeviceCost::new(&shipped("h100-sxm"));
    let time = |generation, causal, sequence: u64, width: u64| {
        let pairs = (16 * sequence * sequence) as f64 * if causal { 0.5 } else { 1.0 };
        let kernel = Kernel {
            name: "attention",
            class: KernelClass::AttentionForward,
            shape: KernelShape::Attention {
                batch: 1,
                queries: sequence,
                keys: sequence,
                key_rows: sequence,
                heads: 16,
                kv_heads: 16,
                qk_size: width,
                v_size: width,
                causal,
                direction: Direction::Forward,
                generation,
            },
            flops: 4.0 * pairs * width as f64,
            bytes: 8.0 * (16 * sequence * width) as f64,
            dtype: Dtype::Bf16,
            scaling: Scaling::Tensor,
            tuned: false,
        };
        (TileWave.time(&kernel, &d).s(), kernel.flops)
    };
    use AttentionGeneration as G;
    let old_to_new = [G::Flash1, G::Flash2, G::Compiled, G::Flash3, G::Cudnn];
    let times = old_to_new.map(|g| time(Some(g), true, 8192, 128).0);
    assert!(times.windows(2).all(|w| w[0] > w[1]), "{times:?}");
    assert_eq!(time(None, true, 8192, 128).0, times[4]);
    assert_eq!(time(Some(G::Unfused), true, 8192, 128).0, times[0], "the oldest that it has");
    let rate = |(seconds, flops): (f64, f64)| flops / seconds;
    // Longer sequences and wider heads run at higher rates; a mask costs a little.
    assert!(rate(time(None, true, 32768, 128)) > rate(time(None, true, 2048, 128)));
    assert!(rate(time(None, true, 8192, 128)) > 1.2 * rate(time(None, true, 8192, 64)));
    assert!(rate(time(None, false, 8192, 128)) > rate(time(None, true, 8192, 128)));
}

/// Eager kernels are slower than compiled ones, those slower than tuned ones; a device file may say otherwise.
#[test]
fn a_class_goes_by_its_maker() {
    let d = DeviceCost::new(&shipped("h100-sxm")).cool();
    let norm = Kernel::elementwise(KernelClass::NormBackward, "norm", 1 << 26, 4e8, Dtype::Bf16);
    let by = |maker| TileWave.time(&norm, &d.clone().with_maker(maker));
    assert!(by(Maker::Eager) > by(Maker::Compiled) && by(Maker::Compiled) > by(Maker::Tuned));
    let mut own = d.clone();
    own.spec.classes.insert(
        KernelClass::NormBackward,
        ClassCost { tuned: Some(1.0), floor_us: Some(0.0), ..ClassCost::default() },
    );
    assert_eq!(TileWave.time(&norm, &own), Time::from_s(4e8 / (3350e9 * 0.895)));
}

/// The catalogue's devices run the 8,192³ GEMM on random data at the measured rate, and stay below the best rate of
/// any shape, in TFLOP/s (`hardware/devices.json`, its `measured` figures, which name their sources).
#[test]
fn catalogue_devices_reach_their_measured_rates() {
    for (name, low, high) in [
        ("a100-sxm-80", 257.0, 271.2),
        ("h100-sxm", 790.0, 806.0),
        ("h200-sxm", 769.0, 798.0),
        ("gb200", 1600.0, 1822.0),
        ("mi300x", 640.0, 685.0),
    ] {
        let g = gemm(8192, 8192, 8192);
        let rate = g.flops / TileWave.time(&g, &DeviceCost::new(&shipped(name)).cool()).s() / 1e12;
        println!("{name}: {rate:.0} TFLOP/s");
        assert!(low * 0.99 <= rate && rate <= high * 1.01, "{name}: {rate:.0} TFLOP/s");
    }
}

/// Measured on one H200 (docs/developers/one-gpu.md): forward product of 4,096 tokens of 4,096 to a vocabulary, and
/// scores of heads that are no multiple of 8.
#[test]
fn widths_that_are_not_aligned_are_slow() {
    let unaligned = BTreeMap::from([(1, 0.16), (2, 0.35), (4, 0.35)]);
    let device = device(989.4, 132, 4800.0, CostSpec { unaligned, ..CostSpec::default() });
    let time = |class, n, k| {
        let product = Kernel::gemm("product", 4096, n, k, 1, Dtype::Bf16, 2.0).of(class);
        TileWave.time(&product, &device).s()
    };
    let aligned = time(KernelClass::Gemm, 8192, 4096);
    for (n, slower, class) in [(8191, 8.2, KernelClass::Gemm), (8190, 2.8, KernelClass::GemmInputGrad)] {
        let ratio = time(class, n, 4096) / aligned;
        assert!((ratio / slower - 1.0).abs() < 0.3, "{n}: {ratio}");
    }
    assert!(time(KernelClass::GemmWeightGrad, 8192, 4095) < 1.01 * aligned, "tokens are no width");
    let plain = device.clone().aligned();
    let odd = Kernel::gemm("product", 4096, 8191, 4096, 1, Dtype::Bf16, 2.0);
    assert!(TileWave.time(&odd, &plain).s() < 1.01 * aligned);
}

#[test]
fn rates_of_other_widths_than_1_2_or_4_are_refused() {
    let spec = CostSpec { unaligned: BTreeMap::from([(1, 0.0), (3, 0.5), (4, 0.35)]), ..CostSpec::default() };
    let problems: Vec<String> = spec.validate("cost").iter().map(|problem| format!("{problem:?}")).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
}
