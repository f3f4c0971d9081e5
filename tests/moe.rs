//! DeepSeek-V3's exchanges and DualPipe's cell, held to DeepSeek's published profile.
//!
//! Source: deepseek-ai/profile-data @4496024, `train.json`: one forward and one backward chunk of DualPipe together, four
//! layers each, rank 0 of 64, sequences of 4,096 tokens, H800, 20 units for exchanges. Figures: means of four layers.

use stepsim::ids::{OpId, RankId};
use stepsim::program::{Phase, StreamKind};
use stepsim::simulate::{Inputs, Options, Simulation};

/// Two stages of four layers with experts on 128 H800, eight micro-batches.
fn cell() -> Simulation {
    let sets = [
        "topology.nodes=16",
        "model.layers=8",
        "model.moe.first_dense_layers=0",
        "parallelism.pipeline.size=2",
        "parallelism.pipeline.layer_split=[4,4]",
        "parallelism.data=64",
        "batch.global=512",
    ];
    let inputs = Inputs::load("deepseek-v3", Some("h800-superpod"), &sets.map(String::from)).expect("inputs");
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
    let rank = RankId(0);
    let program = run.folded.world.program_of(rank);
    let kinds = [StreamKind::Compute, StreamKind::Expert];
    let of = |(i, op): (usize, &stepsim::program::Op)| {
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
    let measured_us = [3405.25, 4346.0, 6368.25, 5993.75];
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
        let layers = ["parallelism.pipeline.layer_split=[4]", "model.moe.first_dense_layers=0"];
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
