//! DeepSeek-V3's exchanges and DualPipe's cell, held to DeepSeek's published profile.
//!
//! Source: deepseek-ai/profile-data @4496024, `train.json`: one forward and one backward chunk of DualPipe together,
//! four layers each, rank 0 of 64, sequences of 4,096 tokens, H800, 20 units for exchanges. Figures: means of four
//! layers.

use stepsim::core::ids::{OpId, RankId};
use stepsim::core::program::{Phase, StreamKind};
use stepsim::simulate::{Inputs, Options, Simulation};

/// Two stages of four layers with experts on 128 H800, eight micro-batches.
fn cell() -> Simulation {
    stages(2, 8, 129_280)
}

/// So many stages of four layers with experts, each on 64 H800, and a vocabulary.
fn stages(stages: usize, micro_batches: usize, vocabulary: u32) -> Simulation {
    let sets = [
        format!("topology.nodes={}", 8 * stages),
        format!("model.layers={}", 4 * stages),
        "model.prediction_modules=0".to_string(),
        "model.moe.first_dense_layers=0".to_string(),
        format!("parallelism.pipeline.size={stages}"),
        format!("parallelism.pipeline.layer_split={:?}", vec![4; stages]),
        "parallelism.data=64".to_string(),
        format!("model.vocabulary={vocabulary}"),
        format!("batch.global={}", 64 * micro_batches),
        // The profile is one rank's, and the rows that it received were the mean.
        "expert_load.rows_cv=0".to_string(),
    ];
    let inputs = Inputs::load("deepseek-v3", Some("h800-superpod"), &sets).expect("inputs");
    Simulation::run(&inputs, &Options::default()).expect("a run")
}

/// An op of rank 0 in a few words.
struct Ran {
    name: String,
    phase: Phase,
    layer: u32,
    micro_batch: u32,
    exchange: bool,
    /// Microseconds.
    start: f64,
    end: f64,
}

fn ops(run: &Simulation) -> Vec<Ran> {
    ops_of(run, RankId(0))
}

fn ops_of(run: &Simulation, rank: RankId) -> Vec<Ran> {
    let rank = run.folded.source(rank);
    let program = run.folded.world.program_of(rank);
    let kinds = [StreamKind::Compute, StreamKind::Expert];
    let of = |(i, op): (usize, &stepsim::core::program::Op)| {
        let kind = program.streams[usize::from(op.stream)].kind;
        let info = &program.infos[op.info as usize];
        let (start, end) = run.record.span(rank, OpId(i as u32));
        Some(Ran {
            name: info.name.to_string(),
            phase: info.phase,
            layer: info.layer?,
            micro_batch: op.micro_batch,
            exchange: kind == StreamKind::Expert,
            start: start.us(),
            end: end.us(),
        })
        .filter(|_| kinds.contains(&kind))
    };
    program.ops.iter().enumerate().filter_map(of).collect()
}

/// Microseconds of kernels for one layer's forward pass of a micro-batch and backward pass of another in the profile,
/// by class, and how far off they may be here. Weight gradients of experts run on two streams there: they count by
/// the time in which either works. What runs under no name of its own in the profile (small PyTorch kernels, the
/// router) and all else that memory bounds is one class: kernels here are fused further, or apart where they are one
/// there.
const CLASSES: [(&str, f64, f64); 7] = [
    ("dense products", 4710.0, 0.10),
    ("products of experts", 5732.0, 0.10),
    ("weight gradients", 6874.0, 0.10),
    ("attention", 1237.0, 0.10),
    ("attention backward", 4254.0, 0.10),
    ("casts and transposes", 3979.0, 0.10),
    ("other kernels that memory bounds", 4551.0, 0.10),
];

fn class(op: &Ran) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|w| op.name.contains(w));
    match op.name.as_str() {
        "attention" => "attention",
        "attention backward" => "attention backward",
        _ if has(&["cast"]) || op.name == "transpose" => "casts and transposes",
        _ if has(&[
            "norm",
            "activation",
            "permute",
            "rotary",
            "together",
            "split key",
            "router",
            "top-k",
        ]) || has(&["residual", "add gradients", "group scores", "row map"])
            || op.name == "combine backward" =>
        {
            "other kernels that memory bounds"
        }
        _ if has(&["weight gradient"]) => "weight gradients",
        _ if op.name.starts_with("expert ") => "products of experts",
        _ => "dense products",
    }
}

#[test]
fn kernels_of_the_cell_take_what_the_profile_shows() {
    let run = cell();
    let ops = ops(&run);
    // Four layers of a forward pass that end with their combine; the backward pass whose gradients travel between.
    let combines: Vec<&Ran> = ops.iter().filter(|o| o.exchange && o.name == "combine tokens").collect();
    let four =
        combines[combines.len() / 2..].windows(4).find(|w| w[0].micro_batch == w[3].micro_batch).unwrap();
    let forward = four[0].micro_batch;
    let (from, to) = (four[0].start, four[3].start);
    let backward = ops
        .iter()
        .find(|o| o.exchange && o.name == "dispatch backward" && o.start > from)
        .map(|o| o.micro_batch)
        .unwrap();
    let in_forward = |o: &Ran| o.phase == Phase::Forward && o.micro_batch == forward;
    let in_backward = |o: &Ran| o.phase != Phase::Forward && o.micro_batch == backward;
    let layers = |part: &dyn Fn(&Ran) -> bool| -> Vec<u32> {
        let mut layers: Vec<u32> = ops.iter().filter(|o| part(o)).map(|o| o.layer).collect();
        layers.sort_unstable();
        layers.dedup();
        layers
    };
    let of_forward: Vec<u32> = four.iter().map(|o| o.layer).collect();
    let of_backward: Vec<u32> = layers(&|o: &Ran| in_backward(o) && o.start > from && o.end < to);
    let chosen: Vec<&Ran> = ops
        .iter()
        .filter(|o| !o.exchange)
        .filter(|o| {
            in_forward(o) && of_forward.contains(&o.layer) || in_backward(o) && of_backward.contains(&o.layer)
        })
        .collect();
    let mut sum = 0.0;
    for (name, measured, allowed) in CLASSES {
        let us = chosen.iter().filter(|o| class(o) == name).map(|o| o.end - o.start).sum::<f64>() / 4.0;
        let error = us / measured - 1.0;
        println!("{name:34} {us:7.0} us, measured {measured:5.0}: {:+.1} %", 100.0 * error);
        assert!(error.abs() <= allowed, "{name}: {us:.0} us for {measured} us");
        sum += us;
    }
    let measured: f64 = CLASSES.iter().map(|c| c.1).sum();
    println!("all {sum:.0} us, measured {measured:.0}: {:+.1} %", 100.0 * (sum / measured - 1.0));
    assert!((sum / measured - 1.0).abs() < 0.10, "{sum:.0} us for {measured} us");
    // Of the second and third layer, the time in which no kernel runs: 1.0 % measured (3.3 % of all four, with the
    // chunk's ends).
    let exchanges: Vec<&Ran> = ops.iter().filter(|o| o.exchange).collect();
    let at = exchanges.iter().position(|o| std::ptr::eq(*o, four[0])).unwrap();
    let (start, end) = (exchanges[at + 1].start, exchanges[at + 9].start);
    let inside = |o: &&Ran| !o.exchange && o.end > start && o.start < end;
    let busy: f64 = ops.iter().filter(inside).map(|o| o.end.min(end) - o.start.max(start)).sum();
    let exposed = 1.0 - busy / (end - start);
    println!("exposed {:.1} %", 100.0 * exposed);
    assert!((exposed - 0.010).abs() < 0.03, "{exposed}");
}

/// Whole chunks of a stage between others, with next to no head, as in the profile: a pair of chunks there takes
/// 129,012 us, and 124,286 us of it are covered by kernels.
#[test]
fn little_of_a_chunk_is_exposed() {
    let run = stages(4, 40, 1024);
    let ops = ops_of(&run, RankId(64));
    let dispatched: Vec<&Ran> = ops.iter().filter(|o| o.exchange && o.name == "dispatch tokens").collect();
    let chunks: Vec<&[&Ran]> = dispatched.chunks(4).collect();
    assert!(chunks.len() == 40 && chunks.iter().all(|c| c.iter().all(|o| o.micro_batch == c[0].micro_batch)));
    let (start, end) = (chunks[12][0].start, chunks[28][0].start);
    let inside = |o: &&Ran| !o.exchange && o.end > start && o.start < end;
    let busy: f64 = ops.iter().filter(inside).map(|o| o.end.min(end) - o.start.max(start)).sum();
    let (chunk, exposed) = ((end - start) / 16.0, 1.0 - busy / (end - start));
    println!("a pair of chunks {chunk:.0} us, exposed {:.1} %", 100.0 * exposed);
    assert!((chunk / 129_012.0 - 1.0).abs() < 0.05, "{chunk}");
    assert!((exposed - (1.0 - 124_286.0 / 129_012.0)).abs() < 0.03, "{exposed}");
}

#[test]
fn exchanges_and_their_order_are_those_of_the_profile() {
    let run = cell();
    let ops = ops(&run);
    // A pair in the steady state: the backward pass of a micro-batch whose experts run under a forward pass of another.
    let exchanges: Vec<&Ran> = ops.iter().filter(|o| o.exchange).collect();
    let order = ["combine backward tokens", "dispatch tokens", "dispatch backward", "combine tokens"];
    let cells: Vec<&[&Ran]> = exchanges
        .windows(4)
        .filter(|four| four.iter().zip(order).all(|(o, name)| o.name == name))
        .filter(|four| four[0].micro_batch != four[1].micro_batch)
        .collect();
    assert!(cells.len() >= 4 * 3, "{} cells", cells.len());
    // The first dispatch with the 102 us in which it is counted who gets how many.
    let measured_us = [3405.25, 4346.0 + 102.5, 6368.25, 5993.75];
    for four in &cells[cells.len() / 2..cells.len() / 2 + 3] {
        for (o, measured) in four.iter().zip(measured_us) {
            let error = (o.end - o.start) / measured - 1.0;
            assert!(error.abs() < 0.10, "{}: {:.0} us for {measured} us", o.name, o.end - o.start);
        }
        let [combine_back, dispatch, dispatch_back, combine] = [four[0], four[1], four[2], four[3]];
        let kernels = |part: &dyn Fn(&Ran) -> bool| -> (f64, f64) {
            let of: Vec<&Ran> = ops.iter().filter(|o| !o.exchange && part(o)).collect();
            assert!(!of.is_empty());
            let start = of.iter().map(|o| o.start).fold(f64::INFINITY, f64::min);
            (start, of.iter().map(|o| o.end).fold(0.0, f64::max))
        };
        let forward = |o: &Ran| o.phase == Phase::Forward && o.micro_batch == dispatch.micro_batch;
        let backward = |phase: Phase| {
            move |o: &Ran| {
                o.phase == phase && o.micro_batch == combine_back.micro_batch && o.layer == combine_back.layer
            }
        };
        let experts = |o: &Ran| o.name.starts_with("expert ");
        let mlp_back = kernels(&|o| backward(Phase::InputGrad)(o) && experts(o));
        let mlp_weights = kernels(&|o| backward(Phase::WeightGrad)(o) && experts(o));
        let mlp = kernels(&|o| forward(o) && o.layer == dispatch.layer && experts(o));
        let attn_back = kernels(&|o| backward(Phase::InputGrad)(o) && o.name == "attention backward");
        let attn_weights = kernels(&|o| backward(Phase::WeightGrad)(o) && o.name.starts_with("projection"));
        let attn = kernels(&|o| forward(o) && o.layer == dispatch.layer && o.name == "attention");
        // On the compute stream: attn(F), mlp(B), mlp(W), mlp(F), attn(B), attn(W).
        let parts = [attn, mlp_back, mlp_weights, mlp, attn_back, attn_weights];
        assert!(parts.windows(2).all(|two| two[0].1 <= two[1].0), "{parts:?}");
        // Waits: each exchange after the kernels whose rows it sends, the kernels that read them after it.
        assert!(dispatch.start >= attn.1 && mlp.0 >= dispatch.end);
        assert!(mlp_back.0 >= combine_back.end && dispatch_back.start >= mlp_back.1);
        assert!(attn_back.0 >= dispatch_back.end && combine.start >= mlp.1);
    }
}

/// What limits the exchange of 64 ranks on eight nodes: the network ports when they are halved, not NVLink.
#[test]
fn half_the_network_doubles_the_exchange_and_half_of_nvlink_does_not() {
    let combine = |setting: &str| -> f64 {
        let sets = ["topology.nodes=8", "parallelism.pipeline.size=1", "parallelism.pipeline.schedule=1f1b"];
        let more = ["parallelism.data=64", "model.layers=4", "batch.global=64", setting];
        let layers = [
            "parallelism.pipeline.layer_split=[4]",
            "model.moe.first_dense_layers=0",
            "model.prediction_modules=0",
            "expert_load.rows_cv=0",
        ];
        let sets: Vec<String> = sets
            .iter()
            .chain(&more)
            .chain(&layers)
            .filter(|s| !s.is_empty())
            .map(|s| s.to_string())
            .collect();
        let inputs = Inputs::load("deepseek-v3", Some("h800-superpod"), &sets).expect("inputs");
        let run = Simulation::run(&inputs, &Options::default()).expect("a run");
        let times = ops(&run).into_iter().filter(|o| o.name == "combine tokens").map(|o| o.end - o.start);
        times.fold(0.0, f64::max)
    };
    let whole = combine("");
    let nic = combine("topology.node.nics.link.bandwidth_GBps_per_direction=25");
    let nvlink = combine("topology.node.scale_up.switch.link.bandwidth_GBps_per_direction=100");
    assert!(nic / whole > 1.4 && nic / whole < 2.1, "{nic} us after {whole} us");
    assert!(nvlink / whole < 1.05, "{nvlink} us after {whole} us");
    // Four times the units: the ports limit. Half of them: the channels do.
    let units = |n: u32| combine(&format!("expert.units={n}"));
    assert!(units(10) / whole > 1.8 && units(40) < whole);
}

/// Seconds that the launches of rank 0 hold its host, with what is read back from the device.
fn launching(reads: &str) -> f64 {
    let sets =
        ["model.layers=2".to_string(), "batch.global=32".to_string(), format!("stack.host.reads={reads}")];
    let inputs = Inputs::load("qwen3-30b-a3b-gb200", None, &sets).expect("inputs");
    let run = Simulation::run(&inputs, &Options::default()).expect("a run");
    let program = &run.folded.world.programs()[run.folded.world.ranks()[0].program.index()];
    let host = |op: &&stepsim::core::program::Op| {
        program.streams[usize::from(op.stream)].kind == StreamKind::Host
            && program.infos[op.info as usize].name.starts_with("launch")
    };
    let seconds = |op: &stepsim::core::program::Op| match op.work {
        stepsim::core::program::Work::Compute { time } => time.s(),
        _ => 0.0,
    };
    program.ops.iter().filter(host).map(seconds).sum()
}

/// Where the host reads how many rows each expert has, their products are launched one by one; rows that are padded
/// to a capacity are captured with their layer.
#[test]
fn padded_experts_are_captured_with_their_layer() {
    let (counted, padded) = (launching(r#"["expert-counts"]"#), launching("[]"));
    // One micro-batch, two layers: work around their products both ways, and six products of 16 experts, 8 us for
    // each but the first.
    let one_by_one = 2.0 * (1.2e-3 + 1.6e-3) + 2.0 * 6.0 * 15.0 * 8e-6;
    assert!(counted - padded > one_by_one, "{counted} s with counts, {padded} s without");
    assert!(padded < 0.2 * counted, "{padded} s of {counted}");
}
